package recipes_test

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/recipes"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/scenario/scenariotest"
	"github.com/braise-run/braise/workflow"
)

// patterns are the recipes that show one thing each. The others do a whole task.
var patterns = []string{"agent", "chat", "chat-rag", "evaluator-optimizer", "function-calling", "handoff", "hitl", "ingest", "loop", "parallel-vote", "plan-execute", "rag",
	"react", "routing", "summarize"}

func TestNames(t *testing.T) {
	want := append([]string{"changelog", "data-check", "evaluate", "fan-out-summary", "operator", "qa", "research", "review", "starter", "triage"},
		patterns...)
	slices.Sort(want)
	if got := recipes.Names(); !slices.Equal(got, want) {
		t.Errorf("names are %q, want %q", got, want)
	}
}

// A pattern is read on one screen.
func TestPatternsAreShort(t *testing.T) {
	for _, name := range patterns {
		if n := strings.Count(read(t, name+"/recipe.yaml"), "\n"); n > 60 {
			t.Errorf("%s has %d lines, the limit is 60", name, n)
		}
	}
}

// Every kind of step occurs in a shipped recipe.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	var look func(steps []recipe.Step)
	look = func(steps []recipe.Step) {
		for i := range steps {
			seen[steps[i].Uses.Text] = true
			for _, b := range steps[i].Bodies() {
				look(b.All())
			}
		}
	}
	for _, name := range recipes.Names() {
		wf, _ := compile(t, name)
		look(wf.Recipe().Steps)
	}
	for _, k := range recipe.Kinds() {
		if !seen[k.Name] {
			t.Errorf("no shipped recipe has a step of kind %q", k.Name)
		}
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
	rt.Resume = resume.PassThrough{}
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
	below, err := filepath.Glob("*/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, below...) {
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
		t.Run(name, func(t *testing.T) { scenariotest.Run(t, name, nil) })
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

// A run can write no file that says what runs do: file tools have a folder of their own. review is the exception: its
// folder is a repository, in which it writes one file, by a path that is fixed.
func TestRunsHaveAFolder(t *testing.T) {
	for _, name := range recipes.Names() {
		config, err := host.LoadConfig(filepath.Join(name, host.FileName))
		if err != nil {
			t.Fatal(err)
		}
		if file := config.Tools.File; file != nil && filepath.Clean(file.Base) == "." && name != "review" {
			t.Errorf("%s: file.write may write beside the recipe; give runs a folder of their own", name)
		}
	}
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

// TestSamples runs recipes on their own data with their own scripts, as docs/recipes.md says.
func TestSamples(t *testing.T) {
	tests := []struct {
		recipe string
		inputs map[string]any
		want   map[string]any // members of the output; a number is the length of a list
	}{
		{"qa", nil, map[string]any{"status": "verified", "citations": 5, "unverified": 0}},
		{"qa", map[string]any{"question": "May I eat in the quiet rooms?"},
			map[string]any{"status": "unverified", "answer": nil, "citations": 0, "unverified": 1, "withheld": "Yes, cold food is allowed."}},
		{"qa", map[string]any{"question": "Who runs the library?"}, map[string]any{"status": "not_found", "answer": nil}},
		{"evaluate", nil, map[string]any{"winner": "careful", "tied": 0, "ranking": 3, "failures": 0}},
		{"research", nil, map[string]any{"status": "verified", "sources": 3, "unverified": 0, "open": 0, "report": nil}},
		{"research", map[string]any{"question": "May a handler take an hour?"},
			map[string]any{"status": "unverified", "answer": nil, "sources": 0, "unverified": 1, "withheld": "Yes."}},
		{"review", nil, map[string]any{"verdict": "request_changes", "findings": 2, "dropped": 0, "not_reviewed": 0, "files": 1}},
		{"data-check", nil, map[string]any{"ok": true, "checked": int64(3), "problems": 0}},
		{"data-check", map[string]any{"file": "data/orders.jsonl"}, map[string]any{"ok": false, "checked": int64(5), "problems": 6}},
	}
	for _, tt := range tests {
		out, _ := run(t, tt.recipe, tt.inputs).(map[string]any)
		got := map[string]any{}
		for name := range tt.want {
			got[name] = out[name]
			if list, ok := out[name].([]any); ok {
				got[name] = len(list)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", tt.recipe, tt.inputs, diff)
		}
	}
}

// TestDataFromAnAddress gives data-check rows from an address, which scenarios cannot.
func TestDataFromAnAddress(t *testing.T) {
	wf, rt := compile(t, "data-check")
	for i, tool := range rt.Tools {
		if tool.Spec().Name == "http.request" {
			rt.Tools[i] = rows{tool}
		}
	}
	out, err := wf.Run(t.Context(), map[string]any{"url": "https://example.com/orders.ndjson?all"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	want := any(map[string]any{"ok": false, "checked": int64(2), "problems": []any{
		map[string]any{"row": int64(2), "field": "status", "problem": `not one of "new", "paid", "sent": "lost"`}}})
	if diff := cmp.Diff(want, out.Output); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// rows is http.request with one answer to everything.
type rows struct{ runtime.Tool }

func (rows) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.Marshal(map[string]any{"status": 200, "body": `{"id": "A-1001", "customer": "Ada", "quantity": 1, "price": 1, "status": "new"}
{"id": "A-1002", "customer": "Bo", "quantity": 1, "price": 1, "status": "lost"}
`})
}

// TestResearchOnTheWeb lets an agent read a page, which scenarios cannot: what it quotes from it is looked up there again.
func TestResearchOnTheWeb(t *testing.T) {
	var asked atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "<p>A claim is kept for\n<b>45 seconds</b>.</p>")
	}))
	defer site.Close()
	dir := t.TempDir()
	copyRecipe(t, "research", dir)
	write(t, dir, "braise.yaml", "models: {researcher: {provider: script, file: script.yaml}}\ntools: {file: {base: ./work}, http: {allow_private: true}}\nretriever: {index: work/docs}\n")
	write(t, dir, "script.yaml", strings.ReplaceAll(`
turns:
  - expect: {contains: "Pages to begin with: URL/queue"}
    tool_calls: [{name: http.request, args: {url: "URL/queue"}}]
  - expect: {contains: 45 seconds}
    json:
      found: true
      answer: 45 seconds.
      sources:
        - {source: "URL/queue", quote: "A claim is kept for <b>45 seconds</b>."}
        - {source: "URL/queue", quote: A claim is kept for 46 seconds.}
      open: []
`, "URL", site.URL))
	wf, rt := compile(t, dir)
	out, err := wf.Run(t.Context(), map[string]any{"question": "How long is a claim kept?", "pages": []any{site.URL + "/queue"}, "report": "claims.md"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := out.Output.(map[string]any)
	if got["status"] != "partly_verified" || asked.Load() != 2 {
		t.Errorf("status %v after %d requests, want partly_verified after 2", got["status"], asked.Load())
	}
	want := strings.ReplaceAll("# How long is a claim kept?\n\n45 seconds.\n\n## Sources\n\n- URL/queue: “A claim is kept for <b>45 seconds</b>.”\n", "URL", site.URL)
	if diff := cmp.Diff(want, read(t, filepath.Join(dir, "work", "reports", "claims.md"))); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
}

// TestReviewOfARepository gives review what git says has changed in the working folder.
func TestReviewOfARepository(t *testing.T) {
	dir := t.TempDir()
	copyRecipe(t, "review", dir)
	git := repository(t, dir)
	git("add", ".")
	git("commit", "-q", "-m", "the first")
	git("checkout", "-q", "-b", "work")
	write(t, dir, "testdata/store.go", "package store\n")
	git("commit", "-q", "-a", "-m", "store: nothing")
	if err := os.Remove(filepath.Join(dir, "testdata/change.diff")); err != nil { // not in the list: it is gone
		t.Fatal(err)
	}
	write(t, dir, "agents/tests.md", "Look at the tests.\n") // not committed
	wf, rt := compile(t, dir)
	rt.Models["reviewer"] = runtimetest.Texts(`{"summary": "Less.", "findings": [], "not_reviewed": []}`)
	out, err := wf.Run(t.Context(), map[string]any{"base": "main"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	want := any(map[string]any{"verdict": "approve", "summary": "Less.", "findings": []any{}, "not_reviewed": []any{}, "dropped": []any{},
		"files": []any{"agents/tests.md", "testdata/store.go"}})
	if diff := cmp.Diff(want, out.Output); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if text := read(t, filepath.Join(dir, ".braise", "review.diff")); !strings.Contains(text, "+Look at the tests.") {
		t.Errorf("what the agents read lacks a change:\n%s", text)
	}
}

// TestOperatorWaits goes on with the sample of operator as its script says.
func TestOperatorWaits(t *testing.T) {
	wf, rt := compile(t, "operator")
	rt.Resume = resume.PassThrough{}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "reject"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := out.Output.(map[string]any); got["status"] != "unchecked" {
		t.Errorf("status %v", got["status"])
	}
}

// copyRecipe writes a shipped recipe into a folder.
func copyRecipe(t *testing.T, name, dir string) {
	t.Helper()
	files, err := fs.Sub(recipes.FS, name)
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// repository makes the folder a git repository and the working folder. It returns git.
func repository(t *testing.T, dir string) func(args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	t.Chdir(dir)
	t.Setenv("HOME", t.TempDir()) // no configuration but ours
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2025-02-03T12:00:00Z", "GIT_COMMITTER_DATE=2025-02-03T12:00:00Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	return git
}

// TestChangelogOfARepository runs git: in a repository with one commit, then with a tag behind it.
func TestChangelogOfARepository(t *testing.T) {
	wf, rt := compile(t, "changelog")
	git := repository(t, t.TempDir())
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
