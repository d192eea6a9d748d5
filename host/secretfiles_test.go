package host_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
)

// The files of a folder are secrets: they reach the tool, nothing else, and the errors about them name the file and the
// place in braise.yaml.
func TestSecretsFromFiles(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "got "+r.Header.Get("Authorization"))
	}))
	defer srv.Close()
	t.Setenv("FROM_ENV", "battery-staple")
	const config = "tools: {http: {allow_private: true}}\nstore: jsonl:runs\nsecrets:\n  from_env: [FROM_ENV]\n  from_files: run/secrets\n"
	for _, tt := range []struct {
		name, code, err string // err: of the run, DIR for the folder of the configuration
	}{
		{"TOKEN", "", ""},
		{"FROM_ENV", "", ""},
		{"EMPTY", "secret.failed", `secret "EMPTY" cannot be read: the file DIR/run/secrets/EMPTY is empty (DIR/braise.yaml:5)` + "\n  hint: put the secret into this file"},
		{"ODD", "secret.failed", `secret "ODD" cannot be read: the file DIR/run/secrets/ODD is not text in UTF-8 (DIR/braise.yaml:5)`},
		{"LARGE", "secret.failed", `secret "LARGE" cannot be read: the file DIR/run/secrets/LARGE: it has more than 65536 bytes (DIR/braise.yaml:5)`},
		{"SHORT", "secret.tooShort", `secret "SHORT" has under 8 bytes`},
		{"NONE", "secret.missing", "no secret named \"NONE\" is configured: there is no file DIR/run/secrets/NONE (DIR/braise.yaml:5)\n  hint: put the secret into this file"},
		{"FOLDER", "secret.missing", `no secret named "FOLDER" is configured: there is no file DIR/run/secrets/FOLDER (DIR/braise.yaml:5)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, dir := install(t, host.Options{Reporter: discard{}}, map[string]string{
				"braise.yaml": config,
				"recipe.yaml": "apiVersion: braise/v1\nname: r\nsteps:\n  get: {uses: http.request, with: {url: '" + srv.URL +
					"', headers: {Authorization: '${{ secrets." + tt.name + " }}'}}}\noutput: ${{ steps.get.output.body }}\n",
				"run/secrets/TOKEN":    "correct-horse\n",
				"run/secrets/EMPTY":    "\n",
				"run/secrets/ODD":      "hunter2\xffhunter2",
				"run/secrets/LARGE":    strings.Repeat("hunter2", 10_000),
				"run/secrets/SHORT":    "hunter2\n",
				"run/secrets/FOLDER/X": "hunter2hunter2",
			})
			out := h.Run(t.Context(), loaded(t, h, dir), nil)
			if tt.code == "" {
				if out.Output != "got ***" {
					t.Errorf("got %v, %v", out.Output, out.Err)
				}
				for _, file := range files(t, filepath.Join(dir, "runs")) {
					if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "correct-horse") || strings.Contains(string(text), "battery-staple") {
						t.Errorf("the store has the secret: %s, %v", text, err)
					}
				}
				return
			}
			want := strings.ReplaceAll(tt.err, "DIR", filepath.ToSlash(dir))
			if e := out.Failure(); e == nil || e.Code != tt.code || !strings.Contains(e.Error(), want) || strings.Contains(e.Error(), "hunter2") {
				t.Errorf("got %v\nwant %s: %s", out.Err, tt.code, want)
			}
		})
	}
}

// files lists the files below a folder.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil || list == nil {
		t.Fatalf("%s has the files %v, %v", dir, list, err)
	}
	return list
}

// A name is that of a variable or of a file.
func TestSecretsInBothPlaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "braise.yaml")
	write(t, path, "secrets:\n  from_files: s\n  from_env: [A_TOKEN, TOKEN]\n")
	write(t, filepath.Join(dir, "s", "TOKEN"), "correct-horse")
	shown := filepath.ToSlash(dir)
	want := []string{shown + `/braise.yaml:3:23: the secret "TOKEN" is a variable of from_env and a file of from_files, ` + shown + "/s/TOKEN", "remove one of the two"}
	h, err := host.Open(t.Context(), &host.Options{Config: path, Store: host.MemoryStore})
	if err == nil {
		h.Close()
	}
	list, ok := errors.AsType[*diagnostics.Error](err)
	if !ok || len(list.List) != 1 {
		t.Fatalf("got %v, want %q", err, want)
	}
	d := list.List[0]
	if diff := cmp.Diff(want, []string{d.Position.String() + ": " + d.Message, d.Hint}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checks, err := (&host.Options{Config: path, Store: host.MemoryStore}).Examine(t.Context())
	if err == nil || !strings.Contains(fmt.Sprint(checks), "both a variable of from_env and a file of from_files") {
		t.Errorf("doctor: %v, %v", err, checks)
	}
}

// doctor names the files, and shows nothing of them.
func TestExamineSecretFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"GOOD": "hunter2hunter2\n", "SHORT": "hunter2", "PEM": "hunter2\nhunter2", "EMPTY": "", "tls.key": "hunter2hunter2",
		"..2024/GOOD": "hunter2hunter2", "sub/GOOD": "hunter2hunter2"} {
		write(t, filepath.Join(dir, "s", name), text)
	}
	if err := os.Mkdir(filepath.Join(dir, "bare"), 0o755); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string][]string{
		"s": {"fail EMPTY: the file DIR/s/EMPTY is empty (b.yaml:1)", "ok GOOD: in DIR/s",
			"warn PEM: in DIR/s, with a line break or another control character inside", "fail SHORT: shorter than 8 bytes",
			"warn tls.key: no recipe can name the file DIR/s/tls.key"},
		"bare": {"warn : there is no file in DIR/bare"},
		"gone": {"fail : the folder DIR/gone: no such file or directory"},
	} {
		config, err := host.ParseConfig("b.yaml", []byte("secrets: {from_files: "+folder+"}"), environ(nil))
		if err != nil {
			t.Fatal(err)
		}
		checks := config.Examine(t.Context(), dir)
		var got []string
		for _, c := range checks {
			if c.Part == "secret" {
				got = append(got, strings.ReplaceAll(fmt.Sprint(c.Status, " ", c.Name, ": ", c.Message), filepath.ToSlash(dir), "DIR"))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" && !(folder == "gone" && len(got) == 1 && os.PathSeparator != '/') {
			t.Errorf("%s (-want +got)\n%s", folder, diff)
		}
		if text := fmt.Sprint(checks); strings.Contains(text, "hunter2") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
}

// Runs neither read nor write the files by file.read, file.write and as files of a model.
func TestRunsDoNotReadSecretFiles(t *testing.T) {
	const config = "tools: {file: {base: .}}\nstore: 'memory:'\nmodels: {m: {provider: script, file: m.yaml}}\nsecrets: {from_files: s}\n"
	for _, step := range []string{
		"{uses: file.read, with: {path: s/TOKEN}}",
		"{uses: file.write, with: {path: s/TOKEN, content: new}}",
		"{uses: file.write, with: {path: s/NEW, content: new}}",
		"{uses: model, with: {model: m, messages: [{role: user, text: hi, files: [s/TOKEN]}]}}",
	} {
		h, dir := install(t, host.Options{}, map[string]string{"braise.yaml": config, "m.yaml": "turns: [{text: hello}]", "s/TOKEN": "correct-horse",
			"recipe.yaml": "apiVersion: braise/v1\nname: r\nsteps:\n  a: " + step + "\n"})
		out := h.Run(t.Context(), loaded(t, h, dir), nil)
		if out.Err == nil || !strings.Contains(out.Err.Error(), "the host keeps this file to itself") {
			t.Errorf("%s: %v, %v", step, out.Output, out.Err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "s", "TOKEN")); err != nil || string(text) != "correct-horse" {
			t.Errorf("%s: the file holds %q, %v", step, text, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "s", "NEW")); err == nil {
			t.Errorf("%s: there is a new file", step)
		}
	}
}
