package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust lets a configuration be used, wherever it is.
func trust(string) bool { return true }

const printRecipe = `apiVersion: braise/v1
name: where
steps:
  ask: {uses: human, with: {prompt: "Go?"}}
  where: {uses: exec.run, needs: [ask], with: {argv: [pwd]}}
output: ${{ steps.where.output.stdout }}
`

var approved = map[string]any{"decision": "approve"}

// Trust 2.3 and 7.9: a run that began with a configuration is resumed from a folder that has none with the same
// configuration, in the same working folder; after a change it is left as it is, and the token usable.
func TestRunsKeepTheirConfiguration(t *testing.T) {
	home, elsewhere := t.TempDir(), t.TempDir()
	write(t, filepath.Join(home, "braise.yaml"), "tools: {exec: {allow: [pwd]}}\n")
	write(t, filepath.Join(home, "recipe.yaml"), printRecipe)
	store := "jsonl:" + filepath.Join(t.TempDir(), "runs")
	begin := func() *workflow.Outcome {
		t.Helper()
		t.Chdir(home)
		h, wf := opened(t, &host.Options{Recipe: "recipe.yaml", Store: store, By: "ada"})
		out := h.Run(t.Context(), wf, nil)
		if out.Status != workflow.StatusPaused {
			t.Fatal(out.Err)
		}
		t.Chdir(elsewhere)
		return out
	}
	open := func(opts host.Options) *host.Host {
		opts.Store = store
		h, err := host.Open(t.Context(), &opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		return h
	}

	first := begin()
	h := open(host.Options{})
	if out := h.Resume(t.Context(), first.Token, approved, nil); out.Output != home+"\n" {
		t.Errorf("from elsewhere: %q, %v", out.Output, out.Err)
	}
	named := begin()
	h = open(host.Options{Config: filepath.Join(home, "braise.yaml")})
	if out := h.Resume(t.Context(), named.Token, approved, nil); out.Output != home+"\n" {
		t.Errorf("with its configuration named: %q, %v", out.Output, out.Err)
	}

	changed := begin()
	write(t, filepath.Join(home, "braise.yaml"), "tools: {exec: {allow: [pwd, rm]}}\n")
	out := open(host.Options{}).Resume(t.Context(), changed.Token, approved, nil)
	e := out.Failure()
	if e == nil || e.Code != "config.elsewhere" || host.ExitCode(out) != host.ExitMissing ||
		!strings.Contains(e.Error(), "hint: --config PATH") || !strings.Contains(e.Error(), home) {
		t.Errorf("after a change: %v", out.Err)
	}
	s, err := h.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if run, err := history.Load(t.Context(), s, changed.RunID); err != nil || len(run.Acts) != 1 || run.Acts[0].By != "ada" {
		t.Errorf("after a change %v was recorded: %v", run.Acts, err)
	}
	h = open(host.Options{Config: filepath.Join(home, "braise.yaml")})
	if out := h.Resume(t.Context(), changed.Token, approved, nil); out.Output != elsewhere+"\n" {
		t.Errorf("with the changed configuration: %q, %v", out.Output, out.Err)
	}
}

// Trust 7.9: the configuration of another machine or another user is not used.
func TestForeignConfigurationsAreNotUsed(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	write(t, "braise.yaml", "tools: {exec: {allow: [pwd]}}\n")
	write(t, "recipe.yaml", printRecipe)
	store := "jsonl:" + filepath.Join(t.TempDir(), "runs")
	h, wf := opened(t, &host.Options{Recipe: "recipe.yaml", Store: store})
	for _, part := range []string{"host", "user"} {
		rt, err := h.Runtime(t.Context(), wf)
		if err != nil {
			t.Fatal(err)
		}
		origin := map[string]string{}
		for name, text := range rt.Origin {
			origin[name] = text
		}
		origin[part] = "other"
		there := runtime.Runtime(*rt)
		there.Origin = origin
		out, err := wf.Run(t.Context(), nil, &there)
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(t.TempDir())
		elsewhere, err := host.Open(t.Context(), &host.Options{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		refused := elsewhere.Resume(t.Context(), out.Token, approved, nil)
		elsewhere.Close()
		if e := refused.Failure(); e == nil || e.Code != "config.elsewhere" {
			t.Errorf("of another %s: %v %v", part, refused.Status, refused.Err)
		}
		t.Chdir(home)
	}
}

// Trust 6.9: a configuration beside a recipe outside of the working folder is not used, unless somebody says so.
func TestStrangersConfigurations(t *testing.T) {
	work, stranger := t.TempDir(), t.TempDir()
	t.Chdir(work)
	if err := os.Symlink(stranger, "link"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(stranger, "braise.yaml"), "tools: {exec: {allow: [sh]}}\n")
	write(t, filepath.Join("below", "braise.yaml"), "{}\n")
	for _, tt := range []struct {
		name, recipe, config string
		trust                func(string) bool
		want                 string
	}{
		{"a stranger's", filepath.Join(stranger, "recipe.yaml"), "", nil, ""},
		{"behind a link", "link/recipe.yaml", "", nil, ""},
		{"a no", filepath.Join(stranger, "recipe.yaml"), "", func(string) bool { return false }, ""},
		{"a yes", filepath.Join(stranger, "recipe.yaml"), "", trust, filepath.Join(stranger, "braise.yaml")},
		{"named", filepath.Join(stranger, "recipe.yaml"), filepath.Join(stranger, "braise.yaml"), nil,
			filepath.Join(stranger, "braise.yaml")},
		{"below the working folder", "below/recipe.yaml", "", nil, filepath.Join("below", "braise.yaml")},
	} {
		var warned []string
		h, err := host.Open(t.Context(), &host.Options{Recipe: tt.recipe, Config: tt.config, Trust: tt.trust,
			Warn: func(text string) { warned = append(warned, text) }})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.ConfigPath(); got != tt.want || (len(warned) > 0) != (tt.want == "") {
			t.Errorf("%s: %q, want %q; warnings %q", tt.name, got, tt.want, warned)
		}
		if none := h.NoConfig(); none != "" {
			t.Errorf("%s: there is one, and NoConfig says %q", tt.name, none)
		}
	}
}

// Doctor says that a configuration was found and is not used, and not that none was found.
func TestExamineStrangers(t *testing.T) {
	stranger := t.TempDir()
	t.Chdir(t.TempDir())
	write(t, filepath.Join(stranger, "braise.yaml"), "tools: {exec: {allow: [sh]}}\n")
	checks, err := (&host.Options{Recipe: filepath.Join(stranger, "recipe.yaml")}).Examine(t.Context())
	want := filepath.Join(stranger, "braise.yaml") + " is not used: it is outside of the working folder, " +
		"and allows programs; --config uses it"
	if err != nil || checks[0].Message != want {
		t.Errorf("got %+v, %v, want %q", checks, err, want)
	}
}

// Trust 8.5: the home folder, and those above it, vouch for nothing below them.
func TestUntrusted(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"home/downloads", "home/work/sub", "else"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := host.ParseConfig("braise.yaml", []byte("tools: {exec: {allow: [sh]}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(top, "home"))
	t.Setenv("USERPROFILE", filepath.Join(top, "home"))
	for _, tt := range []struct {
		work, dir string
		want      bool
	}{
		{"home/work", "home/work", true},
		{"home/work", "home/work/sub", true},
		{"home/work", "home/downloads", false},
		{"home/work", "home", false},
		{"else", "else", true},
		{"home", "home", true},
		{"home", "home/downloads", false},
		{".", "home/work", false},
		{".", "else", false},
		{".", ".", true},
		{"else", "none", false},
	} {
		t.Chdir(filepath.Join(top, tt.work))
		if got := c.Untrusted(filepath.Join(top, tt.dir)); (len(got) == 0) != tt.want {
			t.Errorf("in %s, of %s: %v", tt.work, tt.dir, got)
		}
	}
}

// A folder of secrets is something that a configuration allows, unless it is below that of the configuration.
func TestUntrustedSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	for folder, want := range map[string]string{"/run/secrets": "[secrets in /run/secrets]", "../s": "[secrets in ../s]", "s": "[]"} {
		c, err := host.ParseConfig("braise.yaml", []byte("secrets: {from_files: "+folder+"}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.Untrusted(t.TempDir())); got != want {
			t.Errorf("%s: got %s, want %s", folder, got, want)
		}
	}
}

// opened is an open host, with the recipe of its options.
func opened(t *testing.T, opts *host.Options) (*host.Host, *workflow.Workflow) {
	t.Helper()
	h, err := host.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	wf, err := h.Load(t.Context(), opts.Recipe)
	if err != nil {
		t.Fatal(err)
	}
	return h, wf
}
