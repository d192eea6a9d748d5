package agentloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

func humanPause(n int, question string) Pause {
	return Pause{For: ForHuman, Call: n, Tool: askHuman, Pause: resume.Pause{Kind: resume.Human, Prompt: question,
		Schema: map[string]any{"type": "object", "additionalProperties": false, "required": []any{"answer"},
			"properties": map[string]any{"answer": map[string]any{"type": "string"}}}}}
}

// gather loads, once in the life of a loop, what it begins with. What is gathered is in the journal: a
// later leg does not ask again.
func (f *frame) gather(ctx context.Context) error {
	once := func(kind Kind, wanted, there bool, name string, category runtime.Category, code string, load func(context.Context) (Event, error)) error {
		if !wanted || slices.Contains(f.state.Gathered, kind) {
			return nil
		}
		if !there {
			f.warn(diagnostics.CodeMissingCapability, "agent %q has no %s, which it uses", f.loop.Name, name)
			return nil
		}
		e, err := guard(ctx, f, 0, "the "+name, "", load)
		if err != nil {
			return f.portFailed(ctx, category, code, err)
		}
		e.Kind = kind
		return f.record(e)
	}
	mem, task := f.memory, f.state.Start.Prompt
	out := f.trace.outlet()
	defer out.close()
	if err := once(MemoryLoaded, mem.Thread != "", f.rt.Memory != nil, "memory", runtime.CategoryMemory, "memory.load", func(ctx context.Context) (Event, error) {
		messages, err := port(ctx, f, out, retry.Memory, func(ctx context.Context) ([]runtime.Message, error) { return f.rt.Memory.Load(ctx, mem) })
		return Event{Messages: slices.DeleteFunc(slices.Clone(messages), func(m runtime.Message) bool { return m.Role == runtime.System })}, err
	}); err != nil {
		return err
	}
	if slices.Contains(f.state.Gathered, MemoryLoaded) {
		f.emit(trace.MemoryLoad, "messages", f.state.Own)
	}
	if err := f.recall(ctx); err != nil {
		return err
	}
	if err := once(Retrieved, f.loop.TopK > 0, f.rt.Retriever != nil, "retriever", runtime.CategoryRetriever, "retriever.failed", func(ctx context.Context) (Event, error) {
		docs, err := port(ctx, f, out, retry.Retriever, func(ctx context.Context) ([]runtime.Document, error) {
			return f.rt.Retriever.Retrieve(ctx, task, f.loop.TopK)
		})
		return Event{Documents: slices.Clone(docs[:min(len(docs), f.loop.TopK)])}, err
	}); err != nil {
		return err
	}
	if slices.Contains(f.state.Gathered, Retrieved) {
		f.emit(trace.Retrieve, "documents", len(f.state.Found))
	}
	if err := once(SkillsLoaded, len(f.loop.Skills) > 0, f.rt.Skills != nil, "skill loader", runtime.CategoryConfig, "skills.failed", func(ctx context.Context) (Event, error) {
		skills, err := f.loadSkills(ctx)
		return Event{Skills: skills}, err
	}); err != nil {
		return err
	}
	return once(Instructed, f.rt.Env != nil, true, "environment", runtime.CategoryInfra, "env.failed", func(ctx context.Context) (Event, error) {
		text, err := f.rt.Env.Instructions(ctx)
		return Event{Text: text}, err
	})
}

// port calls the memory or the retriever, as Input.Port wants it, which tells out of what happens.
func port[T any](ctx context.Context, f *frame, out *outlet, kind retry.Kind, call func(context.Context) (T, error)) (v T, err error) {
	if f.in.Port == nil {
		return call(ctx)
	}
	got, err := f.in.Port(ctx, &PortCall{Kind: kind, Path: f.path, Emit: out.emit, Call: func(ctx context.Context) (any, error) { return call(ctx) }})
	v, _ = got.(T)
	return v, err
}

