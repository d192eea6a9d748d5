package agents

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// gather loads, once in the life of a loop, what it begins with. What is gathered is in the journal: a
// later execution does not ask again.
func (f *frame) gather() {
	s := f.state()
	if f.item == checking && f.followed > 0 { // the conversation, with its memory and layers, goes on
		f.item = 3
	}
	switch f.item++; f.item {
	case 1:
		f.once(MemoryLoaded, f.memory.Thread != "", f.execution.offer.Memory, "memory",
			runtime.CategoryMemory, "memory.load",
			&Job{Op: LoadMemory}, func(r Reply) Event {
				return remembered(r.Messages)
			})
	case 2:
		if f.layer = 0; slices.Contains(s.Gathered, MemoryLoaded) {
			f.emit(trace.MemoryLoad, "messages", s.Own)
		}
	case 3:
		if f.recall() {
			f.item--
		}
	case 4:
		f.once(Retrieved, f.loop.TopK > 0, f.execution.offer.Retriever, "retriever",
			runtime.CategoryRetriever, "retriever.failed",
			&Job{Op: Retrieve, Text: s.Start.task(), Most: f.loop.TopK}, func(r Reply) Event {
				return Event{More: &More{Documents: slices.Clone(r.Documents[:min(len(r.Documents), f.loop.TopK)])}}
			})
	case 5:
		if slices.Contains(s.Gathered, Retrieved) {
			f.emit(trace.Retrieve, "documents", len(s.Found))
		}
	case 6:
		f.once(SkillsLoaded, len(f.loop.Skills) > 0, f.execution.offer.Skills, "skill loader",
			runtime.CategoryConfig, "skills.failed",
			f.skillsJob(), func(r Reply) Event {
				f.skills = r.Tools
				for _, flaw := range r.Flaws {
					f.warn(diagnostics.CodeSkillFlaw, "agent %q: %s", f.loop.Name, flaw)
				}
				return Event{More: &More{Skills: r.Skills}}
			})
	case 7:
		f.once(Instructed, f.execution.offer.Instructions, true, "environment", runtime.CategoryInfra, "env.failed",
			&Job{Op: LoadInstructions}, func(r Reply) Event { return Event{Text: r.Text} })
	default:
		f.item = steers
	}
}

// once has something loaded, unless it is in the journal, and records the result.
func (f *frame) once(kind Kind, wanted, there bool, name string,
	category runtime.Category, code string, j *Job, event func(Reply) Event) {
	switch {
	case !wanted || slices.Contains(f.state().Gathered, kind):
	case !there:
		f.warn(diagnostics.CodeMissingCapability, "agent %q has no %s, which it uses", f.loop.Name, name)
	default:
		f.want(j, func(r Reply) {
			if r.Err != nil {
				f.failed(category, code, r.Err)
				return
			}
			e := event(r)
			e.Kind = kind
			f.record(e)
		})
	}
}

func (f *frame) skillsJob() *Job { return &Job{Op: LoadSkills, Names: value.Names(f.loop.Skills)} }

// CheckSkills returns the skills that a loader gave in the form that equal ones share: sorted by scope, name and path,
// each once. flaws are about those whose changes nobody would notice later.
func CheckSkills(loaded []runtime.Skill) (skills []runtime.Skill, flaws []string) {
	skills = slices.Clone(loaded)
	for i := range skills {
		k := &skills[i]
		k.Scope, k.Name, k.Path = strings.TrimSpace(k.Scope), strings.TrimSpace(k.Name), strings.TrimSpace(k.Path)
		k.SHA256 = strings.ToLower(strings.TrimSpace(k.SHA256))
		sum, err := hex.DecodeString(k.SHA256)
		switch {
		case k.Name == "":
			flaws = append(flaws, fmt.Sprintf("skill %d that was loaded has no name", i+1))
		case k.Path == "":
			flaws = append(flaws, fmt.Sprintf("skill %q has no path", k.Name))
		case err != nil || len(sum) != sha256.Size:
			flaws = append(flaws, fmt.Sprintf("skill %q has %q in place of its SHA-256 in hex", k.Name, k.SHA256))
		}
	}
	slices.SortStableFunc(skills, func(a, b runtime.Skill) int {
		return slices.Compare([]string{a.Scope, a.Name, a.Path, a.SHA256}, []string{b.Scope, b.Name, b.Path, b.SHA256})
	})
	return slices.CompactFunc(skills, func(a, b runtime.Skill) bool {
		return a.Scope == b.Scope && a.Name == b.Name && a.Path == b.Path && a.SHA256 == b.SHA256
	}), flaws
}

// reload looks at skills that a later execution may find changed. What the loop works with stays as recorded.
func (f *frame) reload() {
	s := f.state()
	if !slices.Contains(s.Gathered, SkillsLoaded) || !f.execution.offer.Skills {
		return
	}
	f.want(f.skillsJob(), func(r Reply) {
		f.skills = r.Tools
		switch {
		case r.Err != nil && f.execution.cut != nil:
			f.finish(r.Err)
		case r.Err != nil:
			f.warn(diagnostics.CodeSkillMismatch,
				"the skills of agent %q can no longer be loaded; it continues with the recorded ones: %v",
				f.loop.Name, r.Err)
		case !slices.Equal(refs(r.Skills), refs(s.Skills)):
			f.warn(diagnostics.CodeSkillMismatch,
				"the skills of agent %q have changed since it began; it continues with the recorded ones", f.loop.Name)
		}
	})
}

// steer takes the waiting messages: recorded first, then taken from the inbox.
func (f *frame) steer() {
	if f.told() {
		f.item = steers
		return
	}
	if !f.execution.offer.Inbox || f.name != "" {
		return
	}
	f.want(&Job{Op: ReadInbox}, func(r Reply) {
		if r.Err != nil {
			f.failed(runtime.CategoryInfra, "inbox.failed", r.Err)
			return
		}
		f.noted = nil
		for _, n := range r.Notes {
			f.noted, f.item = append(f.noted, n.ID), steered
		}
		f.note(r.Notes)
	})
}

// told records the notes that the driver has for the agent; false: there is none.
func (f *frame) told() bool { return f.name == "" && f.note(f.execution.Notes) }

// note records notes, but for those that it had before; false: there is no other.
func (f *frame) note(notes []runtime.Note) bool {
	var fresh []runtime.Note
	for _, n := range notes {
		if !slices.Contains(f.state().Taken, n.ID) &&
			!slices.ContainsFunc(fresh, func(o runtime.Note) bool { return o.ID == n.ID }) {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) == 0 {
		return false
	}
	f.record(Event{Kind: Steered, More: &More{Notes: fresh}})
	f.emit(trace.Steer, "messages", len(fresh))
	return true
}
