package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// Answers are the answers to pauses of earlier generations of a run, and the count of pauses in the present one. The
// zero Answers is empty.
type Answers struct {
	Kept map[PauseKey]KeptAnswer // for later generations
	Nth  map[PauseKey]int        // pauses of this generation so far, by key without n
	// Without n: calls of earlier generations with unknown outcome, or whose end a person gave. nil stands for a call
	// about which nothing is known.
	unknown map[PauseKey][]*resume.Call
	settled map[PauseKey][]*resume.Call // likewise, of this generation: the next one asks about them
}

// PauseKey identifies a pause within a generation of a run. It denotes the same pause in the next generation.
type PauseKey struct {
	Step   string
	Kind   resume.Kind
	Reason string
	About  string // of a pause in an agent: see [past.AboutOf]
	n      int    // it is the n-th such pause of the step, from 1
}

// unknownKey is the key of the pause that asks for the outcome of a call: of a step, or of the call in an agent that
// about names.
func unknownKey(step, about string) PauseKey {
	return PauseKey{Step: step, Kind: resume.System, Reason: journal.Indeterminate, About: about}
}

func (k PauseKey) compare(other PauseKey) int {
	return cmp.Or(strings.Compare(k.Step, other.Step), strings.Compare(string(k.Kind), string(other.Kind)),
		strings.Compare(k.Reason, other.Reason), strings.Compare(k.About, other.About), k.n-other.n)
}

// KeptAnswer is how a pause ended. In later generations the same pause ends in this way without being asked.
type KeptAnswer struct {
	Next     resume.Next
	Answer   any
	Question string       // the answered question, see [resume.Pause.Question]; "": any
	Call     *resume.Call // that the pause asked about; nil: none, or not known
}

// Count returns the key of a pause that was opened with its number.
func (a *Answers) Count(key PauseKey) PauseKey {
	if a.Nth == nil {
		a.Nth = map[PauseKey]int{}
	}
	a.Nth[key]++
	numbered := key
	numbered.n = a.Nth[key]
	if _, answered := a.Kept[numbered]; !answered && len(a.unknown[key]) > 0 {
		a.unknown[key] = a.unknown[key][1:]
	}
	return numbered
}

// Keep keeps how a pause ended.
func (a *Answers) Keep(key PauseKey, k KeptAnswer) {
	if a.Kept == nil {
		a.Kept = map[PauseKey]KeptAnswer{}
	}
	a.Kept[key] = k
}

// Undone forgets the results of calls in an agent that was rolled back: the run asks before it makes them again.
func (a *Answers) Undone(agent string) {
	for _, key := range slices.SortedStableFunc(maps.Keys(a.Kept), PauseKey.compare) {
		if k := a.Kept[key]; key.About != "" && SaysResult(key, k.Answer) && past.Within(key.Step, agent) {
			delete(a.Kept, key)
			a.NoteUnknown(key, past.Given(k.Call, k.Answer))
		}
	}
}

// Used forgets the result that a person gave for the call of a step, which applies once: the next generation asks
// before it makes the call again.
func (a *Answers) Used(key PauseKey, c *resume.Call, answer any) {
	delete(a.Kept, key)
	if key.n = 0; a.settled == nil {
		a.settled = map[PauseKey][]*resume.Call{}
	}
	a.settled[key] = append(a.settled[key], past.Given(c, answer))
}

// nextGeneration begins the count of pauses anew.
func (a *Answers) nextGeneration() {
	for _, key := range slices.SortedStableFunc(maps.Keys(a.settled), PauseKey.compare) {
		for _, c := range a.settled[key] {
			a.NoteUnknown(key, c)
		}
	}
	a.Nth, a.settled = nil, nil
}

// MustAsk counts how often a run must ask, before it makes a call, for the outcome of that call in earlier
// generations. Questions that are answered already count. key, without n, is that of the pause that asks: about the
// call of a step, or about a call in an agent.
func (a *Answers) MustAsk(key PauseKey) (n int) {
	n = len(a.unknown[key])
	for next := key; ; n++ {
		next.n = max(next.n, a.Nth[key]) + 1
		if _, answered := a.Kept[next]; !answered {
			return n
		}
	}
}

