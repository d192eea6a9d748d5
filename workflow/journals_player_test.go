package workflow_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// journalLeg is what one process does with a run.
type journalLeg struct {
	Do    string // run, recover, answer, send, sweep, cancel or fork
	After string // a duration that passes before; "": none

	Inputs    anyJSON          // run, fork
	Interrupt resume.Interrupt // run
	Breaks    []string         // run: breakpoints
	Recipe    string           // the file; "": recipe.yaml of a new run, else what the store has
	Pause     string           // answer
	Input     anyJSON          // answer
	Channel   string           // send
	Value     anyJSON          // send
	Reason    string           // cancel
	Step      string           // fork
	Outputs   anyJSON          // fork
	By        string           // who does it
	Signals   []leftSignal     // what somebody asks for beforehand, without the checks of workflow.Signal

	Parallel int                       // how many calls at once; 0: one
	Fails    map[string][]string       // how the first calls of a tool fail, by the argument as: network, lost or plain
	Stops    string                    // the call in which the context is cancelled
	Says     map[string]runtime.Effect // what tools say of themselves in this execution, instead of what they are
	Fallback map[string][]string       // of models: n answers as m does
	Files    string                    // the folder of local files; "": files
	Denies   []string                  // the steps that a hook denies
	Dies     string                    // "call X", "call X N" or "record KIND PATH": when the process dies; "": it does not
}

// leftSignal is a signal that is left for a run.
type leftSignal struct {
	ID, Kind, By string
	Data         json.RawMessage
}

// anyJSON is decoded JSON. In it, integers stay integers.
type anyJSON struct{ v any }

func (a *anyJSON) UnmarshalJSON(text []byte) (err error) {
	a.v, err = value.Decode(text)
	return err
}

func (a anyJSON) object() map[string]any {
	m, _ := a.v.(map[string]any)
	return m
}

// journalPlayer plays executions.
type journalPlayer struct {
	*journalCase
	run     string // its id
	store   checkpoint.Store
	writing bool // leases are of somebody who is gone
	legs    int  // that have a span, of a rich case

	// Of the present execution:
	leg    journalLeg
	dies   string
	mu     sync.Mutex
	dead   bool
	calls  []string
	times  map[string]int // calls, by what is called
	cancel context.CancelCauseFunc
}

// play plays an execution, and tells what came of it: the outcomes, what was called, and the new records.
func (p *journalPlayer) play(t *testing.T, leg journalLeg) (told []string) {
	t.Helper()
	if leg.After != "" {
		d, err := time.ParseDuration(leg.After)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(d) // whoever plays is in a bubble
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	p.leg, p.dies, p.dead, p.calls, p.times, p.cancel = leg, leg.Dies, false, nil, map[string]int{}, cancel
	for _, s := range leg.Signals {
		one := checkpoint.Signal{ID: s.ID, Kind: s.Kind, By: s.By, Data: s.Data, At: time.Now().UTC()}
		if err := p.store.(checkpoint.Signals).PutSignal(ctx, p.run, one); err != nil {
			t.Fatal(err)
		}
	}
	before := p.lengths(t)
	outs := p.do(ctx, t)
	told = append(told, strings.TrimSpace("# "+leg.Do+" "+leg.Pause+leg.Channel+leg.Step))
	for _, out := range outs {
		told = append(told, p.toldOutcome(t, out)...)
	}
	if leg.Parallel > 1 { // which of two goroutines is quicker is a matter of luck
		slices.Sort(p.calls)
	}
	told = append(told, p.calls...)
	after := p.lengths(t)
	for _, run := range value.SortedKeys(after) {
		_, recs := p.journalOf(t, run)
		for _, rec := range recs[before[run]:] {
			line := strings.TrimSpace(fmt.Sprintf("record %d %s %s", rec.Seq, rec.Kind, rec.Path))
			if run != p.run {
				line = strings.TrimSpace(fmt.Sprintf("record of %s %d %s %s", run, rec.Seq, rec.Kind, rec.Path))
			}
			if rec.Data != nil {
				line += " " + plainJSON(t, rec.Data)
			}
			told = append(told, line)
		}
	}
	return told
}

// lengths are those of the journals of the run and of its forks.
func (p *journalPlayer) lengths(t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	for run := range p.ids() {
		if !p.known(run) {
			break
		}
		_, recs := p.journalOf(t, run)
		n[run] = len(recs)
	}
	return n
}

// ids are the id of the run and those of its forks.
func (p *journalPlayer) ids() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i, run := 1, p.run; yield(run); {
			i++
			run = fmt.Sprintf("%s.%d", p.run, i)
		}
	}
}