// portFailed ends the loop with the failure of a port, unless it is being cancelled.
func (f *frame) portFailed(ctx context.Context, category runtime.Category, code string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fail(category, code, err)
}

// loadSkills asks the loader, and keeps the tools that skills bring.
func (f *frame) loadSkills(ctx context.Context) ([]runtime.Skill, error) {
	skills, err := f.rt.Skills.Load(ctx, normal(f.loop.Skills))
	if err != nil {
		return nil, err
	}
	skills = slices.Clone(skills)
	slices.SortStableFunc(skills, func(a, b runtime.Skill) int {
		return slices.Compare([]string{a.Scope, a.Name, a.Path, a.SHA256}, []string{b.Scope, b.Name, b.Path, b.SHA256})
	})
	skills = slices.CompactFunc(skills, func(a, b runtime.Skill) bool {
		return a.Scope == b.Scope && a.Name == b.Name && a.Path == b.Path && a.SHA256 == b.SHA256
	})
	f.skillTools = nil
	for _, k := range skills {
		f.skillTools = append(f.skillTools, k.Tools...)
	}
	return skills, nil
}

// reenter looks at what a later leg may find changed. What the loop works with stays as recorded.
func (f *frame) reenter(ctx context.Context) error {
	s := f.state
	if slices.Contains(s.Gathered, SkillsLoaded) && f.rt.Skills != nil {
		now, err := guard(ctx, f, 0, "the skill loader", "", f.loadSkills)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			f.warn(diagnostics.CodeSkillMismatch, "the skills of agent %q cannot be loaded any more; it goes on with what it has: %v", f.loop.Name, err)
		case !slices.Equal(refs(now), refs(s.Skills)):
			f.warn(diagnostics.CodeSkillMismatch, "the skills of agent %q have changed since it began; it goes on with what it has", f.loop.Name)
		}
	}
	if s.Archive != "" {
		return f.fetch(ctx)
	}
	return nil
}