// NoteUnknown notes a call with unknown outcome, or whose end a person gave, that the run must ask about; nil: nothing
// is known of the call.
func (a *Answers) NoteUnknown(key PauseKey, c *resume.Call) {
	if a.unknown == nil {
		a.unknown = map[PauseKey][]*resume.Call{}
	}
	key.n = 0
	same := func(other *resume.Call) bool {
		return c == nil || other == nil || c.Key == "" || other.Key == "" || c.Key == other.Key
	}
	switch i := slices.IndexFunc(a.unknown[key], same); {
	case i < 0:
		a.unknown[key] = append(a.unknown[key], c)
	case c != nil:
		a.unknown[key][i] = c
	}
}

// known describes a call for the question about its outcome: with what is known of the earlier call, and otherwise as
// the call would be made now.
func (a *Answers) known(key PauseKey, now *resume.Call) *resume.Call {
	next := key
	next.n = a.Nth[key] + 1
	was := a.Kept[next].Call
	if len(a.unknown[key]) > 0 {
		was = a.unknown[key][0]
	}
	if was == nil {
		return now
	}
	c := *was
	if c.Tool == "" { // it had only begun
		c.Tool, c.Arguments = now.Tool, now.Arguments
	}
	c.Key = cmp.Or(c.Key, now.Key)
	return &c
}

// UnknownIn returns the count of MustAsk for each call of an agent for which it is not zero.
func (a *Answers) UnknownIn(agent string) map[PauseKey]int {
	list := map[PauseKey]int{}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a.Kept)), maps.Keys(a.unknown))
	for _, key := range slices.SortedStableFunc(slices.Values(keys), PauseKey.compare) {
		if key.n = 0; key.About != "" && key.Reason == journal.Indeterminate && past.Within(key.Step, agent) {
			list[key] = a.MustAsk(key)
		}
	}
	return list
}

// ReadUnknown notes the calls of a record.
func (a *Answers) ReadUnknown(list []journal.UnknownCall) {
	for _, d := range list {
		a.NoteUnknown(unknownKey(d.Step, d.About), d.Call)
	}
}

// Redefined applies the record of a change of the definition.
func (a *Answers) Redefined(what *journal.Redefined) {
	a.ReadUnknown(what.Unknown)
	for _, k := range what.Kept {
		a.Keep(PauseKey{k.Step, k.Kind, k.Reason, k.About, 1},
			KeptAnswer{Next: resume.Answered, Answer: k.Answer, Question: k.Question})
	}
}

// otherCall finds the answer about a call of the same tool, by the same agent, with other arguments, that this
// generation has not used.
func (a *Answers) otherCall(key PauseKey, prompt string) (KeptAnswer, bool) {
	for _, k := range slices.SortedStableFunc(maps.Keys(a.Kept), PauseKey.compare) {
		uncounted := k
		uncounted.n = 0
		v, _ := value.Decode([]byte(k.About))
		about, _ := v.([]any)
		if k.Step == key.Step && k.Kind == key.Kind && k.Reason == key.Reason && a.Nth[uncounted] < k.n &&
			len(about) > 0 && about[0] == prompt {
			return a.Kept[k], true
		}
	}
	return KeptAnswer{}, false
}

// SaysResult reports whether an answer gives the result of a call.
func SaysResult(key PauseKey, answer any) bool {
	return key.Reason == journal.Indeterminate && past.Decision(answer) == "result"
}

// questionChanged says that an answer is not used because the question has changed.
func questionChanged(step string, answer any) diagnostics.Diagnostic {
	return diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindResume,
		Code: diagnostics.CodeQuestionChanged, Step: step,
		Message: fmt.Sprintf("step %q asks something other than what was answered, and asks again",
			step), Data: map[string]any{"answer": answer}}
}

// reply keeps an answer for the call of a task that asked.
func (w *waits) reply(t *machine.Task, answer resume.Reply) {
	if w.answers == nil {
		w.answers = map[*machine.Task]resume.Reply{}
	}
	w.answers[t] = answer
}