func (p *journalPlayer) newRunID() string {
	for run := range p.ids() {
		if !p.known(run) {
			return run
		}
	}
	return ""
}

func (p *journalPlayer) do(ctx context.Context, t *testing.T) []*workflow.Outcome {
	t.Helper()
	leg, rt := p.leg, p.runtime(t)
	var opts *workflow.ResumeOptions
	if leg.Recipe != "" && leg.Do != "run" {
		opts = &workflow.ResumeOptions{Workflow: p.load(t, leg.Recipe), AcceptChanged: true}
	}
	var out *workflow.Outcome
	switch leg.Do {
	case "run":
		file := "recipe.yaml"
		if leg.Recipe != "" {
			file = leg.Recipe
		}
		rt.Interrupt, rt.Breakpoints = leg.Interrupt, leg.Breaks
		out, _ = p.load(t, file).Run(ctx, leg.Inputs.object(), rt)
	case "recover":
		out, _ = workflow.Recover(ctx, p.run, rt, opts)
	case "answer":
		out, _ = workflow.Answer(ctx, p.run, leg.Pause, leg.Input.v, rt, opts)
	case "send":
		out, _ = workflow.Send(ctx, p.run, leg.Channel, leg.Value.v, rt, opts)
	case "cancel":
		out, _ = workflow.Cancel(ctx, p.run, leg.Reason, rt, opts)
	case "fork":
		out, _ = workflow.Fork(ctx, p.run, leg.Step, workflow.Edits{Inputs: leg.Inputs.object(), Outputs: leg.Outputs.object()}, rt, opts)
	case "sweep":
		outs, err := workflow.Sweep(ctx, rt, &workflow.SweepOptions{ResumeOptions: *cmp.Or(opts, &workflow.ResumeOptions{})})
		if err != nil {
			t.Fatal(err)
		}
		return outs
	default:
		t.Fatalf("no way to do %q", leg.Do)
	}
	return []*workflow.Outcome{out}
}

// toldOutcome is an outcome in lines.
func (p *journalPlayer) toldOutcome(t *testing.T, out *workflow.Outcome) (told []string) {
	t.Helper()
	summary, err := out.Summary()
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(summary, &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "startedAt")
	delete(members, "endedAt")
	if !p.rich { // earlier versions did not count
		delete(members, "usage")
	}
	for _, key := range value.SortedKeys(members) {
		list, ok := members[key].([]any)
		if !ok || key == "output" {
			list = []any{members[key]}
		}
		for _, v := range list {
			told = append(told, key+" "+plainJSON(t, plain(key, v)))
		}
	}
	for _, e := range out.Trace {
		told = append(told, toldEvent(t, e))
	}
	return told
}

