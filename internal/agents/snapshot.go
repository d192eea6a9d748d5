package agents

import (
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// snapshot says what a run of a loop was made of, in a form that equal runs share.
type snapshot struct {
	Agent      string        `json:"agent"`
	Allow      []string      `json:"allow,omitzero"` // normalised; nil: all
	Skills     []skillRef    `json:"skills,omitempty"`
	Approvals  []string      `json:"approvals,omitempty"` // granted for the run by decisions of this loop, sorted
	Definition string        `json:"definition"`          // Loop.Digest
	Steps      int           `json:"steps"`
	Usage      runtime.Usage `json:"usage"`
}

// skillRef names a skill as it was.
type skillRef struct {
	Scope  string `json:"scope,omitempty"`
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// snapshot is the frame's, as far as its state has come.
func (f *frame) snapshot() snapshot {
	s := f.state()
	snap := snapshot{Agent: f.loop.Name, Skills: refs(s.Skills), Approvals: slices.Clone(s.Grants),
		Definition: f.digest(), Steps: s.Steps, Usage: s.Total()}
	if !f.loop.HasAllTools() {
		snap.Allow = append([]string{}, f.loop.Listed()...)
	}
	return snap
}

// digest is the definition's, computed once: the state has it from the start.
func (f *frame) digest() string {
	if s := f.state(); s.Phase != "" {
		return s.Start.Definition
	}
	return f.loop.Digest()
}

// refs names skills sorted by scope, name and path, each once.
func refs(skills []runtime.Skill) []skillRef {
	list := make([]skillRef, len(skills))
	for i, k := range skills {
		list[i] = skillRef{k.Scope, k.Name, k.Path, k.SHA256}
	}
	slices.SortStableFunc(list, func(a, b skillRef) int {
		return slices.Compare([]string{a.Scope, a.Name, a.Path, a.SHA256}, []string{b.Scope, b.Name, b.Path, b.SHA256})
	})
	return slices.Compact(list)
}

// Select chooses one of the agents with these ids: the one that is asked for, else the only one. Otherwise
// it returns a diagnostic of level error: the step that asked fails.
func Select(ids []string, asked string) (string, diagnostics.List) {
	known := value.Names(ids)
	found := diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindContract}
	switch {
	case asked != "" && slices.Contains(known, asked):
		return asked, nil
	case asked != "":
		found.Code, found.Message = diagnostics.CodeUnknownAgent, fmt.Sprintf("there is no agent %q", asked)
		found.Hint = diagnostics.DidYouMean(asked, known)
	case len(known) == 1:
		return known[0], nil
	default:
		found.Code = diagnostics.CodeAmbiguousAgent
		found.Message = "no agent is named, choose one of: " + strings.Join(known, ", ")
	}
	return "", diagnostics.List{found}
}
