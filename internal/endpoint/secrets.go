package endpoint

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// The fewest bytes of a secret: what is shorter is a placeholder, such as "ollama".
const (
	minSecret = 8  // in what servers say of failures
	minAnswer = 16 // in answers, which may well have a word like "anything"
)

// secrets are what the options have that is not to be shown, by where it would be.
type secrets struct {
	faults  *value.Redactor // the key, the values of the headers and the words of those, Options.Secrets
	answers *value.Redactor // the key and Options.Secrets
	paths   *value.Redactor // Options.Secrets
	plain   []string        // what answers are searched for
}

func secretsOf(opts Options) secrets {
	of := func(least int, texts []string) []string {
		return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return len(s) < least })
	}
	own := append([]string{opts.APIKey}, opts.Secrets...)
	all := slices.Clone(own)
	for _, header := range opts.Headers {
		all = append(append(all, header), strings.Fields(header)...) // Bearer TOKEN
	}
	plain := of(minAnswer, own)
	return secrets{
		faults:  value.NewRedactor(of(minSecret, all)),
		answers: value.NewRedactor(plain),
		paths:   value.NewRedactor(opts.Secrets),
		plain:   plain,
	}
}

// shown is a URL for messages: no user, query or fragment, which may hold secrets, and none in its path.
func (c *Client) shown(u *url.URL) string {
	path := "/" + c.secrets.paths.Text(strings.TrimPrefix(u.EscapedPath(), "/"))
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() + path
}

// clean takes the secrets out of an answer.
func (s secrets) clean(resp *runtime.Response) {
	if s.answers == nil {
		return
	}
	resp.Text, resp.Model = s.answers.Text(resp.Text), s.answers.Text(resp.Model)
	s.cleanParts(resp.Parts)
	for i := range resp.ToolCalls {
		call := &resp.ToolCalls[i]
		call.ID, call.Name = s.answers.Text(call.ID), s.answers.Text(call.Name)
		call.Arguments = s.cleanJSON(call.Arguments)
		s.cleanParts(call.Parts)
	}
}

func (s secrets) cleanParts(parts []runtime.Part) {
	for i := range parts {
		parts[i].Data = s.cleanJSON(parts[i].Data)
	}
}

// Shown hands on an answer while it comes, without the secrets in it. Other forms of them than the plain one go when
// all is there, so that the text is not held up.
type Shown struct {
	secrets        secrets
	emit           func(runtime.Delta)
	names          map[string]string // of tools, by what they are on the wire
	began          bool
	text, thinking string // held back: it may be the beginning of a secret
}

// Shows makes a Shown that calls emit. names has the tools that were offered, by what they are on the wire.
func (c *Client) Shows(emit func(runtime.Delta), names map[string]string) *Shown {
	return &Shown{secrets: c.secrets, emit: emit, names: names}
}

// Add takes a piece of the text, and hands on what is sure by now.
func (s *Shown) Add(piece string) {
	s.began = true
	s.show(runtime.DeltaText, s.sure(&s.text, piece))
}

// Think takes a piece of what the model thinks, and hands on what is sure by now.
func (s *Shown) Think(piece string) { s.show(runtime.DeltaThinking, s.sure(&s.thinking, piece)) }

// Call hands on that a call of a tool begins.
func (s *Shown) Call(name string) {
	s.show(runtime.DeltaToolCall, s.secrets.answers.Text(cmp.Or(s.names[name], name)))
}

// sure is what is sure by now of a text, with a piece more of it.
func (s *Shown) sure(of *string, piece string) string {
	text, held := *of+piece, 0
	for _, secret := range s.secrets.plain {
		text = strings.ReplaceAll(text, secret, value.Redacted)
	}
	for _, secret := range s.secrets.plain {
		for n := min(len(secret)-1, len(text)); n > held; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				held = n
			}
		}
	}
	*of = text[len(text)-held:]
	return text[:len(text)-held]
}

// End takes the secrets out of the whole answer, and hands on what of its text is left: all of it, if it came at once.
func (s *Shown) End(resp *runtime.Response) {
	s.secrets.clean(resp)
	s.show(runtime.DeltaThinking, s.thinking)
	if s.began {
		s.show(runtime.DeltaText, s.text)
	} else {
		s.show(runtime.DeltaText, resp.Text)
	}
}

func (s *Shown) show(kind, text string) {
	if text != "" {
		s.emit(runtime.Delta{Kind: kind, Text: text})
	}
}

// cleanJSON leaves JSON as it is, to the byte, unless there is a secret in it.
func (s secrets) cleanJSON(text json.RawMessage) json.RawMessage {
	clean := s.answers.Text(string(text))
	if clean == string(text) {
		return text
	}
	if v, err := value.Decode(text); err == nil {
		if whole, err := value.JSON(s.answers.Value(v)); err == nil {
			return whole
		}
	}
	return value.AppendString(nil, clean)
}
