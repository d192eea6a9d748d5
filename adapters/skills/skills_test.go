package skills

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/runtime"
)

// file is the SKILL.md of a skill of that name.
func file(name string) string {
	return "---\nname: " + name + "\ndescription: About " + name + ".\n---\n"
}

// tree makes files in a folder of the test's own.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wants checks the text of an error.
func wants(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("%s:\n%v\nwant\n%s", what, err, want)
	}
}

func TestLoad(t *testing.T) {
	text := "\uFEFF---\r\nname: dig\r\ndescription: >\r\n  Dig,\r\n  deep.\r\nlicense: MIT\r\ncompatibility: a spade\r\nmetadata: {author: me, version: 1.0, tags: [a]}\r\n" +
		"allowed-tools: Bash(git:* add) file.read,mcp__s__t Read\r\nx-ours: [1]\r\n---\r\n\r\n# Dig\r\n\r\n---\r\nDeep.\r\n\r\n"
	dir := tree(t, map[string]string{"dig/SKILL.md": text, "dig/scripts/run.sh": "exit 1", "cut/SKILL.md": file("cut"), "not-a-skill/README.md": "", "SKILL.md": "x"})
	t.Chdir(filepath.Dir(dir))
	base := filepath.Base(dir)
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	dig := runtime.Skill{Name: "dig", Description: "Dig, deep.\n", SHA256: sum(text), Text: "# Dig\r\n\r\n---\r\nDeep."}
	cut := runtime.Skill{Name: "cut", Description: "About cut.", SHA256: sum(file("cut"))}
	for _, tt := range []struct {
		name, scope, where string
		folder             Folder
	}{
		{"relative", "", base, Dir(base)},
		{"with a dot", "repo", base, Dir("./" + base + "/")},
		{"absolute", "", filepath.ToSlash(dir), Dir(dir)},
		{"file system", "user", "", FS(os.DirFS(dir))},
	} {
		tt.folder.Scope = tt.scope
		got, err := tt.folder.Load(t.Context(), []string{"dig", "cut"})
		if err != nil {
			t.Fatal(err)
		}
		want := []runtime.Skill{dig, cut}
		for i := range want {
			want[i].Scope, want[i].Path = tt.scope, path.Join(tt.where, want[i].Name, "SKILL.md")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		names, err := tt.folder.Names()
		if diff := cmp.Diff([]string{"cut", "dig"}, names); diff != "" || err != nil {
			t.Errorf("%s: names: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	t.Chdir(dir)
	for _, here := range []Folder{Dir(""), Dir("."), {}} {
		if got, err := here.Load(t.Context(), []string{"cut"}); err != nil || got[0].Path != "cut/SKILL.md" {
			t.Errorf("the working folder: %+v, %v", got, err)
		}
	}
	if got, err := Dir("no/such/folder").Load(t.Context(), nil); got != nil || err != nil {
		t.Errorf("no names: %v, %v", got, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dir(dir).Load(done, []string{"cut"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
}

// counting notes what is opened.
type counting struct {
	fs.FS
	mu     sync.Mutex
	opened []string
}

func (c *counting) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = append(c.opened, name)
	return c.FS.Open(name)
}

func TestLazy(t *testing.T) {
	files := &counting{FS: fstest.MapFS{"cut/SKILL.md": {Data: []byte(file("cut"))}, "cut/run.sh": {}, "dig/SKILL.md": {Data: []byte("broken")}}}
	folder := FS(files)
	if files.opened != nil {
		t.Errorf("FS opens %q", files.opened)
	}
	if _, err := folder.Load(t.Context(), []string{"cut"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range files.opened {
		if name != "cut" && name != "cut/SKILL.md" {
			t.Errorf("%q was opened", name)
		}
	}
}

func TestFolders(t *testing.T) {
	skill := func(name, text string) fstest.MapFS {
		return fstest.MapFS{name + "/SKILL.md": {Data: []byte(file(name) + text)}}
	}
	all := Folders{FS(skill("cut", "of the admin")), FS(skill("cut", "of the repo")), FS(skill("dig", "of the user"))}
	all[0].Scope, all[1].Scope, all[2].Scope = "admin", "repo", "user"
	got, err := all.Load(t.Context(), []string{"dig", "cut"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"user dig of the user", "admin cut of the admin"} {
		if got := got[i].Scope + " " + got[i].Name + " " + got[i].Text; got != want {
			t.Errorf("skill %d is %q, want %q", i, got, want)
		}
	}
	_, err = all.Load(t.Context(), []string{"dug"})
	wants(t, "unknown", err, "skills: there is no skill \"dug\"\n  hint: did you mean \"dig\"?")
	all[1].Scope = "repository"
	_, err = all.Load(t.Context(), []string{"dig"})
	wants(t, "scope", err, "skills: unknown scope \"repository\"\n  hint: it is admin, repo, system or user")
	_, err = Folders(nil).Load(t.Context(), []string{"dig"})
	wants(t, "none", err, `skills: there is no skill "dig"`)
}

func TestRefused(t *testing.T) {
	dir := tree(t, map[string]string{
		"empty/README.md":       "",
		"large/SKILL.md":        file("large") + strings.Repeat("x", MaxBytes),
		"full/SKILL.md":         file("full") + strings.Repeat("x", MaxBytes-len(file("full"))),
		"latin/SKILL.md":        file("latin") + "caf\xe9\n",
		"dir/SKILL.md/x":        "",
		"plain":                 "",
		"../secret/SKILL.md":    file("secret"),
		"elsewhere/x/SKILL.md":  file("inside"),
		"far/SKILL.md":          "",
		"inside-file/README.md": "",
	})
	link := func(from, to string) {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Skip(err)
		}
	}
	os.Remove(filepath.Join(dir, "far/SKILL.md"))
	link("secret", "../secret")
	link("far/SKILL.md", "../../secret/SKILL.md")
	link("absolute", filepath.Join(dir, "full"))
	link("inside", "elsewhere/x")
	link("inside-file/SKILL.md", "../elsewhere/x/SKILL.md")
	t.Chdir(dir)
	none := "\n  hint: it has 1 to 64 lower-case letters, digits and single hyphens"
	for _, tt := range []struct{ name, want string }{
		{"", `skills: "" is not the name of a skill` + none},
		{"..", `skills: ".." is not the name of a skill` + none},
		{"../secret", `skills: "../secret" is not the name of a skill` + none},
		{"a/b", `skills: "a/b" is not the name of a skill` + none},
		{"-a", `skills: "-a" is not the name of a skill` + none},
		{"a--b", `skills: "a--b" is not the name of a skill` + none},
		{"Full", `skills: "Full" is not the name of a skill` + none},
		{strings.Repeat("x", 65), `skills: "` + strings.Repeat("x", 65) + `" is not the name of a skill` + none},
		{"fuller", "skills: there is no skill \"fuller\"\n  hint: did you mean \"full\"?"},
		{"empty", "skills: empty/SKILL.md: file does not exist"},
		{"dir", "skills: dir/SKILL.md: it is not a file"},
		{"large", "skills: large/SKILL.md: it has more than 1048576 bytes"},
		{"latin", "skills: latin/SKILL.md: line 5: byte 0xE9 is not valid UTF-8\n  hint: save the file as UTF-8 text"},
		{"secret", "skills: secret/SKILL.md: path escapes from parent"},
		{"far", "skills: far/SKILL.md: path escapes from parent"},
		{"absolute", "skills: absolute/SKILL.md: path escapes from parent"},
		{"inside-file", "inside-file/SKILL.md:2:7: the skill \"inside\" is in the folder \"inside-file\" [recipe.invalid]\n  hint: a skill has the name of its folder"},
	} {
		_, err := Dir(".").Load(t.Context(), []string{"full", tt.name})
		wants(t, tt.name, err, tt.want)
	}
	if got, err := Dir(".").Load(t.Context(), []string{"inside"}); err != nil || got[0].Name != "inside" {
		t.Errorf("a link that stays inside: %+v, %v", got, err)
	}
	_, err := Dir("no/such").Load(t.Context(), []string{"full"})
	wants(t, "no folder", err, `skills: the folder "no/such" cannot be opened: no such file or directory`)
	_, err = Dir("plain").Names()
	wants(t, "a file", err, `skills: the folder "plain" cannot be opened: not a directory`)
}

func TestFrontMatter(t *testing.T) {
	const rest = "name: dig\ndescription: d\n"
	for _, tt := range []struct{ name, text, want string }{
		{"none", "# Dig\n", "f:1:1: there is no front matter | begin the file with name and description between two lines of ---"},
		{"empty", "---\n---\n", "f:1:1: there is no front matter | begin the file with name and description between two lines of ---"},
		{"no end", "---\nname: dig\n", "f:1:1: the front matter has no end | end it with a line of ---"},
		{"a list", "---\n- name\n---\n", "f:2:1: this must be a mapping, not a list"},
		{"no YAML", "---\nname: [\n---\n", "f:2:"},
		{"both missing", "---\nlicense: MIT\n---\n", "f:2:1: the key \"description\" is missing\nf:2:1: the key \"name\" is missing"},
		{"other name", "---\nname: dug\ndescription: d\n---\n", `f:2:7: the skill "dug" is in the folder "dig" | a skill has the name of its folder`},
		{"no name", "---\nname: Dig Deep\ndescription: d\n---\n", `f:2:7: "Dig Deep" is not the name of a skill | ` + nameHint},
		{"name twice", "---\nname: dig\nname: dig\ndescription: d\n---\n", "f:2:1: key \"name\" appears twice, again on line 3\nf:3:1: key \"name\" appears twice, first on line 2"},
		{"empty texts", "---\nname: ''\ndescription: ''\ncompatibility: ''\n---\n", "f:2:7: \"name\" may not be empty\nf:3:14: \"description\" may not be empty\nf:4:16: \"compatibility\" may not be empty"},
		{"long", "---\n" + "name: dig\ndescription: " + strings.Repeat("é", 1025) + "\ncompatibility: " + strings.Repeat("x", 501) + "\n---\n",
			"f:3:14: \"description\" has 1025 characters; at most 1024 are allowed\nf:4:16: \"compatibility\" has 501 characters; at most 500 are allowed"},
		{"just not long", "---\n" + "name: dig\ndescription: " + strings.Repeat("é", 1024) + "\ncompatibility: " + strings.Repeat("x", 500) + "\n---\n", ""},
		{"types", "---\nname: 1\ndescription: [d]\nlicense: {}\nmetadata: x\nallowed-tools: 7\n---\n",
			"f:2:7: \"name\" must be a string, not an integer | quote it\nf:3:14: \"description\" must be a string, not a list\nf:4:10: \"license\" must be a string, not a mapping\n" +
				"f:5:11: \"metadata\" must be a mapping, not a string\nf:6:16: \"allowed-tools\" must be a string, not an integer | quote it"},
		{"unknown key", "---\n" + rest + "descripton: d\n---\n", `f:4:1: unknown key "descripton" | did you mean "description"?`},
		{"synonyms", "---\n" + rest + "allowed_tools: a\nversion: 1\n---\n", "f:4:1: unknown key \"allowed_tools\" | did you mean \"allowed-tools\"?\nf:5:1: unknown key \"version\" | put it under \"metadata\""},
		{"tools", "---\n" + rest + "allowed-tools: Read, Bash(git add:*) mcp.s.t a/b Bash(*)\n---\n", ""},
		{"no tools", "---\n" + rest + "allowed-tools: ''\n---\n", ""},
		{"tools in a list", "---\n" + rest + "allowed-tools: [Read, \"Bash(git:*)\"]\n---\n", ""},
		{"bad tools", "---\n" + rest + "allowed-tools: Read Bash( (x) -a\n---\n", "f:4:16: \"-a\" names no tool | " + toolHint + "\nf:4:16: \"Bash( (x)\" names no tool | " + toolHint},
		{"bad tools in a list", "---\n" + rest + "allowed-tools:\n  - Read Write\n  - ''\n  - 1\n---\n",
			"f:5:5: \"Read Write\" names no tool | " + toolHint + "\nf:6:5: this may not be empty\nf:7:5: this must be a string, not an integer | quote it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(runtime.Skill{Name: "dig", Path: "f"}, []byte(tt.text))
			var got []string
			if wrong, ok := errors.AsType[*diagnostics.Error](err); ok {
				for _, d := range wrong.List {
					line := fmt.Sprintf("%s: %s", d.Position, d.Message)
					if d.Hint != "" {
						line += " | " + d.Hint
					}
					got = append(got, line)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(got, "\n")
			if tt.name == "no YAML" { // the message is the parser's
				text = text[:min(len(text), len(tt.want))]
			}
			if diff := cmp.Diff(tt.want, text); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInstructions(t *testing.T) {
	dir := tree(t, map[string]string{
		"repo/AGENTS.md": "\nBe kind.\n", "repo/a/x": "", "repo/a/b/AGENTS.md": "Be short.\n", "repo/a/b/c/AGENTS.md": " \n", "repo/a/b/c/d/x": "",
		"AGENTS.md": "outside", "repo/other/AGENTS.md": "Never.",
		"large/AGENTS.md": strings.Repeat("x", MaxInstructions), "large/a/AGENTS.md": "x", "latin/AGENTS.md": "\n\xe9",
	})
	link := func(from, to string) {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Skip(err)
		}
	}
	link("way", "repo/a/b")
	if err := os.Mkdir(filepath.Join(dir, "thief"), 0o700); err != nil {
		t.Fatal(err)
	}
	link("thief/AGENTS.md", "../AGENTS.md")
	t.Chdir(dir)
	kind, short := "From AGENTS.md:\n\nBe kind.", "From a/b/AGENTS.md:\n\nBe short."
	for _, tt := range []struct{ dir, root, want, err string }{
		{"repo", "repo", kind, ""},
		{"repo", "", kind, ""},
		{"repo/a", "repo", kind, ""},
		{"repo/a", "", "", ""},
		{"repo/a/b/c/d", "repo", kind + "\n\n" + short, ""},
		{"repo/a/b/c/d", "repo/a", "From b/AGENTS.md:\n\nBe short.", ""},
		{filepath.Join(dir, "way"), "./repo", kind + "\n\n" + short, ""},
		{"", "", "From AGENTS.md:\n\noutside", ""},
		{"repo", ".", "From AGENTS.md:\n\noutside\n\nFrom repo/AGENTS.md:\n\nBe kind.", ""},
		{"large", "", "From AGENTS.md:\n\n" + strings.Repeat("x", MaxInstructions), ""},
		{"large/a", "large", "", "instructions: a/AGENTS.md: with those above it, it has more than 65536 bytes"},
		{"latin", "", "", "instructions: AGENTS.md: line 2: byte 0xE9 is not valid UTF-8\n  hint: save the file as UTF-8 text"},
		{"repo", "repo/a", "", `instructions: the folder "repo" is not in "repo/a"`},
		{"repo/other", "repo/a", "", `instructions: the folder "repo/other" is not in "repo/a"`},
		{"thief", "", "", "instructions: AGENTS.md: path escapes from parent"},
	} {
		env := Instructions(tt.dir, tt.root)
		got, err := env.Instructions(t.Context())
		if tt.err != "" {
			wants(t, tt.dir, err, tt.err)
		} else if err != nil || got != tt.want {
			t.Errorf("%q in %q: %q, %v, want %q", tt.dir, tt.root, got, err, tt.want)
		}
		if env.Tools() != nil {
			t.Error("there are tools")
		}
	}
	if _, err := Instructions("no/such", "").Instructions(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

func FuzzParse(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add([]byte(file("dig") + "text"))
	f.Add([]byte("---\nname: dig\ndescription: d\nallowed-tools: [a, B(c:*)]\nmetadata: {a: 1}\n---\n"))
	f.Add([]byte("---\nname: dig\n"))
	f.Add([]byte("\uFEFF---\r\n- x\r\n---"))
	f.Add([]byte("---\nallowed-tools: a( b) ((\n---\n"))
	f.Add([]byte("\uFEFF---\n- \r\r:\n---"))
	f.Add([]byte("\uFEFF---\r\n\"\r\n-\r\n\"\n-\r\n\"\r\n---"))
	breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n") // as YAML counts lines
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parse(runtime.Skill{Name: "dig", Path: "f"}, data)
		if err != nil {
			wrong, ok := errors.AsType[*diagnostics.Error](err)
			if !ok || len(wrong.List) == 0 {
				t.Fatalf("%v has no diagnostics", err)
			}
			for _, d := range wrong.List {
				if d.Position.Line < 1 || d.Position.Line > 1+strings.Count(breaks.Replace(string(data)), "\n") {
					t.Errorf("%v is in no line of the file", d)
				}
			}
			return
		}
		if got.Name != "dig" || got.Description == "" || len(got.SHA256) != 64 || !strings.HasSuffix(strings.TrimSpace(string(data)), got.Text) {
			t.Errorf("%+v", got)
		}
	})
}
