package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/clock"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// answer is an answer to a pause.
type answer struct {
	Decision string   `json:"decision,omitempty" doc:"One of the decisions of the pause; a lone one need not be named."`
	Form     anything `json:"form,omitzero" doc:"What the schema of the pause asks for, beside a decision."`
	Value    anything `json:"value,omitzero" doc:"The answer to a pause without decisions."`
	Question string   `json:"question,omitempty" doc:"Of the pause that was shown: no other is answered."`
	Force    bool     `json:"force,omitempty" doc:"Retry a call whose processes still live; in bulk, cancel, too."`
}

// value is the answer as the pause takes it; nil: nothing is said.
func (a *answer) value() (any, error) {
	switch {
	case a.Value.given && (a.Decision != "" || a.Form.given):
		return nil, malformed("request.body", "there are a value and a decision or form"+
			"\n  hint: a pause with decisions takes decision and form, another takes value")
	case a.Value.given:
		return a.Value.v, nil
	case a.Decision == "" && !a.Form.given:
		return nil, nil
	case a.Decision == "":
		return map[string]any{"form": a.Form.v}, nil
	case !a.Form.given:
		return resume.AnswerOf(a.Decision, nil), nil
	}
	return map[string]any{"decision": a.Decision, "form": a.Form.v}, nil
}

// answerPause answers POST /runs/{id}/pauses/{pause}/answer.
func (c *call) answerPause() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	var in answer
	if err := c.body(&in); err != nil {
		return err
	}
	patience, err := c.prefer()
	if err != nil {
		return err
	}
	status, err := c.putAnswer(s.ID, c.r.PathValue("pause"), in, false)
	if err != nil {
		return err
	}
	return c.acceptOrWait(status, s.ID, patience)
}

// putAnswer leaves an answer: 202, or 200 if the same person gave the same answer before. Who is vouched for may
// answer, whoever it is: who has a token of the pause.
func (c *call) putAnswer(runID, pause string, in answer, vouched bool) (status int, err error) {
	v, err := in.value()
	if err != nil {
		return 0, err
	}
	data := map[string]any{"pause": pause}
	if v != nil || in.Value.given {
		data["value"] = v
	}
	if in.Question != "" {
		data["question"] = in.Question
	}
	if in.Force {
		data["force"] = true
	}
	by, o := c.by(), &workflow.SignalOptions{Vouched: vouched}
	if c.who != nil {
		o.Groups = c.who.groups
	}
	err = c.signal(runID, checkpoint.SignalAnswer, by, data, o)
	e, ok := errors.AsType[*runtime.Error](err)
	switch {
	case ok && e.Code == "pause.answered" && c.answeredSo(runID, pause, by, v):
		return http.StatusOK, nil
	case ok && isOver(e.Code):
		return 0, cmp.Or(c.became(runID, pause, nil), unknownPause(runID, pause))
	case in.Value.given:
		return http.StatusAccepted, within("/value", err)
	}
	return http.StatusAccepted, within("/form", err)
}

// signal leaves a signal of who sends the request.
func (c *call) signal(runID, kind, by string, data map[string]any, o *workflow.SignalOptions) error {
	text, err := value.JSON(data)
	if err != nil {
		return err
	}
	return workflow.Signal(c.r.Context(), runID, checkpoint.Signal{Kind: kind, Data: text, By: by}, c.Store, o)
}

// isOver reports whether an error says that a pause is not pending.
func isOver(code string) bool {
	return code == "pause.answered" || code == "resume.invalidToken" || code == "run.ended"
}

func unknownPause(runID, pause string) error {
	return absent("pause.unknown", "run %q has no pending pause %q\n  hint: GET %s/pauses has all",
		runID, pause, prefix)
}

// answeredSo reports whether somebody has given an answer before.
func (c *call) answeredSo(runID, pause, by string, v any) bool {
	s := c.answerTo(runID, pause)
	if s == nil || s.By != by {
		return false
	}
	data, _ := value.Decode(s.Data)
	m, _ := data.(map[string]any)
	return value.Equal(m["value"], v)
}

// answerTo returns the signal that answers a pause; nil: none does. The first one counts.
func (c *call) answerTo(runID, pause string) *checkpoint.Signal {
	all, err := c.store.Signals(c.r.Context(), runID, false)
	if err != nil {
		return nil
	}
	for i, s := range all {
		data, _ := value.Decode(s.Data)
		if m, _ := data.(map[string]any); s.Kind == checkpoint.SignalAnswer && m["pause"] == pause {
			return &all[i]
		}
	}
	return nil
}

