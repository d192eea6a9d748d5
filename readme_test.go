package braise_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// The recipe of the README is laid out as braise fmt does, and waits for a person before anything is sent.
func TestReadmeRecipe(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, source, _ := strings.Cut(string(page), "\n```yaml\n")
	source, _, _ = strings.Cut(source, "```")
	if formatted, err := recipe.Format("reply.yaml", []byte(source)); err != nil {
		t.Fatal(err)
	} else if diff := cmp.Diff(source, string(formatted)); diff != "" {
		t.Errorf("braise fmt would change it (-README +fmt):\n%s", diff)
	}
	r, err := recipe.Parse("reply.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": runtimetest.Texts("Sorry!")},
		Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	out, err := wf.Run(t.Context(), map[string]any{"ticket": "I was charged twice!"}, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{"send": true, "text": "Sorry!"}), out.Output); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
