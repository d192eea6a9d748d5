package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Signal leaves a signal for a run, unless the journal tells that it cannot apply. o says who signals.
func Signal(ctx context.Context, runID string, s checkpoint.Signal, store checkpoint.Store, o Options) error {
	return inStore(ctx, runID, store, func(x *resumption) error {
		inbox, ok := store.(checkpoint.Signals)
		if !ok {
			return &runtime.Error{Category: runtime.CategoryConfig, Code: "signal.noStore",
				Err: errors.New("the store keeps no signals\n  hint: those of package checkpoint do")}
		}
		c := &sending{resumption: x, inbox: inbox, signal: s}
		x.o = o
		x.o.By = valid(s.By)
		return c.send()
	})
}

// inStore calls f with a run that was loaded. Its error is one of a run.
func inStore(ctx context.Context, runID string, store checkpoint.Store, f func(*resumption) error) error {
	x := newResumption(ctx, runID, "", &runtime.Runtime{Store: store}, Options{})
	x.ledger = &ledger.Ledger{Store: store, Run: checkpoint.Run{ID: runID}}
	_, err := guard.Port(context.WithoutCancel(ctx), runtime.CategoryInfra, "store.failed", "the store",
		func() (any, error) {
			if store == nil {
				return nil, checkpoint.ErrNotFound
			}
			if err := x.load(); err != nil {
				return nil, err
			}
			return nil, f(x)
		})
	return ledger.Error(err)
}

// sending is a signal that is about to be left.
type sending struct {
	*resumption
	inbox  checkpoint.Signals
	signal checkpoint.Signal
	data   map[string]any
}

// members are those that the data of a kind may have; those with "!" it must have.
var members = map[string][]string{
	checkpoint.SignalAnswer: {"pause!", "value", "question", "force"},
	checkpoint.SignalCancel: {"reason", "force"},
	checkpoint.SignalSend:   {"channel!", "value!"},
	checkpoint.SignalTake:   {},
	checkpoint.SignalTell:   {"step", "text!"},
}

func (c *sending) send() error {
	if err := c.decode(); err != nil {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "signal.invalid",
			Err: fmt.Errorf("a signal of the kind %q: %w", c.signal.Kind, err)}
	}
	if c.summary.Status.Ended() {
		return c.over()
	}
	s := &c.signal
	s.By, s.At = valid(s.By), Now(c.ctx, c.ledger.Store)
	var err error
	switch s.Kind {
	case checkpoint.SignalAnswer:
		err = c.checkAnswer()
	case checkpoint.SignalSend:
		err = c.checkChannel()
	case checkpoint.SignalTell:
		err = c.checkStep()
	}
	if err != nil {
		return err
	}
	s.ID = cmp.Or(s.ID, local.NewID())
	put := *s // one that is left behind may still read it
	_, err = guard.Store(c.ctx, func(ctx context.Context) (any, error) {
		return nil, c.inbox.PutSignal(ctx, c.runID, put)
	})
	switch {
	case errors.Is(err, checkpoint.ErrConflict):
		return c.over()
	case errors.Is(err, checkpoint.ErrExists) && s.Kind == checkpoint.SignalAnswer:
		return c.answered()
	case errors.Is(err, checkpoint.ErrInvalid):
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "signal.invalid", Err: err}
	case errors.Is(err, checkpoint.ErrExists):
		return &runtime.Error{Category: runtime.CategoryInfra, Code: "signal.exists",
			Err: fmt.Errorf("run %q had a signal %q already", c.runID, s.ID)}
	case err != nil || c.o.Wait == 0 || s.Kind == checkpoint.SignalTake:
		return err
	}
	return c.await()
}

// decode reads the data, and puts it into its canonical form.
func (c *sending) decode() error {
	known, ok := members[c.signal.Kind]
	if !ok {
		return fmt.Errorf("it is unknown%s", program.HintLine(
			diagnostics.DidYouMean(c.signal.Kind, slices.Sorted(maps.Keys(members)))))
	}
	v, err := value.Decode(c.signal.Data)
	if len(c.signal.Data) == 0 {
		v, err = map[string]any{}, nil
	}
	if c.data, ok = v.(map[string]any); err != nil || !ok {
		return errors.New("its data is not a JSON object")
	}
	left := maps.Clone(c.data)
	for _, name := range known {
		name, must := strings.CutSuffix(name, "!")
		v, there := left[name]
		_, isText := v.(string)
		_, isBool := v.(bool)
		switch {
		case must && !there:
			return fmt.Errorf("member %q is missing", name)
		case there && name == "force" && !isBool, there && name != "force" && name != "value" && !isText:
			return fmt.Errorf("member %q is %s", name, value.TypeName(v))
		}
		delete(left, name)
	}
	for name := range left {
		return fmt.Errorf("member %q is unknown", name)
	}
	c.signal.Data, err = value.JSON(c.data)
	return err
}

func (c *sending) over() error {
	if pause, ok := c.data["pause"].(string); ok {
		if err := AnsweredBefore(c.past.Events, pause); err != nil {
			return err
		}
	}
	return Over(c.summary)
}

// Over is the error for a run that has ended.
func Over(run checkpoint.Summary) error {
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "run.ended",
		Err: fmt.Errorf("run %q is over (%s)", run.ID, run.Status)}
}