// settled reports whether a run has ended, or waits for somebody who has not answered.
func (c *call) settled(ctx context.Context, runID string) (bool, error) {
	s, _, err := c.store.Load(ctx, runID, math.MaxInt64)
	if err != nil || s.Status.Ended() {
		return true, err
	}
	if s.Status != checkpoint.Paused || s.Held {
		return false, nil
	}
	open, err := c.store.Signals(ctx, runID, true)
	return len(open) == 0, err
}

// minted is a token of a pause.
type minted struct {
	Token string `json:"token" doc:"Whoever has it may answer the pause, once."`
	URL   string `json:"url" doc:"A link for people, with the token in its fragment."`
}

// mintToken answers POST /runs/{id}/pauses/{pause}/tokens.
func (c *call) mintToken() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	token, err := workflow.Mint(c.r.Context(), s.ID, c.r.PathValue("pause"), c.Store)
	if e, ok := errors.AsType[*runtime.Error](err); ok && isOver(e.Code) {
		return cmp.Or(c.became(s.ID, c.r.PathValue("pause"), nil), unknownPause(s.ID, c.r.PathValue("pause")))
	} else if err != nil {
		return err
	}
	return c.reply(http.StatusOK, minted{token, c.base() + "/#answer=" + token})
}

// base is the address of the handler, without a slash at its end.
func (c *call) base() string {
	if c.URL != "" {
		return strings.TrimRight(c.URL, "/")
	}
	scheme := "http://"
	if c.r.TLS != nil {
		scheme = "https://"
	}
	return scheme + c.r.Host + c.mount()
}

// bearer is a token of a pause.
type bearer struct {
	Token string `json:"token" doc:"Of the pause."`
}

// answerBy is an answer by token.
type answerBy struct {
	bearer
	answer
}

// find returns the pending pause of a token.
func (c *call) find(token string) (checkpoint.PauseInfo, error) {
	if err := c.gate.patience(c.r); err != nil {
		return checkpoint.PauseInfo{}, err
	}
	id, hash, err := resume.Parse(token)
	var info checkpoint.PauseInfo
	if err == nil {
		info, err = c.store.FindPause(c.r.Context(), id, hash)
	}
	if !errors.Is(err, checkpoint.ErrToken) {
		return info, err
	}
	if id != "" {
		if over := c.became(id, "", hash); over != nil {
			return info, over
		}
	}
	c.gate.mistaken(c.r)
	return info, fail(http.StatusConflict, "resume.invalidToken", "the token is unknown, used or expired"+
		"\n  hint: ask for another one; the operator of the server can make it")
}

// became says what became of a pause that is not pending: of the one with an id or, if that is "", of the one with the
// hash of a token. nil: there never was such a pause.
func (c *call) became(runID, pause string, hash []byte) error {
	_, recs, err := c.store.Load(c.r.Context(), runID, 0)
	if err != nil {
		return nil
	}
	said, late, pauses := "", false, map[string]resume.Pause{} // late: nobody has noted yet that the pause expired
	for _, rec := range recs {
		e, err := journal.Decode(rec)
		if err != nil {
			return nil
		}
		switch what := e.What.(type) {
		case journal.PauseOpened:
			pauses[what.Pause.ID] = what.Pause
			if what.Pause.ID == pause {
				said = c.taken(runID, pause)
			}
		case journal.TokenMinted:
			if hash != nil && bytes.Equal(what.Hash, hash) {
				pause, said = what.Pause, c.taken(runID, what.Pause)
				now, _ := clock.Of(c.r.Context(), c.Store)
				late = !what.ExpiresAt.IsZero() && now.After(what.ExpiresAt)
				if late {
					said = "expired at " + moments(what.ExpiresAt) +
						"\n  hint: what its on_expire says is the answer now"
				}
			}
		case journal.PauseAnswered:
			if what.Pause == pause {
				late = false
				said = becameOf(&what, pauses[pause], e.By, e.At)
			}
		case journal.PauseClosed:
			if what.Pause == pause {
				late = false
				said = "was closed at " + moments(e.At) + ", as it no longer needs an answer"
			}
		}
	}
	switch {
	case said == "":
		return nil
	case late:
		p := conflict("pause.expired", "pause %q %s", pause, said)
		p.Category = string(runtime.CategoryConfirmation)
		return p
	}
	return conflict("pause.answered", "pause %q %s", pause, said)
}