// steer takes the messages that wait: recorded first, then taken from the inbox.
func (f *frame) steer(ctx context.Context) error {
	if f.rt.Inbox == nil || f.name != "" {
		return nil
	}
	waiting, err := f.rt.Inbox.Waiting(ctx, f.in.RunID, f.path)
	if err != nil {
		return f.portFailed(ctx, runtime.CategoryInfra, "inbox.failed", err)
	}
	var fresh []runtime.Note
	var ids []string
	for _, n := range waiting {
		ids = append(ids, n.ID)
		if !slices.Contains(f.state.Taken, n.ID) && !slices.ContainsFunc(fresh, func(o runtime.Note) bool { return o.ID == n.ID }) {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) > 0 {
		if err := f.record(Event{Kind: Steered, Notes: fresh}); err != nil {
			return err
		}
		f.emit(trace.Steer, "messages", len(fresh))
	}
	if len(ids) > 0 {
		if err := f.rt.Inbox.Taken(ctx, f.in.RunID, f.path, ids...); err != nil {
			return f.portFailed(ctx, runtime.CategoryInfra, "inbox.failed", err)
		}
	}
	return nil
}

// save writes into memory and layers what this loop added to the conversation, the system prompt never.
func (f *frame) save(ctx context.Context) error {
	remembers := f.memory.Thread != "" && f.rt.Memory != nil
	if !remembers && len(f.layers) == 0 {
		return nil
	}
	if err := f.storeLayers(ctx); err != nil {
		return err
	}
	own := slices.Clone(f.state.Messages[f.state.Own:])
	if remembers {
		out := f.trace.outlet()
		defer out.close()
		_, err := guard(ctx, f, 0, "the memory", "", func(ctx context.Context) (any, error) {
			return port(ctx, f, out, retry.Memory, func(ctx context.Context) (any, error) {
				return nil, f.rt.Memory.Save(ctx, f.memory, f.in.RunID+"/"+f.path, own)
			})
		})
		if err != nil {
			return f.portFailed(ctx, runtime.CategoryMemory, "memory.save", err)
		}
	}
	if err := f.record(Event{Kind: MemorySaved}); err != nil {
		return err
	}
	f.emit(trace.MemorySave, "messages", len(own))
	return nil
}

// Compaction says when a long conversation is replaced by a summary, and how. It takes an
// [Archive].
type Compaction struct {
	Due    func(Progress) bool // the policy, asked between two steps; must be pure
	Model  string              // that makes the summary; "" is the loop's own
	Prompt string              // what it is asked for; "" asks for a summary
	// MaxResult is how many bytes of each tool's result it sees. Defaults to 1024.
	MaxResult int
}

const summaryPrompt = "Summarise the conversation above for whoever goes on with it: the task, what was found and done, what is left to do."

// compact archives a summary of the conversation, then notes the archive's name: from there on the
// model sees the summary in place of what it stands for. What goes wrong leaves things as they were.
func (f *frame) compact(ctx context.Context) error {
	p, s := f.loop.Compaction, f.state
	if p == nil || p.Due == nil || s.From == len(s.Messages) {
		return nil
	}
	if due, err := f.decide("the policy of compaction", func(p2 Progress) (bool, error) { return p.Due(p2), nil }); !due && err == nil {
		return nil
	} else if err != nil {
		return fail(runtime.CategoryConfig, "agent.compaction", err)
	}
	gaveUp := func(err error) error {
		if ctx.Err() != nil {
			return err
		}
		f.warn(diagnostics.CodeCompactFailed, "the conversation of agent %q was not compacted: %v", f.loop.Name, err)
		return nil
	}
	name := p.Model
	if name == "" {
		name = f.loop.Model
	}
	model := f.offers.Models[name]
	switch {
	case f.in.Archive == nil:
		return gaveUp(errors.New("there is no archive"))
	case model == nil:
		return gaveUp(fmt.Errorf("model %q is not there", name))
	}
	req := f.request()
	req.Model, req.Tools, req.Schema, req.Messages = name, nil, nil, slices.Clone(req.Messages)
	most := p.MaxResult
	if most == 0 {
		most = 1024
	}
	for i, m := range req.Messages {
		if m.Role == runtime.ToolRole && len(m.Text) > most {
			req.Messages[i].Text = runes(m.Text, most) + " [cut]"
		}
	}
	prompt := p.Prompt
	if prompt == "" {
		prompt = summaryPrompt
	}
	req.Messages = append(req.Messages, runtime.Message{Role: runtime.User, Text: prompt})
	resp, err := f.generate(ctx, model, req)
	if err == nil && strings.TrimSpace(resp.Text) == "" {
		err = fmt.Errorf("model %q gave no summary", name)
	}
	if err != nil {
		return gaveUp(err)
	}
	archive := fmt.Sprintf("%s/%s-%d", f.in.RunID, f.path, s.Archives+1)
	if err := f.in.Archive.Put(ctx, archive, resp.Text); err != nil {
		return gaveUp(err)
	}
	if err := f.record(Event{Kind: Compacted, Text: archive, Usage: &resp.Usage}); err != nil {
		return err
	}
	f.archived, f.seen = summaryOf(resp.Text), nil
	f.emit(trace.Compact, "archive", archive)
	return nil
}

func summaryOf(text string) string { return "Summary of the conversation so far:\n" + text }

// fetch gets the text behind the marker in the history.
func (f *frame) fetch(ctx context.Context) error {
	name := f.state.Archive
	text, ok := "", false
	if f.in.Archive != nil {
		var err error
		if text, ok, err = f.in.Archive.Get(ctx, name); err != nil {
			return err
		}
	}
	f.archived = summaryOf(text)
	if !ok {
		f.archived = fmt.Sprintf("[The archive %q, with the summary of the conversation so far, is missing.]", name)
		f.warn(diagnostics.CodeNoArchive, "archive %q of agent %q is missing; the model sees that it is", name, f.loop.Name)
	}
	return nil
}