// runtime is what stands beside a run.
func (p *journalPlayer) runtime(t *testing.T) *runtime.Runtime {
	t.Helper()
	rt := &runtime.Runtime{
		Store: p.stored(), By: p.leg.By, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: p.newRunID,
		Limits:    runtime.Limits{MaxParallel: max(1, p.leg.Parallel)},
		Secrets:   runtime.SecretMap{"KEY": "s3cr3t-value"},
		Prices:    map[string]runtime.Price{"m": {Input: 1_000_000, Output: 1_000_000}},
		Retriever: journalShelf{p}, Memory: journalMemory{p}, Skills: journalSkills{p}, Env: journalEnv{}, Inbox: journalInbox{p},
		Searchers: map[string]runtime.Searcher{"cellar": journalCellar{p}},
	}
	for name, effect := range map[string]runtime.Effect{"read": runtime.ReadOnly, "idempotent": runtime.Idempotent, "external": "", "gate": ""} {
		if said, ok := p.leg.Says["fx."+name]; ok {
			effect = said
		}
		rt.Tools = append(rt.Tools, journalTool{runtime.ToolSpec{Name: "fx." + name, Effect: effect}, p})
	}
	if p.leg.Denies != nil {
		rt.Plugins = (&runtest.Gatekeeper{Denies: p.leg.Denies}).Plugin()
	}
	if said, ok := p.leg.Says["fx.remote"]; ok { // only where a leg says so: each execution records it
		rt.Tools = append(rt.Tools, journalTool{runtime.ToolSpec{Name: "fx.remote", Effect: said, Changes: true}, p})
	}
	if said, ok := p.leg.Says["http.request"]; ok {
		rt.Tools = append(rt.Tools, journalTool{runtime.ToolSpec{Name: "http.request", Effect: said}, p})
	}
	rt.Files = builtin.Files(builtin.FileOptions{Base: filepath.Join(p.dir, cmp.Or(p.leg.Files, "files"))})
	if p.rich {
		rt.Origin, rt.Trace = map[string]string{"folder": "/home/ada"}, []trace.Sink{runtest.Spans{Legs: &p.legs}}
	}
	slices.SortFunc(rt.Tools, func(a, b runtime.Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	file := filepath.Join(p.dir, "script.yaml")
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return rt
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := script.Parse("script.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	rt.Models = map[string]runtime.Model{"m": journalModel{m, p}, "b": journalBatches{journalModel{m, p}}}
	if p.leg.Fallback != nil {
		rt.Models["n"], rt.Fallbacks = rt.Models["m"], p.leg.Fallback
	}
	return rt
}

var (
	errJournalDead = errors.New("the process has died")
	errJournalStop = errors.New("somebody stopped it")
)

// called notes a call. It is the last of its process, or the last before its context ends, where the execution says so.
func (p *journalPlayer) called(ctx context.Context, what, about string) error {
	p.mu.Lock()
	p.times[what]++
	n := p.times[what]
	if !p.dead {
		p.calls = append(p.calls, strings.TrimSuffix("call "+what+" "+strings.ReplaceAll(about, "s3cr3t-value", "SECRET"), " "))
	}
	dies := p.dies == "call "+what && n == 1 || p.dies == fmt.Sprint("call ", what, " ", n)
	if dies {
		p.dead = true
	}
	p.mu.Unlock()
	switch {
	case dies:
		return errJournalDead
	case p.leg.Stops == what:
		p.cancel(errJournalStop)
		return ctx.Err()
	}
	return nil
}

// failure is how the present call of a tool or model fails; nil: it does not.
func (p *journalPlayer) failure(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	fails, n := p.leg.Fails[what], p.times[what]
	if n > len(fails) {
		return nil
	}
	switch fails[n-1] {
	case "network":
		return &retry.Failure{Reason: retry.Network, Sent: true, Err: errors.New("no line")}
	case "limited":
		return &retry.Failure{Reason: retry.RateLimit, Status: 429, Err: errors.New("too many")}
	case "lost":
		return &retry.Failure{Reason: retry.Timeout, Sent: true, Err: errors.New("no answer")}
	}
	return errors.New("refused")
}

// journalTool notes its calls. Its argument as names what it does, ms is how long it takes, emit is added to the trace, and
// a gate stays open for as long as expires says. picture is a picture that it returns, in base64.
type journalTool struct {
	spec runtime.ToolSpec
	p    *journalPlayer
}

func (t journalTool) Spec() runtime.ToolSpec { return t.spec }

func (t journalTool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	var a struct {
		As, Emit, Picture string
		Expires           int // hours
		MS                int
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	result := any(map[string]any{"did": a.As})
	if a.Picture != "" {
		result = map[string]any{"type": "image", "mimeType": "image/gif", "data": a.Picture}
	}
	if t.spec.Name == "fx.gate" {
		answer, ok := resume.Answer(ctx)
		if !ok {
			pause := resume.Pause{Kind: resume.Human, Prompt: "Open?", Decisions: []string{"approve", "reject"}, Show: map[string]any{"as": a.As}}
			if a.Expires > 0 {
				pause.ExpiresAt = time.Now().Add(time.Duration(a.Expires) * time.Hour)
				pause.OnExpire = resume.Expiry{Answered: true, Value: map[string]any{"decision": "reject", "form": nil}}
			}
			return nil, resume.Suspend(pause)
		}
		result = answer
	}
	if a.Emit != "" {
		if err := trace.Emit(ctx, a.Emit, map[string]any{"as": a.As}); err != nil {
			return nil, err
		}
	}
	if err := t.p.called(ctx, a.As, fmt.Sprintf("%s %s %.8s", t.spec.Name, args, resume.IdempotencyKey(ctx))); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Duration(a.MS) * time.Millisecond):
	}
	if err := t.p.failure(a.As); err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// journalModel notes what a model is asked: the last message, and a sum of all.
type journalModel struct {
	runtime.Model
	p *journalPlayer
}

// journalBatches is a journalModel that answers in batches. A batch is over at the first look.
type journalBatches struct{ journalModel }

func (m journalBatches) Submit(ctx context.Context, b *runtime.Batch) (string, error) {
	id := strings.Join(b.IDs, "+")
	return id, m.p.called(ctx, "submit", fmt.Sprint(len(b.IDs)))
}

func (m journalBatches) Find(ctx context.Context, b *runtime.Batch) (string, error) {
	return "", m.p.called(ctx, "find", fmt.Sprint(len(b.IDs)))
}

func (m journalBatches) Poll(ctx context.Context, id string) (*runtime.BatchState, error) {
	s := &runtime.BatchState{Over: true, Answers: map[string]runtime.BatchAnswer{}}
	for _, one := range strings.Split(id, "+") {
		s.Answers[one] = m.Generate
	}
	return s, m.p.called(ctx, "poll", "")
}

func (m journalBatches) Cancel(ctx context.Context, _ string) error {
	return m.p.called(ctx, "cancel", "")
}

func (journalModel) Metadata() runtime.Metadata { return runtime.Metadata{Options: []string{"files"}} }

func (m journalModel) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	text, err := json.Marshal(req.Messages)
	if err != nil {
		return nil, err
	}
	last := req.Messages[len(req.Messages)-1]
	about := fmt.Sprintf("call %d of the model, call %d of the step, %d messages %x, %s %q", req.Call, req.StepCall, len(req.Messages), sha256.Sum256(text), last.Role, last.Text)
	if err := m.p.called(ctx, "model "+req.Step, about); err != nil {
		return nil, err
	}
	if err := m.p.failure("model " + req.Step); err != nil {
		return nil, err
	}
	answer, err := m.Model.Generate(ctx, req)
	if m.p.rich && err == nil {
		thought := []runtime.Part{{Of: "m", Name: "thought", Data: json.RawMessage(`{"signed":1}`)}}
		answer.Parts = thought
		for i := range answer.ToolCalls {
			answer.ToolCalls[i].Parts = thought
		}
	}
	return answer, err
}

type journalShelf struct{ p *journalPlayer }

func (s journalShelf) Retrieve(ctx context.Context, query string, _ int) ([]runtime.Document, error) {
	d := runtime.Document{ID: "d", Text: "A document."}
	if s.p.rich {
		d.Source, d.Score, d.Metadata = "shelf/d", 0.5, map[string]any{"page": int64(7)}
	}
	return []runtime.Document{d}, s.p.called(ctx, "retriever", query)
}

// journalCellar is an index that uses an embedder of the price of m.
type journalCellar struct{ p *journalPlayer }

func (journalCellar) Metadata() runtime.Metadata { return runtime.Metadata{Spends: []string{"m"}} }

func (c journalCellar) Search(ctx context.Context, q runtime.Query) (runtime.Found, error) {
	found := runtime.Found{Documents: []runtime.Document{{ID: "a.md#1", Text: "Owls"}}, Used: []runtime.Spent{{Name: "m", Usage: runtime.Usage{InputTokens: 1}}}}
	return found, c.p.called(ctx, "cellar", q.Text)
}

func (c journalCellar) Update(ctx context.Context, change runtime.Change) (runtime.Updated, error) {
	what := "index nothing"
	if len(change.Sources) > 0 {
		what = "index " + change.Sources[0].Name
	}
	err := c.p.called(ctx, what, change.Key[:8])
	return runtime.Updated{Added: len(change.Sources), Used: []runtime.Spent{{Name: "m", Usage: runtime.Usage{InputTokens: 3}}}}, err
}

// journalMemory remembers one message, and of a rich case a call of a tool.
type journalMemory struct{ p *journalPlayer }

func (m journalMemory) Load(ctx context.Context, c runtime.Conversation) ([]runtime.Message, error) {
	known := []runtime.Message{{Role: runtime.User, Text: "Good morning."}}
	if m.p.rich {
		known = append(known, runtime.Message{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{{ID: "1", Name: "fx.read", Arguments: json.RawMessage(`{"as":"old"}`)}}},
			runtime.Message{Role: runtime.ToolRole, ToolCallID: "1", Text: "read"}, runtime.Message{Role: runtime.Assistant, Text: "Well read."})
	}
	return known, m.p.called(ctx, "memory.load", c.Thread)
}

func (m journalMemory) Save(ctx context.Context, c runtime.Conversation, turn string, messages []runtime.Message) error {
	text, err := json.Marshal(messages)
	if err != nil {
		return err
	}
	return m.p.called(ctx, "memory.save", fmt.Sprintf("%s %s %s", c.Thread, turn, text))
}

type journalSkills struct{ p *journalPlayer }

func (s journalSkills) Load(_ context.Context, names []string) (list []runtime.Skill, _ error) {
	for _, name := range names {
		skill := runtime.Skill{Scope: "repo", Name: name, Path: name + "/SKILL.md", SHA256: "00", Text: "Say hello."}
		if s.p.rich {
			skill.Description = "How to greet."
		}
		list = append(list, skill)
	}
	return list, nil
}

type journalEnv struct{}

func (journalEnv) Instructions(context.Context) (string, error) { return "Be kind.", nil }
func (journalEnv) Tools() []runtime.Tool                        { return nil }

// journalInbox has a word for the agent of the step work.
type journalInbox struct{ p *journalPlayer }

func (b journalInbox) Waiting(_ context.Context, _, step string) ([]runtime.Note, error) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	if step != "work" || b.p.times["inbox.taken"] > 0 {
		return nil, nil
	}
	return []runtime.Note{{ID: "n1", Text: "Hurry."}}, nil
}

func (b journalInbox) Taken(ctx context.Context, _, step string, ids ...string) error {
	return b.p.called(ctx, "inbox.taken", fmt.Sprint(step, " ", ids))
}

// inboxOf has another name than its method, which it would hide where it is embedded.
type inboxOf = checkpoint.Signals

// stored is the store that runs see: with signals, if somebody has left some.
func (p *journalPlayer) stored() checkpoint.Store {
	store := &journalStore{p.store, p.store.(checkpoint.Documents), p}
	if p.leg.Signals == nil {
		return store
	}
	return struct {
		*journalStore
		inboxOf
	}{store, p.store.(checkpoint.Signals)}
}

type documentsOf = checkpoint.Documents // by a name that is none of its methods

// journalStore takes nothing any more once its process is dead, and shows the runs of one journal only.
type journalStore struct {
	checkpoint.Store
	documentsOf // of files
	p           *journalPlayer
}

// last cuts records off behind the one with which the process dies.
func (s *journalStore) last(recs []checkpoint.Record) ([]checkpoint.Record, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.dead {
		return nil, checkpoint.ErrFenced
	}
	for i, rec := range recs {
		if s.p.dies == strings.TrimSpace(fmt.Sprintf("record %s %s", rec.Kind, rec.Path)) {
			s.p.dead = true
			return recs[:i+1], nil
		}
	}
	return recs, nil
}

// after is the error of a write in which the process died.
func (s *journalStore) after(err error) error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if err == nil && s.p.dead {
		return checkpoint.ErrFenced
	}
	return err
}