// checkAnswer checks an answer, and gives the signal its id: a pause has one answer.
func (c *sending) checkAnswer() error {
	id := c.data["pause"].(string)
	info, err := c.find(id)
	if err != nil { // it may have been answered since the journal was read
		return c.answeredBefore(id, err)
	}
	e, err := journal.Decode(info.Opened)
	if err != nil {
		return err
	}
	opened, _ := e.What.(journal.PauseOpened) // the store has checked
	p := &opened.Pause
	if at := p.ExpiresAt; !at.IsZero() && !c.signal.At.Before(at) { // whether or not a process has seen that
		return &runtime.Error{Category: runtime.CategoryConfirmation, Code: "pause.expired",
			Err: fmt.Errorf("%s expired at %s\n  hint: what its on_expire says is the answer now", p,
				at.UTC().Format(time.RFC3339))}
	}
	if !c.o.Vouched {
		if err := Allowed(p, c.o.By, c.o.Groups, c.summary.By); err != nil {
			return err
		}
	}
	if question, ok := c.data["question"].(string); ok && question != p.Question() {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.questionChanged",
			Err: fmt.Errorf("%s asks something other than what was answered", p)}
	}
	v, err := p.Check(engine.AnswerIn(p, c.data))
	if err == nil {
		err = engine.RaisedEnough(p, v)
	}
	if err != nil {
		return Unfit(err)
	}
	c.o.Force = c.data["force"] == true
	if err := c.alive(p.Call, v); err != nil {
		return err
	}
	return c.name(info.Pause)
}

// signalled are all signals of the run.
func (c *sending) signalled() ([]checkpoint.Signal, error) {
	return guard.Store(c.ctx, func(ctx context.Context) ([]checkpoint.Signal, error) {
		return c.inbox.Signals(ctx, c.runID, false)
	})
}

// name gives an answer its id. An earlier signal with that id does not count if the journal names it although the
// pause is open: it did not apply, or answered the pause when it was open before.
func (c *sending) name(p checkpoint.Pause) error {
	all, err := c.signalled()
	if err != nil {
		return err
	}
	c.signal.ID = p.AnswerID()
	for n := 2; slices.ContainsFunc(all, func(s checkpoint.Signal) bool { return s.ID == c.signal.ID }) &&
		c.past.Signals[c.signal.ID]; n++ {
		c.signal.ID = fmt.Sprintf("%s~%d", p.AnswerID(), n)
	}
	return nil
}

// answered is the error for an answer to a pause that another signal answers.
func (c *sending) answered() error {
	all, err := c.signalled()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.ID == c.signal.ID {
			return wasAnswered(c.data["pause"].(string), s.By, s.At)
		}
	}
	return wasAnswered(c.data["pause"].(string), "", time.Time{})
}

// unanswered returns an error if a signal answers an open pause.
func (x *resumption) unanswered(pause string) error {
	open, err := local.Signals(x.ctx, x.ledger.Store, x.runID)
	for _, s := range open {
		if local.Answers(s, pause) && x.load() == nil && !x.past.Signals[s.ID] {
			return wasAnswered(pause, s.By, s.At)
		}
	}
	return err
}

// AnsweredBefore is the error for an answer to a pause that was answered; nil: it never was.
func AnsweredBefore(events []journal.Event, pause string) error {
	if e := past.AnswerTo(events, pause); e != nil {
		return wasAnswered(pause, e.By, e.At)
	}
	return nil
}

func wasAnswered(pause, by string, at time.Time) error {
	text := fmt.Sprintf("pause %q was answered", pause)
	if by != "" {
		text += fmt.Sprintf(" by %q", by)
	}
	if !at.IsZero() {
		text += " at " + at.UTC().Format(time.RFC3339)
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "pause.answered", Err: errors.New(text)}
}

// checkChannel checks a value for a channel.
func (c *sending) checkChannel() error {
	p, err := c.program()
	if err != nil {
		return err
	}
	return (&sent{channel: c.data["channel"].(string)}).possible(c.resumption, p)
}

// checkStep checks that a note is for an agent.
func (c *sending) checkStep() error {
	step, _ := c.data["step"].(string)
	p, err := c.program()
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code == "resume.needsWorkflow" {
		return nil // an agent from Go
	}
	if err != nil {
		return err
	}
	var agents []string
	var find func(steps []program.PlanStep)
	find = func(steps []program.PlanStep) {
		for _, s := range steps {
			if s.Uses == "agent" {
				agents = append(agents, s.ID)
			}
			find(s.Body)
		}
	}
	find(p.Steps)
	switch path := resume.DefinitionPath(step); {
	case len(agents) == 0:
		err = fmt.Errorf("recipe %q has no agent", p.Recipe.Name)
	case step != "" && !slices.Contains(agents, path):
		err = fmt.Errorf("step %q is not an agent of recipe %q%s", step, p.Recipe.Name,
			program.HintLine(diagnostics.DidYouMean(path, agents)))
	default:
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "signal.invalid", Err: err}
}

// Mint records a new token of an open pause of a run that no process holds. A pause that a signal answers is not open.
func Mint(ctx context.Context, runID, pause string, store checkpoint.Store) (token string, err error) {
	err = inStore(ctx, runID, store, func(x *resumption) error {
		if _, err := x.find(pause); err != nil {
			return err
		}
		if err := x.claim(); err != nil {
			return err
		}
		defer x.release()
		info, err := x.find(pause)
		if err == nil {
			err = x.unanswered(pause)
		}
		if err != nil {
			return err
		}
		expires, err := openedUntil(info.Opened)
		if err != nil {
			return err
		}
		var hash []byte
		token, hash = resume.Mint(runID)
		at := x.past.Events[len(x.past.Events)-1].At // nobody works on the run now
		return x.ledger.Write(ctx, []journal.Event{{At: at, Path: info.Pause.Step,
			What: journal.TokenMinted{Pause: pause, Hash: hash, ExpiresAt: expires}}})
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// openedUntil is when a pause expires; zero: it does not.
func openedUntil(rec checkpoint.Record) (time.Time, error) {
	p, err := resume.Opened(rec)
	return p.ExpiresAt, err
}
