package recipes_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/recipes"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/scenario"
	"github.com/braise-run/braise/workflow"
)

func TestNames(t *testing.T) {
	if got, want := recipes.Names(), []string{"changelog", "fan-out-summary", "starter", "triage"}; !slices.Equal(got, want) {
		t.Errorf("names are %q, want %q", got, want)
	}
}

// compile makes what runs a shipped recipe as `braise run` does, from its folder on disk.
func compile(t *testing.T, name string) (*workflow.Workflow, *runtime.Runtime) {
	t.Helper()
	config, err := host.LoadConfig(filepath.Join(name, host.FileName))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := config.Runtime(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := host.LoadRecipe(name + "/recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	opts := workflow.Options{}
	for _, tool := range rt.Tools {
		opts.Tools = append(opts.Tools, tool.Spec())
	}
	wf, err := workflow.Compile(r, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return wf, rt
}

// TestCheck holds every recipe to what braise validate says of it with its own configuration.
func TestCheck(t *testing.T) {
	for _, name := range recipes.Names() {
		wf, rt := compile(t, name)
		found, err := wf.Check(t.Context(), rt)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, d := range found {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestFormat(t *testing.T) {
	files, err := filepath.Glob("*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text := read(t, file)
		want, err := recipe.Format(file, []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(string(want), text); diff != "" {
			t.Errorf("%s is not as braise fmt writes it (-want +got):\n%s", file, diff)
		}
	}
}

func TestDocs(t *testing.T) {
	docs := read(t, "../docs/recipes.md")
	for _, name := range recipes.Names() {
		if !strings.Contains(docs, "\n## "+name+"\n") {
			t.Errorf("docs/recipes.md has no section %q", name)
		}
		wf, _ := compile(t, name)
		for _, in := range wf.Recipe().Inputs {
			if !strings.Contains(docs, "| `"+in.Name+"` |") {
				t.Errorf("docs/recipes.md does not list the input %q of %s", in.Name, name)
			}
		}
	}
}

func TestScenarios(t *testing.T) {
	for _, name := range recipes.Names() {
		t.Run(name, func(t *testing.T) { scenario.Run(t, name, nil) })
	}
}

// TestFS fails when a file of a recipe is not embedded: go:embed leaves out what begins with . or _.
func TestFS(t *testing.T) {
	for _, name := range recipes.Names() {
		err := fs.WalkDir(os.DirFS("."), name, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			got, err := recipes.FS.ReadFile(path.Clean(file))
			if err == nil && string(got) != read(t, file) {
				t.Errorf("%s is embedded as something else", file)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func run(t *testing.T, name string, inputs map[string]any) any {
	t.Helper()
	wf, rt := compile(t, name)
	out, err := wf.Run(t.Context(), inputs, rt)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, d := range out.Diagnostics {
		t.Errorf("%s: %s", name, d)
	}
	return out.Output
}

// TestFanOutSummary runs the README's first command: on the documentation of this repository.
func TestFanOutSummary(t *testing.T) {
	got, _ := run(t, "fan-out-summary", nil).(string)
	for _, want := range []string{"\n| recipes.md ", "\n| config.md ", "Minutes to read it all", "Every link from one of these files to another leads somewhere."} {
		if !strings.Contains(got, want) {
			t.Errorf("the output does not contain %q:\n%s", want, got)
		}
	}
}

func TestTriageTickets(t *testing.T) {
	tests := []struct{ ticket, category, action string }{
		{"T-1042", "billing", "review"},
		{"T-1043", "bug", "escalate"},
		{"T-1044", "howto", "send"},
	}
	for _, tt := range tests {
		got, _ := run(t, "triage", map[string]any{"ticket_id": tt.ticket}).(map[string]any)
		if got["category"] != tt.category || got["action"] != tt.action {
			t.Errorf("%s: %v, %v; want %s, %s", tt.ticket, got["category"], got["action"], tt.category, tt.action)
		}
	}
}

// TestChangelogOfARepository runs git: in a repository with one commit, then with a tag behind it.
func TestChangelogOfARepository(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	wf, rt := compile(t, "changelog")
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir()) // no configuration but ours
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2025-02-03T12:00:00Z", "GIT_COMMITTER_DATE=2025-02-03T12:00:00Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	changelog := func(inputs map[string]any) string {
		t.Helper()
		out, err := wf.Run(t.Context(), inputs, rt)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := out.Output.(string)
		return text
	}
	check := func(got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("the changelog does not contain %q:\n%s", w, got)
			}
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "parser: the first rule")
	check(changelog(nil), "# Changes up to HEAD\n", "Commits: 1, people: 1, 2025-02-03 to 2025-02-03.", "## parser\n\n- the first rule `")
	git("tag", "v1.0.0")
	check(changelog(nil), "# Changes up to HEAD\n", "- the first rule `") // up to the tag itself
	git("commit", "-q", "--allow-empty", "-m", "fix(parser): an empty rule")
	check(changelog(nil), "# Changes from v1.0.0 to HEAD\n", "Commits: 1, ", "## Fixes\n\n- **parser**: an empty rule `")
	check(changelog(map[string]any{"to": "v1.0.0"}), "# Changes up to v1.0.0\n", "- the first rule `")
	check(changelog(map[string]any{"from": "HEAD", "polish": true}), "# Changes from HEAD to HEAD\n\nThere are none.\n")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
