package worker

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Trigger begins runs of a recipe for the signed requests of another system, such as the webhooks of a code host.
// [NewTrigger] makes one.
type Trigger struct {
	conf   TriggerConfig
	secret []byte
	inputs *expr.Template
	key    *expr.Template // nil: each request begins a run
}

// TriggerConfig describes a [Trigger].
type TriggerConfig struct {
	Name  string // begins the ids of runs: letters, digits and - _ .
	Start Start  // records a run
	// Store has the clock by which requests are too old, see checkpoint.Clocked. nil: the clock of this machine has it.
	Store  checkpoint.Store
	Queue  string // of the runs; "": none, see Worker
	Labels map[string]string
	// Signature is how requests are signed: SignedGitHub or SignedStandard.
	Signature string
	Secret    string // of the signature
	// Inputs are the inputs of a run, with expressions over body, the decoded JSON of the request, and headers, whose
	// names are in lower case.
	Inputs map[string]any
	// Key is a text with expressions like Inputs, the same for repetitions of a request: they begin one run. "": each
	// request begins a run, unless its signature carries an id.
	Key string
	// Positions are where the texts of Inputs and Key stand, by path: key, inputs/NAME, inputs/LIST/0. Errors of their
	// expressions begin with them. A text without one stands in the trigger.
	Positions map[string]diagnostics.Position
}

// How requests are signed.
const (
	SignedGitHub   = "github"   // X-Hub-Signature-256: sha256= and the HMAC of the body in hex
	SignedStandard = "standard" // webhook-id, webhook-timestamp and webhook-signature, see Sign
)

// What an expression of a trigger may read.
var triggerVars = []expr.Var{{Name: "body", Index: 0}, {Name: "headers", Index: 1}}

