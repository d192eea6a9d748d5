package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
)

// The files of a scenario that have a meaning.
const (
	recipeFile      = "recipe.yaml"
	configFile      = "braise.yaml"
	scriptFile      = "script.yaml"
	toolsFile       = "tools.yaml"
	inputFile       = "input.json"
	answersFile     = "answers.yaml"
	modesFile       = "scenario.yaml"
	outcomeFile     = "outcome.json"
	traceFile       = "trace.txt"
	planFile        = "plan.mmd"
	planJSONFile    = "plan.json"
	diagnosticsFile = "diagnostics.txt"
)

// scenario is a scenario file as read.
type scenario struct {
	archive *txtar.Archive
	files   fs.FS         // of the archive
	source  fs.FS         // of the recipe and the files that it names
	recipe  string        // its file in source
	input   any           // decoded JSON; nil: none
	script  *script.Model // nil: none
	tools   *script.Tools // nil: none
	answers []answer      // of pauses, in order
	strict  bool
	same    string // what must be the same in every run: sameOutput, or all of the outcome
	wants   []want
}

// want is an expected diagnostic, as a comment beside the line it is about.
type want struct {
	file   string
	line   int
	regexp *regexp.Regexp // of "code: message", or with " (hint: …)" behind it
}

// sameOutput is the word for a scenario whose runs have the same status and output, and may differ else.
const sameOutput = "output"

// read makes a scenario of its archive. name is that of the scenario, beside the folder it stands in, whose recipe it
// tests if it brings none. The error says all that is wrong with it.
func read(name string, archive *txtar.Archive, beside fs.FS) (*scenario, error) {
	s := &scenario{archive: archive}
	var errs []error
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		errs = append(errs, errors.New("a scenario begins with a paragraph that says what it guards"))
	}
	var err error
	if s.files, err = txtar.FS(archive); err != nil {
		errs = append(errs, err)
	}
	asked := ""
	if f := s.file(modesFile); f != nil {
		root, found := yamlnode.Parse(modesFile, f.Data, nil)
		r := yamlnode.Reader{Diagnostics: found}
		fields := r.Object(root, []string{"recipe", "same", "strict"}, nil)
		asked = r.Text(fields["recipe"])
		s.same = r.OneOf(fields["same"], "outcome", sameOutput)
		s.strict = r.Bool(fields["strict"])
		errs = append(errs, r.Diagnostics.Err())
	}
	errs = append(errs, s.find(asked, name, beside))
	if f := s.file(inputFile); f != nil {
		if s.input, err = value.DecodeStrict(f.Data); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", inputFile, err))
		}
	}
	if f := s.file(scriptFile); f != nil {
		if s.script, err = script.Parse(scriptFile, f.Data); err != nil {
			errs = append(errs, err)
		}
	}
	if f := s.file(answersFile); f != nil {
		if s.answers, err = readAnswers(f.Data); err != nil {
			errs = append(errs, err)
		}
	}
	if f := s.file(toolsFile); f != nil {
		if s.tools, err = script.ParseTools(toolsFile, f.Data); err != nil {
			errs = append(errs, err)
		}
	}
	for _, f := range archive.Files {
		if ext := path.Ext(f.Name); ext == ".yaml" || ext == ".yml" {
			errs = append(errs, s.readWants(f))
		}
	}
	return s, errors.Join(errs...)
}

// find says which recipe the scenario tests: the one that it asks for, its own recipe.yaml, or, of those beside it, the
// one of its name or recipe.yaml.
func (s *scenario) find(asked, name string, beside fs.FS) error {
	s.source, s.recipe = s.files, recipeFile
	named := name + ".yaml"
	switch {
	case asked != "" && !fs.ValidPath(asked):
		return fmt.Errorf("%s: %q is not a file of the scenario, nor below its folder", modesFile, asked)
	case asked != "":
		s.recipe = asked
		if s.file(asked) != nil {
			return nil
		}
	case s.file(recipeFile) != nil:
		return nil
	case fs.ValidPath(named) && looksLikeRecipe(beside, named):
		s.recipe = named
	}
	s.source = beside
	if _, err := fs.Stat(beside, s.recipe); err != nil {
		return fmt.Errorf("there is no %s, neither in the scenario nor beside it", s.recipe)
	}
	return nil
}

// looksLikeRecipe reports whether a file has a line that says what it is: a script may have the scenario's name, too.
func looksLikeRecipe(fsys fs.FS, name string) bool {
	text, err := fs.ReadFile(fsys, name)
	return err == nil && bytes.Contains(append([]byte("\n"), text...), []byte("\napiVersion:"))
}

// file returns a file of the archive, nil when there is none of that name.
func (s *scenario) file(name string) *txtar.File {
	for i := range s.archive.Files {
		if f := &s.archive.Files[i]; f.Name == name {
			return f
		}
	}
	return nil
}

var wantComment = regexp.MustCompile(`(?:^|\s)# want (.*)$`)

// readWants collects the `# want "regexp" …` comments of a YAML file.
func (s *scenario) readWants(f txtar.File) error {
	number := 0
	for line := range strings.Lines(string(f.Data)) {
		number++
		m := wantComment.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		for rest := strings.TrimSpace(m[1]); rest != ""; {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil || quoted[0] == '\'' {
				return fmt.Errorf("%s:%d: # want is followed by regular expressions in double quotes or backquotes",
					f.Name, number)
			}
			rest = strings.TrimSpace(rest[len(quoted):])
			text, _ := strconv.Unquote(quoted)
			re, err := regexp.Compile(text)
			if err != nil {
				return fmt.Errorf("%s:%d: # want: %w", f.Name, number, err)
			}
			s.wants = append(s.wants, want{f.Name, number, re})
		}
	}
	return nil
}

// take matches diagnostics with wants, each with one. It returns what is left of both.
func (s *scenario) take(list diagnostics.List) (left diagnostics.List, missing []want) {
	taken := make([]bool, len(list))
	for _, w := range s.wants {
		found := false
		for i, d := range list {
			if found = !taken[i] && w.takes(d); found {
				taken[i] = true
				break
			}
		}
		if !found {
			missing = append(missing, w)
		}
	}
	for i, d := range list {
		if !taken[i] {
			left = append(left, d)
		}
	}
	return left, missing
}

func (w want) takes(d diagnostics.Diagnostic) bool {
	text := fmt.Sprintf("%s: %s", d.Code, d.Message)
	return d.Position.File == w.file && d.Position.Line == w.line &&
		(w.regexp.MatchString(text) || w.regexp.MatchString(fmt.Sprintf("%s (hint: %s)", text, d.Hint)))
}
