package recipe_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
)

// files makes a file system out of texts. A text that begins with "steps:" gets the head of a
// recipe, so its own lines begin on line 3.
func files(texts map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		if strings.HasPrefix(text, "steps:") {
			text = head + text
		}
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestLoad(t *testing.T) {
	fsys := files(map[string]string{
		"app/f.yaml": head + `agents:
  writer: {model: m, instructions: {file: text/writer.md}, delegates: [deep/critic, bare]}
  triager: {model: m, instructions: {file: agents/triager.md}}
steps:
  ask: {uses: model, with: {system: {file: ./text/system.md}, prompt: {file: text/ask.md}}}
  talk: {uses: model, with: {messages: [{role: user, text: {file: text/ask.md}}]}}
  one: {uses: recipe, with: {ref: ./sub/s.yaml, inputs: {a: 1}}}
  two: {uses: recipe, with: {steps: {in: {uses: recipe, with: {ref: sub/s.yaml}}}}}
  data: {uses: set, with: {prompt: {file: not-opened.md}}}
`,
		"app/text/system.md":        "Be kind.\n",
		"app/text/ask.md":           "Hello ${{ run.id }}\n",
		"app/text/writer.md":        "Write.",
		"app/sub/s.yaml":            "steps: {t: {uses: recipe, with: {ref: ../t.yaml}}}\n",
		"app/t.yaml":                "steps: {x: {uses: set, with: 1}}\n",
		"app/agents/triager.md":     "Triage.", // its instructions, not a second agent
		"app/agents/bare.md":        "\n  Only instructions.  \n",
		"app/agents/deep/critic.md": "---\r\nmodel: fast\r\ndescription: d\r\n---\r\n\r\nBe strict.\r\n---\r\nAnd fair.\r\n",
		"app/agents/open.md":        "---\nmodel: fast\nBe strict.\n",
		"app/agents/empty.md":       "---\n---\nText.",
		"app/agents/none.md":        "---\nmodel: fast\ninstructions: {file: text/writer.md}\n---\n",
		"app/agents/notes.txt":      "not an agent",
	})
	r, err := recipe.Load(fsys, "app/f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := func(file, content string) *recipe.Value {
		return &recipe.Value{Pos: diagnostics.Position{File: file, Line: 1, Column: 1}, Scalar: content}
	}
	for name, tt := range map[string]struct{ got, want *recipe.Value }{
		"system":  {r.Steps[0].With.Map[0].Value, text("app/text/system.md", "Be kind.\n")},
		"prompt":  {r.Steps[0].With.Map[1].Value, text("app/text/ask.md", "Hello ${{ run.id }}\n")},
		"message": {r.Steps[1].With.Map[0].Value.List[0].Map[1].Value, text("app/text/ask.md", "Hello ${{ run.id }}\n")},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if v := r.Steps[4].With.Map[0].Value; !v.IsMap {
		t.Errorf("a set step's own file key: got %v, want it as written", v.Scalar)
	}
	one, two := r.Steps[2].Body.Recipe, r.Steps[3].Body.Steps[0].Body.Recipe
	if one == nil || one != two {
		t.Errorf("the same file: got %p and %p, want one recipe", one, two)
	}
	if got := one.Steps[0].Body.Recipe.File; got != "app/t.yaml" {
		t.Errorf("a recipe of a recipe: got %q", got)
	}
	type agent struct{ ID, File, Model, Description, Instructions string }
	var got []agent
	for _, a := range r.Agents {
		got = append(got, agent{a.ID, a.File, a.Model, a.Description, a.Instructions})
	}
	want := []agent{
		{"writer", "", "m", "", "Write."},
		{"triager", "", "m", "", "Triage."},
		{"bare", "app/agents/bare.md", "", "", "Only instructions."},
		{"deep/critic", "app/agents/deep/critic.md", "fast", "d", "Be strict.\r\n---\r\nAnd fair."},
		{"empty", "app/agents/empty.md", "", "", "Text."},
		{"none", "app/agents/none.md", "fast", "", "Write."},
		{"open", "app/agents/open.md", "", "", "---\nmodel: fast\nBe strict."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	var warnings []string
	for _, d := range r.Diagnostics {
		warnings = append(warnings, print(d))
	}
	if diff := cmp.Diff([]string{"app/agents/open.md:1:1 agent.frontMatter | end the front matter with a line of ---"}, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if len(r.Sources) != 12 || string(r.Sources["app/text/writer.md"]) != "Write." {
		t.Errorf("got %d sources, want 12 with their texts", len(r.Sources))
	}
}

func TestLoadRejects(t *testing.T) {
	ref := func(path string) string {
		return fmt.Sprintf("steps: {a: {uses: recipe, with: {ref: %q}}}\n", path)
	}
	prompt := func(path string) string {
		return fmt.Sprintf("steps: {a: {uses: model, with: {prompt: {file: %q}}}}\n", path)
	}
	tests := []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"no such recipe", map[string]string{}, []string{"f recipe.file"}},
		{"missing", map[string]string{"f": ref("g.yaml")}, []string{"3:39 recipe.file"}},
		{"a folder", map[string]string{"f": ref("sub"), "sub/x": ""}, []string{"3:39 recipe.file"}},
		{"above the root", map[string]string{"f": ref("../g.yaml")}, []string{"3:39 recipe.file"}},
		{"above the root, later", map[string]string{"f": ref("a/../../g.yaml")}, []string{"3:39 recipe.file"}},
		{"absolute", map[string]string{"f": ref("/etc/passwd")}, []string{"3:39 recipe.file | write it relative to this file's folder"}},
		{"a drive", map[string]string{"f": ref("C:/x")}, []string{"3:39 recipe.file | write it relative to this file's folder"}},
		{"backslash", map[string]string{"f": ref(`..\g.yaml`)}, []string{"3:39 recipe.file | write / between folders"}},
		{"empty", map[string]string{"f": ref("")}, []string{"3:39 recipe.invalid"}},
		{"prompt above the root", map[string]string{"f": prompt("../p.md")}, []string{"3:48 recipe.file"}},
		{"prompt missing", map[string]string{"f": prompt("p.md")}, []string{"3:48 recipe.file"}},
		{"prompt not text", map[string]string{"f": prompt("p.md"), "p.md": "\xff"}, []string{"3:48 recipe.file | save it as UTF-8"}},
		{"prompt too large", map[string]string{"f": prompt("p.md"), "p.md": strings.Repeat("a", 1<<20+1)}, []string{"3:48 yaml.tooLarge"}},
		{"calls itself", map[string]string{"f": ref("./f")}, []string{"3:39 recipe.recursion"}},
		{"calls itself over others", map[string]string{"f": ref("g"), "g": ref("sub/h"), "sub/h": ref("../g")}, []string{"sub/h:3:39 recipe.recursion"}},
		{"mistakes in several files", map[string]string{"f": "steps: {A: {uses: recipe, with: {ref: g}}, b: {uses: x}}\n", "g": "steps: {a: {uses: y}}\n"}, []string{
			"3:9 recipe.invalid | use up to 63 of a-z, 0-9 and _, beginning with a letter",
			"3:54 recipe.unknownKind | the name of a tool contains a dot; the kinds are set, model, recipe, fail, human, say, wait, agent, loop, fork, switch, send, receive, retrieve, index",
			"g:3:19 recipe.unknownKind | the name of a tool contains a dot; the kinds are set, model, recipe, fail, human, say, wait, agent, loop, fork, switch, send, receive, retrieve, index"}},
		{"agent twice", map[string]string{"f": "steps: {a: {uses: set, with: 1}}\nagents: {w: {model: m}}\n", "agents/w.md": "x"}, []string{"4:10 recipe.duplicateName"}},
		{"agent files", map[string]string{"f": "steps: {a: {uses: set, with: 1}}\n", "agents/a.md": "---\n\nmodle: m\n---\n", "agents/b.md": "---\n- x\n---\n",
			"agents/c.md": "---\ninstructions: x\n---\ny\n", "agents/d.md": "\xff", "agents/e.md": "---\ndelegates: [g]\n---\n"}, []string{
			"agents/a.md:3:1 recipe.unknownKey | did you mean \"model\"?", "agents/b.md:2:1 recipe.wrongType",
			"agents/c.md:2:15 recipe.invalid | leave the key out", "agents/d.md recipe.file | save it as UTF-8",
			"agents/e.md:2:13 recipe.unknownName | known here: a, b, c, e"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := recipe.Load(files(tt.files), "f")
			if diff := cmp.Diff(tt.want, findings(t, err)); diff != "" {
				t.Errorf("(-want +got):\n%s%v", diff, err)
			}
		})
	}
}

func TestLoadPrintsTheChain(t *testing.T) {
	_, err := recipe.Load(files(map[string]string{
		"f": "steps: {a: {uses: recipe, with: {ref: g}}}\n",
		"g": "steps: {a: {uses: recipe, with: {ref: h}}}\n",
		"h": "steps: {a: {uses: recipe, with: {ref: g}}}\n",
	}), "f")
	if err == nil || !strings.Contains(err.Error(), "g → h → g") {
		t.Errorf("got %v, want the chain g → h → g", err)
	}
}

func TestLoadWarnsOfLimits(t *testing.T) {
	r, err := recipe.Load(files(map[string]string{
		"f": "steps: {a: {uses: recipe, with: {ref: g}}, b: {uses: recipe, with: {ref: g}}}\nlimits: {max_parallel: 2}\n",
		"g": "steps: {a: {uses: set, with: 1}}\nlimits: {max_parallel: 2}\n",
	}), "f")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Diagnostics) != 1 || print(r.Diagnostics[0]) != "g:4:9 recipe.invalid | move them to the recipe that is run" {
		t.Errorf("got %v, want one warning at g:4:9", r.Diagnostics)
	}
}

// TestLoadNesting chains files, each with two bodies in place around the next one.
func TestLoadNesting(t *testing.T) {
	chain := func(n int) fs.FS {
		texts := map[string]string{}
		for i := range n {
			texts[fmt.Sprintf("f%d", i)] = fmt.Sprintf("steps:\n  z: {uses: set, with: 1}\n  a: {uses: recipe, with: {steps: {b: {uses: recipe, with: {ref: f%d}}}}}\n", i+1)
		}
		texts[fmt.Sprintf("f%d", n)] = "steps: {a: {uses: set, with: 1}}\n"
		return files(texts)
	}
	if _, err := recipe.Load(chain(32), "f0"); err != nil {
		t.Errorf("64 levels: %v", err)
	}
	_, err := recipe.Load(chain(33), "f0")
	if got, want := findings(t, err), []string{"f32:5:27 recipe.recursion"}; !slices.Equal(got, want) {
		t.Errorf("66 levels: got %q, want %q", got, want)
	}
}

// TestLoadDoubling would not end if files that are called from many places were read each time.
func TestLoadDoubling(t *testing.T) {
	texts := map[string]string{"f60": "steps: {a: {uses: set, with: 1}}\n"}
	for i := range 60 {
		texts[fmt.Sprintf("f%d", i)] = fmt.Sprintf("steps: {a: {uses: recipe, with: {ref: f%d}}, b: {uses: recipe, with: {ref: f%[1]d}}}\n", i+1)
	}
	if _, err := recipe.Load(files(texts), "f0"); err != nil {
		t.Error(err)
	}
}

func TestLoadTooManyFiles(t *testing.T) {
	texts := map[string]string{"f": "steps: {a: {uses: set, with: 1}}\n"}
	for i := range 1000 {
		texts[fmt.Sprintf("agents/a%03d.md", i)] = "x"
	}
	_, err := recipe.Load(files(texts), "f")
	if got, want := findings(t, err), []string{"agents/a999.md yaml.tooLarge"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoadDigest(t *testing.T) {
	texts := map[string]string{
		"f":           "steps: {a: {uses: model, with: {prompt: {file: p.md}}}, b: {uses: recipe, with: {ref: g}}}\n",
		"g":           "steps: {a: {uses: set, with: 1}}\n",
		"p.md":        "Hello",
		"agents/x.md": "Be kind.",
	}
	load := func() string {
		t.Helper()
		r, err := recipe.Load(files(texts), "f")
		if err != nil {
			t.Fatal(err)
		}
		return r.Digest
	}
	base := load()
	texts["g"] = "# the same\n" + head + "steps:\n  a: {with: 1, uses: set}\n"
	texts["f"] = "steps: {a: {uses: model, with: {prompt: Hello}}, b: {uses: recipe, with: {ref: ./g}}}\n"
	if got := load(); got != base {
		t.Error("the same, written otherwise: got another digest")
	}
	for file, text := range map[string]string{"g": "steps: {a: {uses: set, with: 2}}\n", "agents/x.md": "Be strict."} {
		old := texts[file]
		texts[file] = text
		if got := load(); got == base {
			t.Errorf("%s changed: got the same digest", file)
		}
		texts[file] = old
	}
}

// TestLoadWalls loads through os.Root, which is what holds symbolic links in.
func TestLoadWalls(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("secret.yaml", head+"steps: {a: {uses: set, with: 1}}\n")
	if err := os.Mkdir(filepath.Join(dir, "root"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("root/f", head+"steps: {a: {uses: recipe, with: {ref: link.yaml}}}\n")
	if err := os.Symlink("../secret.yaml", filepath.Join(dir, "root", "link.yaml")); err != nil {
		t.Skip(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, err = recipe.Load(root.FS(), "f")
	if got, want := findings(t, err), []string{"3:39 recipe.file"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