// NewTrigger checks a trigger, and compiles its expressions. The error is a *diagnostics.Error if one of them is at
// fault.
func NewTrigger(c TriggerConfig) (*Trigger, error) {
	t := &Trigger{conf: c, secret: []byte(c.Secret)}
	at := time.Unix(0, 0)
	fail := func(format string, args ...any) (*Trigger, error) {
		return nil, fmt.Errorf("trigger %q: "+format, append([]any{c.Name}, args...)...)
	}
	if (checkpoint.Run{ID: t.runID(""), Digest: "0", StartedAt: at}).Check() != nil {
		return fail("its name begins the ids of its runs, so it has letters, digits and - _ . only")
	}
	switch {
	case c.Start == nil:
		return fail("it has no Start")
	case c.Signature != SignedGitHub && c.Signature != SignedStandard:
		return fail("unknown signature %q\n  hint: it is %q or %q", c.Signature, SignedGitHub, SignedStandard)
	case len(c.Secret) < minSecret:
		return fail("its secret has %d bytes, and needs %d", len(c.Secret), minSecret)
	}
	if c.Signature == SignedStandard {
		var err error
		if t.secret, err = decodeSecret(c.Secret); err != nil {
			return fail("%w", err)
		}
	}
	var found diagnostics.List
	t.inputs = c.lower("inputs", map[string]any(c.Inputs), &found)
	if c.Key != "" {
		t.key = c.lower("key", c.Key, &found)
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// Name returns the name of the trigger.
func (t *Trigger) Name() string { return t.conf.Name }

// minSecret is how many bytes a secret needs at least.
const minSecret = 16

// lower compiles the expressions in the value at a path.
func (c *TriggerConfig) lower(path string, v any, found *diagnostics.List) *expr.Template {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		items := make([]*expr.Template, len(keys))
		for i, key := range keys {
			items[i] = c.lower(path+"/"+key, v[key], found)
		}
		return expr.Map(keys, items)
	case []any:
		items := make([]*expr.Template, len(v))
		for i := range v {
			items[i] = c.lower(fmt.Sprintf("%s/%d", path, i), v[i], found)
		}
		return expr.List(items)
	case string:
		t, list := (&expr.Scope{Vars: triggerVars}).Text(expr.Source{Text: v, Pos: c.at(path), Offset: -1})
		*found = append(*found, list...)
		return t
	}
	return expr.Literal(v)
}

// at is where the text at a path stands.
func (c *TriggerConfig) at(path string) diagnostics.Position {
	if at, known := c.Positions[path]; known {
		return at
	}
	return diagnostics.Position{File: fmt.Sprintf("trigger %q, %s", c.Name, path)}
}

// Accept checks a request, and records a run for it. For a request that has its run already, it returns the id of that
// run. The error is a *runtime.Error: hook.signature if the request is not signed or was signed more than five minutes
// ago, hook.body if its body is not JSON, expr.failed if an expression cannot be evaluated, else what Start returned.
func (t *Trigger) Accept(ctx context.Context, header http.Header, body []byte) (runID string, err error) {
	if err := t.check(ctx, header, body); err != nil {
		return "", &runtime.Error{Category: runtime.CategoryConfig, Code: "hook.signature",
			Err: fmt.Errorf("trigger %q: %w", t.conf.Name, err)}
	}
	decoded, err := value.DecodeStrict(body)
	if err != nil {
		return "", &runtime.Error{Category: runtime.CategoryConfig, Code: "hook.body",
			Err: fmt.Errorf("trigger %q: the body is not JSON: %w", t.conf.Name, err)}
	}
	req := request{decoded, headers(header)}
	inputs, err := t.inputs.Eval(req)
	if err == nil {
		runID, err = t.name(req, header)
	}
	if err != nil {
		return "", &runtime.Error{Category: runtime.CategoryConfig, Code: "expr.failed", Err: err}
	}
	opts := &workflow.EnqueueOptions{RunID: runID, Queue: t.conf.Queue, Labels: t.conf.Labels,
		By: "trigger " + t.conf.Name}
	m, _ := inputs.(map[string]any)
	begun, err := t.conf.Start(ctx, m, opts)
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code == "run.exists" && runID != "" {
		return runID, nil
	}
	return begun, err
}

// name is the id of the run for a request; "": any.
func (t *Trigger) name(req request, header http.Header) (string, error) {
	if t.key == nil {
		if id := header.Get(webhookID); id != "" && t.conf.Signature == SignedStandard {
			return t.runID(id), nil
		}
		return "", nil
	}
	key, err := t.key.Eval(req)
	if err != nil {
		return "", err
	}
	text, err := value.Text(key)
	if err == nil && text == "" {
		err = fmt.Errorf("%s: the key of the request is empty", t.conf.at("key"))
	}
	return t.runID(text), err
}

// runID is the id of the run for a key.
func (t *Trigger) runID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return t.conf.Name + "-" + hex.EncodeToString(sum[:16])
}

// check checks the signature of a request.
func (t *Trigger) check(ctx context.Context, header http.Header, body []byte) error {
	if t.conf.Signature == SignedStandard {
		return verify(t.secret, header, body, execution.Now(ctx, t.conf.Store))
	}
	given, ok := strings.CutPrefix(header.Get("X-Hub-Signature-256"), "sha256=")
	sum, err := hex.DecodeString(given)
	if !ok || err != nil {
		return errors.New("the header X-Hub-Signature-256 is missing or malformed")
	}
	mac := hmac.New(sha256.New, t.secret)
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), sum) {
		return errors.New("the signature is not of this body and secret")
	}
	return nil
}

// headers are the headers of a request for expressions: the first value of each.
func headers(h http.Header) map[string]any {
	m := make(map[string]any, len(h))
	for name, values := range h {
		m[strings.ToLower(name)] = strings.ToValidUTF8(values[0], "\uFFFD")
	}
	return m
}

// request is what names in the expressions of a trigger stand for.
type request struct {
	body    any
	headers map[string]any
}

func (request) Inputs() map[string]any                          { return nil }
func (request) Consts() map[string]any                          { return nil }
func (request) Run() map[string]any                             { return nil }
func (request) Step(expr.StepRef) (status string, out, err any) { return "", nil, nil }
func (request) Told(expr.StepRef, string) any                   { return nil }

// Var returns one of triggerVars.
func (r request) Var(_, index int) any {
	if index == 0 {
		return r.body
	}
	return r.headers
}
