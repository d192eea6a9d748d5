package recipe_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/recipe"
)

// named is a file system whose files the user knows under another folder.
type named struct{ fs.FS }

func (named) DisplayName(name string) string { return path.Join("shop", name) }

// sameRecipe fails the test unless two recipes agree in everything: values, positions, sources.
func sameRecipe(t *testing.T, want, got *recipe.Recipe) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(recipe.Recipe{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefinition(t *testing.T) {
	for name, fsys := range map[string]fs.FS{"as they are": os.DirFS("testdata/triage"), "other names": named{os.DirFS("testdata/triage")}} {
		t.Run(name, func(t *testing.T) {
			r, err := recipe.Load(fsys, "triage.yaml")
			if err != nil {
				t.Fatal(err)
			}
			d, err := r.Definition()
			if err != nil {
				t.Fatal(err)
			}
			again, err := recipe.FromDefinition(d)
			if err != nil {
				t.Fatal(err)
			}
			sameRecipe(t, r, again)
			if twice, err := again.Definition(); err != nil || !bytes.Equal(twice, d) {
				t.Errorf("got another definition, %v", err)
			}
		})
	}
}

// TestDefinitionOldJSON: earlier versions read files that end in .json as YAML, and runs that they began go on.
func TestDefinitionOldJSON(t *testing.T) {
	const text = "# c\n{apiVersion: braise/v1, name: x, steps: {a: {uses: set, with: 1, output: {schema: {file: s.json}}}}}\n"
	files := fstest.MapFS{
		"r.yaml": {Data: []byte(text)},
		"s.json": {Data: []byte(`{"type": "integer"}`)},
	}
	r, err := recipe.Load(files, "r.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Definition()
	if err != nil {
		t.Fatal(err)
	}
	d = bytes.ReplaceAll(d, []byte("r.yaml"), []byte("r.json"))
	d = bytes.Replace(d, []byte(`{\"type\": \"integer\"}`), []byte(`{type: integer,} # c`), 1)
	again, err := recipe.FromDefinition(d)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Sources["r.json"], []byte(text)) || string(again.Sources["s.json"]) != "{type: integer,} # c" {
		t.Errorf("the definition has the files %q", again.Sources)
	}
	if diff := cmp.Diff(r.Steps[0].Output.SchemaJSON, again.Steps[0].Output.SchemaJSON); diff != "" {
		t.Errorf("the schema (-want +got):\n%s", diff)
	}
	if _, err := recipe.Parse("r.json", []byte(text)); err == nil {
		t.Error("Parse takes YAML for JSON")
	}
}

func TestDefinitionText(t *testing.T) {
	const text = "apiVersion: braise/v1\nname: <é>\nsteps: {a: {uses: model, with: {prompt: {file: ../p.md}}}}\n"
	const quoted = `"apiVersion: braise/v1\nname: <é>\nsteps: {a: {uses: model, with: {prompt: {file: ../p.md}}}}\n"`
	r, err := recipe.Load(named{files(map[string]string{"a/f": text, "p.md": "Hi\x00", "other": ""})}, "a/./f")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := r.Definition()
	if err != nil {
		t.Fatal(err)
	}
	r, err = recipe.Parse("/tmp/x.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := r.Definition()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"loaded", string(loaded), `{"files":{"a/f":` + quoted + `,"p.md":"Hi\u0000"},"format":1,"main":"a/f","names":{"a/f":"shop/a/f","p.md":"shop/p.md"}}`},
		{"parsed", string(parsed), `{"files":{"/tmp/x.yaml":` + quoted + `},"format":1,"main":"/tmp/x.yaml","parsed":true}`},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	again, err := recipe.FromDefinition(parsed)
	if err != nil {
		t.Fatal(err)
	}
	sameRecipe(t, r, again)
}

// TestDefinitionWarns checks that the warnings are the same, those of agents included.
func TestDefinitionWarns(t *testing.T) {
	r, err := recipe.Load(named{files(map[string]string{
		"f":             "steps: {a: {uses: recipe, with: {ref: sub/g}}}\n",
		"sub/g":         "steps: {a: {uses: set, with: 1}}\nlimits: {max_parallel: 2}\n",
		"agents/x/y.md": "---\nopen",
	})}, "f")
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Definition()
	if err != nil {
		t.Fatal(err)
	}
	again, err := recipe.FromDefinition(d)
	if err != nil {
		t.Fatal(err)
	}
	sameRecipe(t, r, again)
	var got []string
	for _, d := range again.Diagnostics {
		got = append(got, d.Position.String())
	}
	if diff := cmp.Diff([]string{"shop/agents/x/y.md:1:1", "shop/sub/g:4:9"}, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestDefinitionOfNothing(t *testing.T) {
	if d, err := (&recipe.Recipe{Name: "x"}).Definition(); d != nil || err != nil {
		t.Errorf("built in Go: got %s, %v, want nil", d, err)
	}
	r, _ := recipe.Parse("f", []byte(head+"steps: {a: {uses: sett}}\n"))
	if d, err := r.Definition(); d != nil || len(findings(t, err)) != 1 {
		t.Errorf("with errors: got %s, %v, want the errors", d, err)
	}
	texts := map[string]string{"f": "steps: {}"}
	var with []string
	for i := range 8 {
		name := string(rune('a'+i)) + ".md"
		texts[name] = strings.Repeat("\x01", 1<<20)
		with = append(with, string(rune('a'+i))+": {uses: model, with: {prompt: {file: "+name+"}}}")
	}
	texts["f"] = "steps: {" + strings.Join(with, ", ") + "}\n"
	r, err := recipe.Load(files(texts), "f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Definition(); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("8 MiB of control characters: got %v, want an error about the limit", err)
	}
}

// damaged holds what is no definition, with a word of its error.
var damaged = []struct{ text, want string }{
	{``, "EOF"},
	{`null`, "format is 0"},
	{`[]`, "array"},
	{`{"format":1,"main":"f","files":{"f":"x"}} {}`, "after it"},
	{`{"format":1,"main":"f","files":{"f":"x"},"more":1}`, "more"},
	{`{"format":2,"main":"f","files":{"f":"x"}}`, "format is 2"},
	{`{"format":1,"main":"g","files":{"f":"x"}}`, `lacks its file "g"`},
	{`{"format":1,"main":"f","files":null}`, `lacks its file "f"`},
	{`{"format":1,"main":"f","files":{"f":1}}`, "number"},
	{`{"format":1,"main":"../f","files":{"../f":"x"}}`, `"../f" is not the path`},
	{`{"format":1,"main":"/f","files":{"/f":"x"}}`, `"/f" is not the path`},
	{`{"format":1,"main":"f","files":{"f":"x"},"names":{"g":"h"}}`, `calls the file "g"`},
	{`{"format":1,"main":"f","files":{"f":"x"},"names":{"f":""}}`, `calls the file "f"`},
	{`{"format":1,"main":"f","files":{"f":"x","g":"x"},"parsed":true}`, "it has more"},
}

func TestFromDefinitionRejects(t *testing.T) {
	for _, tt := range damaged {
		r, err := recipe.FromDefinition([]byte(tt.text))
		if r != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.text, err, tt.want)
		}
	}
	if _, err := recipe.FromDefinition(make([]byte, 34<<20)); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("34 MiB: got %v, want an error about the limit", err)
	}
}

// TestFromDefinitionLoads checks that a definition is no way around what Load refuses.
func TestFromDefinitionLoads(t *testing.T) {
	ref := head + "steps: {a: {uses: recipe, with: {ref: g}}}\n"
	many := map[string]string{"f": head + "steps: {a: {uses: set, with: 1}}\n"}
	for i := range 1000 {
		many["agents/"+strings.Repeat("a", i+1)+".md"] = "x"
	}
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"mistakes":        {map[string]string{"f": head + "steps: {a: {uses: sett}}\n"}, []string{`3:19 recipe.unknownKind | did you mean "set"?`}},
		"a file lacks":    {map[string]string{"f": ref}, []string{"3:39 recipe.file"}},
		"calls itself":    {map[string]string{"f": ref, "g": head + "steps: {a: {uses: recipe, with: {ref: f}}}\n"}, []string{"g:3:39 recipe.recursion"}},
		"file and folder": {map[string]string{"f": head + "steps: {a: {uses: recipe, with: {ref: f/../../g}}}\n", "f/a": "", "g": ""}, []string{"3:39 recipe.file"}},
		"large":           {map[string]string{"f": ref, "g": strings.Repeat("# ", 1<<20)}, []string{"3:39 yaml.tooLarge"}},
		"too many files":  {many, []string{"agents/" + strings.Repeat("a", 1000) + ".md yaml.tooLarge"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(map[string]any{"format": 1, "main": "f", "files": tt.files})
			if err != nil {
				t.Fatal(err)
			}
			r, err := recipe.FromDefinition(text)
			if diff := cmp.Diff(tt.want, findings(t, err)); diff != "" || r != nil {
				t.Errorf("(-want +got):\n%s%v", diff, err)
			}
		})
	}
}

// FuzzFromDefinition: never a panic; what is a definition is one again, with the same digest.
func FuzzFromDefinition(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, tt := range damaged {
		f.Add([]byte(tt.text))
	}
	for _, fsys := range []fs.FS{os.DirFS("testdata/triage"), named{os.DirFS("testdata/triage")}} {
		r, err := recipe.Load(fsys, "triage.yaml")
		if err != nil {
			f.Fatal(err)
		}
		d, err := r.Definition()
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := recipe.FromDefinition(data)
		if err != nil {
			if r != nil || err.Error() == "" {
				t.Errorf("got %v, %v", r, err)
			}
			return
		}
		d, err := r.Definition()
		if err != nil {
			t.Fatal(err)
		}
		again, err := recipe.FromDefinition(d)
		if err != nil || again.Digest != r.Digest {
			t.Fatalf("got %v and digests %q, %q", err, r.Digest, again.Digest)
		}
		if twice, err := again.Definition(); err != nil || !bytes.Equal(twice, d) {
			t.Errorf("got another definition, %v", err)
		}
		if _, err := r.StepDigests(); err != nil {
			t.Error(err)
		}
	})
}