// taken words that a pause has an answer, of which the journal does not tell yet.
func (c *call) taken(runID, pause string) string {
	if s := c.answerTo(runID, pause); s != nil {
		return becameOf(&journal.PauseAnswered{Next: resume.Answered}, resume.Pause{}, s.By, s.At)
	}
	return "has an answer that a worker is about to carry out"
}

// becameOf words the end of a pause.
func becameOf(end *journal.PauseAnswered, p resume.Pause, by string, at time.Time) string {
	if end.Next == resume.Answered && by == "" && !p.ExpiresAt.IsZero() && !at.Before(p.ExpiresAt) {
		text := "expired at " + moments(p.ExpiresAt) + ", so its on_expire was the answer"
		if m, _ := end.Answer.(map[string]any); m["decision"] != nil {
			text += fmt.Sprintf(": %v", m["decision"])
		}
		return text
	}
	text := map[resume.Next]string{resume.Answered: "was answered", resume.Failed: "expired",
		resume.GoOn: "is over"}[end.Next]
	if by != "" {
		text += fmt.Sprintf(" by %q", by)
	}
	return text + " at " + moments(at)
}

// moments prints a time in UTC.
func moments(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// showPause answers GET /runs/{id}/pauses/{pause}.
func (c *call) showPause() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	signals, err := c.store.Signals(c.r.Context(), s.ID, true)
	if err != nil {
		return err
	}
	told, err := c.reader.Load(c.r.Context(), s.ID)
	if err != nil {
		return err
	}
	id := c.r.PathValue("pause")
	for _, p := range pendingOf(s, told, signals) {
		if p.ID == id {
			return c.reply(http.StatusOK, p)
		}
	}
	return cmp.Or(c.became(s.ID, id, nil), unknownPause(s.ID, id))
}

// lookToken answers POST /token/look.
func (c *call) lookToken() error {
	var in bearer
	if err := c.body(&in); err != nil {
		return err
	}
	info, err := c.find(in.Token)
	if err != nil {
		return err
	}
	opened, err := resume.Opened(info.Opened)
	if err != nil {
		return err
	}
	asked := []pause{pauseOf(info.Summary, opened)}
	showLiving(asked)
	return c.reply(http.StatusOK, asked[0])
}

// answerToken answers POST /token/answer.
func (c *call) answerToken() error {
	var in answerBy
	if err := c.body(&in); err != nil {
		return err
	}
	info, err := c.find(in.Token)
	if err != nil {
		return err
	}
	status, err := c.putAnswer(info.Summary.ID, info.Pause.ID, in.answer, true)
	if err != nil {
		return err
	}
	return c.accept(status, info.Summary.ID)
}

// sent is a value for a channel.
type sent struct {
	Value anything `json:"value" doc:"Any JSON that the channel takes."`
}

// told is a note to an agent.
type told struct {
	Step string `json:"step,omitempty" doc:"The path of the agent. Without it, the only one."`
	Text string `json:"text" minLength:"1"`
}

// cancelled is why a run is cancelled.
type cancelled struct {
	Reason string `json:"reason,omitempty" doc:"For people."`
	Force  bool   `json:"force,omitempty" doc:"End the run although the outcome of a call is unknown."`
}

func (c *call) cancel() error {
	var in cancelled
	return c.order(checkpoint.SignalCancel, &in, func() map[string]any { return in.data() })
}

func (in *cancelled) data() map[string]any {
	data := map[string]any{}
	if in.Reason != "" {
		data["reason"] = in.Reason
	}
	if in.Force {
		data["force"] = true
	}
	return data
}

func (c *call) recover() error {
	return c.order(checkpoint.SignalTake, nil, func() map[string]any { return map[string]any{} })
}

func (c *call) sendValue() error {
	var in sent
	return c.order(checkpoint.SignalSend, &in, func() map[string]any {
		return map[string]any{"channel": c.r.PathValue("name"), "value": in.Value.v}
	})
}

func (c *call) tell() error {
	var in told
	return c.order(checkpoint.SignalTell, &in, func() map[string]any {
		data := map[string]any{"text": in.Text}
		if in.Step != "" {
			data["step"] = in.Step
		}
		return data
	})
}

// order leaves a signal for the run of the path. in is where the body goes; nil: there is none.
func (c *call) order(kind string, in any, data func() map[string]any) error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	if in != nil {
		if err := c.body(in); err != nil {
			return err
		}
	}
	if err := c.signal(s.ID, kind, c.by(), data(), nil); err != nil {
		return err
	}
	return c.accept(http.StatusAccepted, s.ID)
}
