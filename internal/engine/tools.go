package engine

import (
	"errors"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// tools are the tools of a run that may change.
type tools struct {
	now     map[string]runtime.ToolSpec // as they are in this execution
	seen    map[string]string           // the fingerprints of tools as they were first seen
	changed map[string]string           // how some have changed since
}

// see notes the tools that the run has not seen before, and returns their fingerprints.
func (s *tools) see() map[string]string {
	fresh := map[string]string{}
	for _, name := range value.SortedKeys(s.now) {
		spec := s.now[name]
		if was, known := s.seen[name]; !known {
			fresh[name] = spec.Fingerprint()
		} else if what := spec.Since(was); what != "" {
			if s.changed == nil {
				s.changed = map[string]string{}
			}
			s.changed[name] = what
		}
	}
	s.recall(fresh)
	return fresh
}

// recall notes tools as they were first seen.
func (s *tools) recall(first map[string]string) {
	if s.seen == nil && len(first) > 0 {
		s.seen = map[string]string{}
	}
	for _, name := range value.SortedKeys(first) {
		if _, known := s.seen[name]; !known {
			s.seen[name] = first[name]
		}
	}
}

// unchanged is the error for a tool that is not the one that the run first saw; nil: it is.
func (s *tools) unchanged(tool string) error {
	what := s.changed[tool]
	if what == "" {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryTool, Code: "mcp.changed",
		Err: errors.New(agents.Changed(tool, what))}
}