func TestComputeDigest(t *testing.T) {
	r, err := recipe.Load(os.DirFS("testdata/triage"), "triage.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.ComputeDigest(); got != r.Digest || err != nil {
		t.Errorf("got %q, %v, want the Digest %q", got, err, r.Digest)
	}
	built := &recipe.Recipe{Name: "x", Steps: []recipe.Step{{ID: "a", Uses: recipe.Name{Text: "set"}, With: &recipe.Value{Scalar: int64(1)}}}}
	read, err := recipe.Parse("f", []byte(head+"steps: {a: {uses: set, with: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := built.ComputeDigest(); got != read.Digest || err != nil || built.Digest != "" {
		t.Errorf("built in Go: got %q, %v, want %q", got, err, read.Digest)
	}
	built.Steps[0].With.Scalar = math.NaN()
	if got, err := built.ComputeDigest(); err == nil {
		t.Errorf("not a number: got %q, want an error", got)
	}
	built.Steps = []recipe.Step{{ID: "a", Body: &recipe.Body{Ref: recipe.Name{Text: "x"}, Recipe: built}}}
	if _, err := built.ComputeDigest(); err != nil {
		t.Errorf("calls itself: got %v", err)
	}
	if _, err := built.StepDigests(); err == nil {
		t.Error("calls itself: got digests of endless steps")
	}
}

func TestStepDigests(t *testing.T) {
	texts := map[string]string{
		"f": head + `consts: {c: 1, d: 2}
defaults: {model: m, timeout: 1m}
steps:
  fetch: {uses: a.b, with: {x: 1}}
  ask: {uses: model, with: {prompt: {file: p.md}}}
  own: {uses: model, with: {model: n, prompt: x}}
  const: {uses: set, with: "${{ consts.c }}"}
  place: {uses: recipe, with: {steps: {deep: {uses: set, with: 1}, more: {uses: set, with: 2}}, output: 1}}
  file: {uses: recipe, with: {ref: g}}
  again: {uses: recipe, with: {ref: g}}
`,
		"g":    head + "consts: {k: 1}\ninputs: {n: {default: 1}}\nsteps: {inner: {uses: set, with: 1}}\noutput: ${{ consts.k }}\n",
		"p.md": "Hello",
	}
	load := func() map[string]string {
		t.Helper()
		r, err := recipe.Load(files(texts), "f")
		if err != nil {
			t.Fatal(err)
		}
		digests, err := r.StepDigests()
		if err != nil {
			t.Fatal(err)
		}
		return digests
	}
	base := load()
	want := []string{"again", "again/inner", "ask", "const", "fetch", "file", "file/inner", "own", "place", "place/deep", "place/more"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(base))); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if base["file/inner"] != base["again/inner"] || len(base["fetch"]) != 32 {
		t.Errorf("got %q, %q", base["file/inner"], base["again/inner"])
	}
	for _, tt := range []struct {
		name, file, from, to string
		changed              string // the paths whose digest is another, or new, or gone
	}{
		{"comment", "f", "steps:\n", "# c\nsteps:\n", ""},
		{"description", "f", "{uses: a.b,", "{uses: a.b, description: d, tags: [t], x-a: 1,", ""},
		{"file instead of text", "f", "{file: p.md}", "Hello", ""},
		{"other defaults", "f", "timeout: 1m", "timeout: 2m", ""},
		{"order", "f", "{deep: {uses: set, with: 1}, more: {uses: set, with: 2}}", "{more: {uses: set, with: 2}, deep: {uses: set, with: 1}}", ""},
		{"argument", "f", "x: 1", "x: 2", "fetch"},
		{"needs", "f", "{uses: a.b,", "{uses: a.b, needs: [ask],", "fetch"},
		{"id", "f", "fetch:", "get:", "fetch get"},
		{"prompt file", "p.md", "Hello", "Hi", "ask"},
		{"default model", "f", "model: m,", "model: o,", "ask"},
		{"const", "f", "d: 2", "d: 3", "const"},
		{"inside a body", "f", "{deep: {uses: set, with: 1}", "{deep: {uses: set, with: 3}", "place/deep"},
		{"a step more in a body", "f", "{deep:", "{new: {uses: a.b}, deep:", "place place/new"},
		{"output of a body", "f", "output: 1", "output: 2", "place"},
		{"inside a file", "g", "with: 1", "with: 2", "again/inner file/inner"},
		{"a step more in a file", "g", "{inner:", "{new: {uses: a.b}, inner:", "again again/new file file/new"},
		{"inputs of a file", "g", "default: 1", "default: 2", "again file"},
		{"consts of a file", "g", "k: 1", "k: 2", "again file"},
	} {
		old := texts[tt.file]
		texts[tt.file] = strings.Replace(old, tt.from, tt.to, 1)
		if texts[tt.file] == old {
			t.Fatalf("%s: nothing to replace", tt.name)
		}
		now := load()
		texts[tt.file] = old
		paths := maps.Clone(now)
		maps.Copy(paths, base)
		var changed []string
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			if now[path] != base[path] {
				changed = append(changed, path)
			}
		}
		if got := strings.Join(changed, " "); got != tt.changed {
			t.Errorf("%s: got changes of %q, want %q", tt.name, got, tt.changed)
		}
	}
}

func TestStepDigestsRejects(t *testing.T) {
	// 2^60 paths.
	r := &recipe.Recipe{Name: "x", Steps: []recipe.Step{{ID: "a"}}}
	for range 60 {
		body := &recipe.Body{Ref: recipe.Name{Text: "x"}, Recipe: r}
		r = &recipe.Recipe{Name: "x", Steps: []recipe.Step{{ID: "a", Body: body}, {ID: "b", Body: body}}}
	}
	if _, err := r.StepDigests(); err == nil || !strings.Contains(err.Error(), "100000 steps") {
		t.Errorf("got %v, want an error about the limit", err)
	}
	r = &recipe.Recipe{Steps: []recipe.Step{{ID: "a", With: &recipe.Value{Scalar: math.Inf(1)}}}}
	if _, err := r.StepDigests(); err == nil {
		t.Errorf("not a number: got %v, want an error", err)
	}
}
