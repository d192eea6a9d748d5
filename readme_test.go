package braise_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// block returns the n-th fenced block of README.md in a language.
func block(t *testing.T, language string, n int) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if n >= len(blocks) {
		t.Fatalf("README.md has %d blocks of %s", len(blocks), language)
	}
	return blocks[n][1]
}

// The recipe of the README does what the README says.
func TestReadmeRecipe(t *testing.T) {
	source := block(t, "yaml", 0)
	if formatted, err := recipe.Format("triage.yaml", []byte(source)); err != nil {
		t.Fatal(err)
	} else if diff := cmp.Diff(source, string(formatted)); diff != "" {
		t.Errorf("braise fmt would change it (-README +fmt):\n%s", diff)
	}
	r, err := recipe.Parse("triage.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	model, err := script.Parse("answers.yaml", []byte(block(t, "yaml", 1)))
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}}
	out, err := wf.Run(t.Context(), map[string]any{"ticket": "I was charged twice!"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal([]byte(block(t, "json", 0)), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.Output); diff != "" {
		t.Errorf("(-README +got):\n%s", diff)
	}
}

// The agent of the README is one of those of docs/agents.md, which scenarios run.
func TestReadmeAgent(t *testing.T) {
	page, err := os.ReadFile("docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	if agent := block(t, "yaml", 2); !strings.Contains(string(page), "```yaml\n"+agent+"```") {
		t.Errorf("docs/agents.md has no\n%s", agent)
	}
}

// The Go program of the README is the body of embed, below.
func TestReadmeProgram(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "lookup runtime.Tool) error {\n")
	body, _, _ = strings.Cut(body, "\treturn nil\n}\n")
	body = strings.ReplaceAll(strings.TrimPrefix(body, "\t"), "\n\t", "\n")
	if diff := cmp.Diff(block(t, "go", 0), body); diff != "" {
		t.Errorf("(-README +embed):\n%s", diff)
	}
	model, err := script.Parse("answers.yaml", []byte(block(t, "yaml", 1)))
	if err != nil {
		t.Fatal(err)
	}
	lookup := runtime.NewTool(runtime.ToolSpec{Name: "crm.lookup"},
		func(context.Context, struct{}) (string, error) { return "", nil })
	triage := block(t, "yaml", 0)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("triage.yaml", []byte(triage), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := embed(t.Context(), model, lookup); err != nil {
		t.Error(err)
	}
}

func embed(ctx context.Context, model runtime.Model, lookup runtime.Tool) error {
	r, err := recipe.Load(os.DirFS("."), "triage.yaml")
	if err != nil {
		return err // every mistake, each with its position and a hint
	}
	wf, err := workflow.Compile(r, nil) // immutable; share it between runs
	if err != nil {
		return err
	}
	rt := &runtime.Runtime{
		Models: map[string]runtime.Model{"fast": model}, // anything with a method Generate
		Tools:  []runtime.Tool{lookup},                  // runtime.NewTool makes one of a function
	}
	out, err := wf.Run(ctx, map[string]any{"ticket": "I was charged twice!"}, rt)
	if err != nil {
		return err // the same as out.Err; out holds the trace and the findings all the same
	}
	fmt.Println(out.Output)
	return nil
}
