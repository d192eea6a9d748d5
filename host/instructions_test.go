package host_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
)

// Every file with instructions that cannot be read is named, at its place in the configuration.
func TestInstructionsFromFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "AGENTS.md"), "\n We are a bank.\n\n")
	write(t, filepath.Join(dir, "house/tone.md"), "Be kind.\n")
	write(t, filepath.Join(dir, "empty.md"), " \n")
	write(t, filepath.Join(dir, "long.md"), strings.Repeat("x", 1<<20+1))
	write(t, filepath.Join(dir, "other.md"), "\xff")
	load := func(text string) (string, error) {
		config, err := host.ParseConfig("b.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		rt, err := config.Runtime(dir)
		if err != nil || rt.Env == nil {
			return "", err
		}
		return rt.Env.Instructions(t.Context())
	}
	for text, want := range map[string]string{
		"{}":                    "",
		"instructions_from: []": "",
		"instructions_from: [AGENTS.md, empty.md, house/tone.md]":          "We are a bank.\n\nBe kind.",
		"instructions_from: [" + filepath.ToSlash(dir) + "/house/tone.md]": "Be kind.",
	} {
		if got, err := load(text); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	_, err := load("instructions_from: [none.md, AGENTS.md, house,\n  long.md, other.md]")
	var got []string
	if list, ok := errors.AsType[*diagnostics.Error](err); ok {
		for _, d := range list.List {
			got = append(got, fmt.Sprintf("%s: %s: %s", d.Position, d.Code, strings.ReplaceAll(d.Message, filepath.ToSlash(dir), "DIR")))
		}
	}
	const cannot = " cannot be read: "
	want := []string{
		`b.yaml:1:21: recipe.file: the file with instructions "DIR/none.md"` + cannot + "no such file or directory",
		`b.yaml:1:41: recipe.file: the file with instructions "DIR/house"` + cannot + "a folder, not a regular file",
		`b.yaml:2:3: recipe.file: the file with instructions "DIR/long.md"` + cannot + "it has more than 1 MiB",
		`b.yaml:2:12: recipe.file: the file with instructions "DIR/other.md"` + cannot + "it is not UTF-8 text",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v: diagnostics (-want +got):\n%s", err, diff)
	}
}