func (s *journalStore) holder(owner string, ttl time.Duration) (string, time.Duration) {
	if s.p.writing || s.p.dies != "" {
		return "gone", 0
	}
	return owner, ttl
}

func (s *journalStore) Create(ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record) (lease checkpoint.Lease, err error) {
	if recs, err = s.last(recs); err == nil {
		owner, ttl = s.holder(owner, ttl)
		lease, err = s.Store.Create(ctx, run, owner, ttl, recs...)
	}
	return lease, s.after(err)
}

func (s *journalStore) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	owner, ttl = s.holder(owner, ttl)
	return s.Store.Claim(ctx, runID, owner, ttl)
}

func (s *journalStore) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) (err error) {
	if recs, err = s.last(recs); err == nil {
		err = s.Store.Append(ctx, l, after, recs...)
	}
	return s.after(err)
}

func (s *journalStore) Release(ctx context.Context, l checkpoint.Lease) error {
	if err := s.after(nil); err != nil {
		return nil
	}
	return s.Store.Release(ctx, l)
}

func (s *journalStore) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	if err := s.after(nil); err != nil {
		return l, err
	}
	if s.p.writing || s.p.dies != "" {
		return l, nil
	}
	return s.Store.Renew(ctx, l, ttl)
}

func (s *journalStore) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	runs, err := s.Store.List(ctx, f)
	return slices.DeleteFunc(runs, func(sum checkpoint.Summary) bool {
		return sum.ID != s.p.run && !strings.HasPrefix(sum.ID, s.p.run+".")
	}), err
}
