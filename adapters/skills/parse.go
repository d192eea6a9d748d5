package skills

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/runtime"
)

const (
	nameHint = "it has 1 to 64 lower-case letters, digits and single hyphens"
	toolHint = "an entry is the name of a tool, such as file.read, or a name with a pattern, such as Bash(git:*)"
)

// readText reads a file of UTF-8.
func readText(fsys fs.FS, name string, most int) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, cause(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case len(data) > most:
		return nil, fmt.Errorf("it has more than %d bytes", most)
	case !utf8.Valid(data):
		bad := 0
		for r, size := utf8.DecodeRune(data); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(data[bad:]) {
			bad += size
		}
		return nil, fmt.Errorf("line %d: byte 0x%02X is not valid UTF-8\n  hint: save the file as UTF-8 text",
			1+bytes.Count(data[:bad], []byte("\n")), data[bad])
	}
	return data, nil
}

var (
	keys     = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools", "x-*"}
	synonyms = map[string]string{
		"allowed_tools": "allowed-tools", "tools": "allowed-tools", "licence": "license",
		"version": `put it under "metadata"`, "author": `put it under "metadata"`, "tags": `put it under "metadata"`,
	}
)

// parse reads a SKILL.md into the rest of a skill. The error is a *diagnostics.Error.
func parse(skill runtime.Skill, data []byte) (runtime.Skill, error) {
	start := diagnostics.Position{File: skill.Path, Line: 1, Column: 1}
	var r yamlnode.Reader
	front, body, ok := yamlnode.CutFrontMatter(data)
	switch {
	case !ok:
		r.Errorf(start, diagnostics.CodeFrontMatter, "end it with a line of ---", "the front matter has no end")
	case len(bytes.TrimSpace(front)) == 0:
		r.Errorf(start, diagnostics.CodeFrontMatter,
			"begin the file with name and description between two lines of ---",
			"there is no front matter")
	default:
		root, found := yamlnode.Parse(skill.Path, front, nil)
		r.Diagnostics = append(r.Diagnostics, found...)
		if root != nil {
			skill.Description = checkFront(&r, root, skill.Name)
		}
	}
	r.Diagnostics.Sort()
	if err := r.Diagnostics.Err(); err != nil {
		return runtime.Skill{}, err
	}
	sum := sha256.Sum256(data)
	skill.SHA256, skill.Text = hex.EncodeToString(sum[:]), strings.TrimSpace(string(body))
	return skill, nil
}

// checkFront reports what is wrong in the front matter of the skill in the folder of that name, and returns
// the description. What agents have no use for is checked too: a skill should work with every reader.
func checkFront(r *yamlnode.Reader, root *yamlnode.Node, folder string) string {
	fields := r.Object(root, keys, synonyms)
	r.Require(root, fields, "name", "description")
	switch given := r.Text(fields["name"]); {
	case given == "":
	case len(given) > maxName || !skillName.MatchString(given):
		r.Errorf(fields["name"].Pos, diagnostics.CodeInvalidValue, nameHint, "%.70q is not the name of a skill", given)
	case given != folder:
		r.Errorf(fields["name"].Pos, diagnostics.CodeInvalidValue, "a skill has the name of its folder",
			"the skill %q is in the folder %q", given, folder)
	}
	bounded := func(key string, most int) string {
		text := r.Text(fields[key])
		if n := utf8.RuneCountInString(text); n > most {
			r.Errorf(fields[key].Pos, diagnostics.CodeTooLarge, "",
				"%q has %d characters; at most %d are allowed", key, n, most)
		}
		return text
	}
	description := bounded("description", 1024)
	bounded("compatibility", 500)
	r.String(fields["license"])
	r.Map(fields["metadata"])
	checkTools(r, fields["allowed-tools"])
	return description
}

var (
	// toolEntry matches an entry of allowed-tools: a name, and a pattern in parentheses.
	toolEntry = regexp.MustCompile(`^[\pL_][\pL\pN_.:*/-]*(\([^()]+\))?$`)
	// toolEntries finds them in a text with blanks or commas between.
	toolEntries = regexp.MustCompile(`([^\s,(]|\([^)]*\)?)+`)
)

// checkTools checks the form of allowed-tools. It has no effect: no file may allow what only people can.
func checkTools(r *yamlnode.Reader, n *yamlnode.Node) {
	check := func(n *yamlnode.Node, entry string) {
		if !toolEntry.MatchString(entry) {
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, toolHint, "%q names no tool", entry)
		}
	}
	if n == nil || n.Kind != yamlnode.List {
		for _, entry := range toolEntries.FindAllString(r.String(n), -1) {
			check(n, entry)
		}
		return
	}
	for _, item := range n.Items {
		if entry := r.Text(item); entry != "" {
			check(item, entry)
		}
	}
}
