package braise

import (
	"bufio"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/braise-run/braise"

// room is one package of the floor plan: the floor it stands on, and what it may import.
type room struct {
	floor   string // "0" to "5"; "1b" is above "1", and "2c" above "2b"
	own     string // packages of this module
	foreign string // packages of other modules, or whole trees of them with a "/..." behind
}

// plan is the floor plan: exactly what the files of each package import, its tests aside. An import that
// is not in it is a mistake or a decision; a decision is written down here, and for another module in
// docs/dependencies.md too.
var plan = map[string]room{
	".": {"3", "recipe workflow", ""},

	"internal/expr/syntax": {floor: "0"},
	"internal/guard":       {"1b", "checkpoint runtime", ""},
	"internal/clock":       {"1c", "checkpoint internal/guard", ""},
	"internal/daily":       {"1c", "checkpoint internal/guard internal/value runtime", ""},

	"internal/failpoint":          {floor: "0"},
	"internal/npmtest":            {floor: "0"},
	"internal/seedtest":           {floor: "0"},
	"internal/seedtest/rapidseed": {"0b", "internal/seedtest", "pgregory.net/rapid"},
	"internal/pages":              {floor: "5"},
	"internal/soak":               {floor: "5"},
	"internal/procgroup":          {floor: "0"},
	"internal/regular":            {floor: "0"},
	"internal/programs":           {"0", "", "mvdan.cc/sh/v3/syntax"},
	"internal/passages":           {"0", "internal/value", "golang.org/x/net/html/..."},
	"internal/value":              {floor: "0"},
	"internal/schema":             {"0", "diagnostics internal/value", "github.com/santhosh-tekuri/jsonschema/v6/..."},
	"internal/yamlnode":           {"0", "diagnostics internal/value", "gopkg.in/yaml.v3 github.com/goccy/go-yaml/..."},
	"diagnostics":                 {"0", "internal/value", ""},
	"retry":                       {"0", "", "github.com/cenkalti/backoff/v4"},
	"trace":                       {"0", "internal/value", ""},
	"checkpoint":                  {"0", "internal/value", "golang.org/x/sys/unix"},
	"checkpoint/state":            {"0b", "checkpoint", ""},
	"checkpoint/files":            {"0b", "checkpoint", ""},
	"recipes":                     {floor: "0"},
	"internal/otlp": {"0", "", "github.com/cenkalti/backoff/v4 go.opentelemetry.io/otel/... go.opentelemetry.io/proto/otlp/..." +
		" google.golang.org/protobuf/..."},

	"recipe":        {"1", "diagnostics internal/value internal/schema internal/yamlnode", ""},
	"internal/expr": {"1", "diagnostics internal/expr/syntax internal/value", ""},
	"resume":        {"1", "checkpoint diagnostics internal/schema internal/value", ""},
	"runtime": {"1", "checkpoint checkpoint/files checkpoint/state diagnostics resume retry trace internal/regular internal/value internal/schema",
		"github.com/google/jsonschema-go/jsonschema"},

	"internal/batchtest":  {"1b", "retry runtime", "github.com/google/go-cmp/cmp"},
	"runtime/runtimetest": {"1b", "retry runtime", "github.com/google/go-cmp/cmp"},
	"internal/endpoint":   {"1b", "internal/value retry runtime", ""},
	"agentloop":           {"1b", "diagnostics internal/programs internal/value internal/schema resume runtime", ""},
	"internal/agents":     {"1c", "agentloop diagnostics retry trace internal/programs internal/value internal/schema resume runtime", ""},
	"internal/machine":    {"1b", "internal/expr internal/value", ""},

	"internal/program": {"2a", "agentloop diagnostics internal/agents internal/expr internal/machine internal/schema internal/value recipe retry" +
		" runtime trace", "github.com/dominikbraun/graph"},
	"internal/drawing": {"2b", "internal/program", "github.com/dominikbraun/graph"},
	"internal/journal": {"2a", "checkpoint internal/agents internal/machine internal/value resume", ""},
	"internal/past":    {"2a", "checkpoint internal/agents internal/journal internal/value resume runtime", ""},

	"internal/engine": {"2b", "agentloop checkpoint diagnostics internal/agents internal/expr internal/journal internal/machine internal/past internal/program internal/value" +
		" resume retry runtime trace", ""},

	"internal/call": {"2c", "agentloop checkpoint checkpoint/files diagnostics internal/agents internal/daily internal/engine internal/expr internal/journal internal/passages internal/program internal/schema" +
		" internal/guard internal/value resume retry runtime trace", ""},
	"internal/wire":   {"2c", "diagnostics internal/agents internal/engine internal/expr internal/journal internal/program internal/value resume retry runtime trace", ""},
	"internal/ledger": {"2c", "checkpoint internal/failpoint internal/guard internal/journal runtime", ""},
	"internal/local": {"2c", "checkpoint diagnostics internal/call internal/clock internal/engine internal/failpoint internal/guard internal/journal internal/ledger internal/past" +
		" internal/procgroup internal/program internal/value resume runtime trace", "github.com/google/uuid"},

	"internal/engine/enginetest": {"2d", "diagnostics internal/engine internal/journal internal/local internal/machine internal/value internal/wire", ""},

	"internal/execution": {"2d", "checkpoint diagnostics internal/agents internal/call internal/clock internal/daily internal/engine internal/failpoint internal/guard internal/journal internal/ledger internal/local internal/past" +
		" internal/procgroup internal/program internal/value recipe resume runtime trace", ""},

	"workflow": {"3", "agentloop checkpoint diagnostics internal/call internal/drawing internal/execution internal/local internal/program internal/schema" +
		" internal/value recipe resume runtime trace", ""},
	"internal/runtest": {"3b", "checkpoint diagnostics internal/value recipe resume retry runtime runtime/runtimetest trace workflow", ""},
	"history":          {"3", "agentloop checkpoint diagnostics internal/agents internal/engine internal/guard internal/journal internal/past internal/program internal/value recipe resume runtime trace", ""},

	"checkpoint/checkpointtest": {"3", "checkpoint checkpoint/files", "github.com/google/go-cmp/... go.uber.org/goleak golang.org/x/sys/unix"},
	"checkpoint/jsonl":          {"3", "checkpoint internal/regular", ""},
	"checkpoint/sqlite":         {"3", "checkpoint internal/guard", "zombiezen.com/go/sqlite/..."},
	"checkpoint/postgres":       {"3", "checkpoint internal/guard", "github.com/cenkalti/backoff/v4 github.com/jackc/pgx/v5/..."},
	"trace/oteltrace":           {"3", "internal/otlp trace", "go.opentelemetry.io/otel/... github.com/prometheus/client_golang/..."},
	"adapters/anthropic":        {"3", "runtime retry internal/endpoint internal/value", ""},
	"adapters/gemini":           {"3", "runtime retry internal/endpoint internal/value", ""},
	"adapters/openai":           {"3", "runtime retry internal/endpoint internal/value", "github.com/sashabaranov/go-openai"},
	"adapters/script":           {"3", "runtime diagnostics retry internal/value internal/yamlnode", ""},
	"adapters/limit":            {"3", "checkpoint internal/agents internal/guard retry runtime trace", ""},
	"adapters/mcp": {"3", "resume runtime retry trace internal/procgroup internal/schema internal/value",
		"github.com/modelcontextprotocol/go-sdk/..."},
	"adapters/builtin": {"3", "runtime retry trace internal/passages internal/procgroup internal/regular internal/value",
		"golang.org/x/text/encoding/..."},
	"adapters/memory":    {"3", "runtime checkpoint internal/value", ""},
	"adapters/skills":    {"3", "runtime diagnostics internal/yamlnode internal/regular", ""},
	"adapters/retriever": {"3", "retry runtime internal/passages internal/regular internal/value", "github.com/jackc/pgx/v5/... zombiezen.com/go/sqlite/..."},

	"host": {"4", "agentloop diagnostics retry checkpoint history internal/guard internal/programs internal/yamlnode internal/regular resume runtime recipe recipes workflow adapters/anthropic adapters/gemini adapters/openai adapters/script" +
		" adapters/limit adapters/mcp adapters/builtin adapters/memory adapters/skills adapters/retriever checkpoint/jsonl" +
		" checkpoint/sqlite checkpoint/postgres trace/oteltrace", ""},
	"worker": {"4", "checkpoint diagnostics internal/execution internal/expr internal/guard internal/procgroup internal/value resume runtime workflow",
		"github.com/adhocore/gronx"},
	"scenario": {"4", "diagnostics trace checkpoint internal/value internal/yamlnode internal/regular resume runtime workflow host" +
		" adapters/script", "golang.org/x/tools/txtar github.com/rogpeppe/go-internal/diff"},

	"serve/page": {floor: "3"},
	"serve": {"4", "checkpoint checkpoint/files diagnostics history internal/clock internal/guard internal/journal internal/procgroup internal/schema internal/value recipe resume runtime serve/page trace worker workflow",
		"github.com/prometheus/client_golang/..."},

	"internal/dry": {"4", "adapters/script checkpoint internal/schema internal/value recipe resume retry runtime trace workflow", ""},

	"scenario/scenariotest": {"4", "scenario", ""},
	"internal/terminal":     {"1", "trace internal/value", ""},

	"cmd/braise": {"5", "internal/command", ""},
	"internal/command": {"5", "diagnostics trace checkpoint internal/clock internal/value internal/schema internal/dry internal/regular resume runtime recipe workflow history host adapters/memory" +
		" checkpoint/files checkpoint/state internal/terminal scenario serve worker trace/oteltrace recipes adapters/script adapters/mcp adapters/builtin", "github.com/spf13/cobra/... github.com/mattn/go-isatty"},
}

// testKit is what tests anywhere may import beside what their package may.
const testKit = "github.com/google/go-cmp/... go.uber.org/goleak github.com/rogpeppe/go-internal/testscript" +
	" pgregory.net/rapid github.com/expr-lang/expr/... golang.org/x/tools/txtar github.com/chromedp/... github.com/getkin/kin-openapi/... go.opentelemetry.io/proto/otlp/... google.golang.org/protobuf/proto"

// goFile is one Go file of the module.
type goFile struct {
	name   string // relative to the root, slash-separated
	test   bool
	syntax *ast.File
}

// pkg is the folder of the file as the floor plan names it.
func (f goFile) pkg() string { return path.Dir(f.name) }

var files = token.NewFileSet()

// goFiles parses all Go files of the module.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var all []goFile
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			foreign := err == nil && name != "."
			if foreign || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		all = append(all, goFile{filepath.ToSlash(name), strings.HasSuffix(name, "_test.go"), syntax})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFloorPlan(t *testing.T) {
	for name, r := range plan {
		for _, own := range strings.Fields(r.own) {
			if below, ok := plan[own]; !ok {
				t.Errorf("the plan of %s names %s, which it does not have", name, own)
			} else if below.floor > r.floor {
				t.Errorf("%s on floor %s may not import %s on floor %s", name, r.floor, own, below.floor)
			}
		}
	}
	used := map[string]map[string]bool{} // by package: the permissions that its files need, its tests aside
	for _, f := range goFiles(t) {
		r, ok := plan[f.pkg()]
		if !ok {
			t.Errorf("%s: package %s is not in the floor plan", f.name, f.pkg())
			continue
		}
		if used[f.pkg()] == nil {
			used[f.pkg()] = map[string]bool{}
		}
		for _, spec := range f.syntax.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			permission, allowed := r.permission(imported, f.test)
			if !allowed {
				t.Errorf("%s: may not import %s; if it should, change the floor plan in house_test.go", files.Position(spec.Pos()), imported)
			}
			if !f.test {
				used[f.pkg()][permission] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plan)) {
		if used[name] == nil {
			t.Errorf("the plan has %s, which is no package", name)
		}
		for _, permission := range strings.Fields(plan[name].own + " " + plan[name].foreign) {
			if !used[name][permission] {
				t.Errorf("%s does not import %s: take it out of the floor plan in house_test.go", name, permission)
			}
		}
	}
}

// permission returns by which permission of its row a file may import a package; "" for the standard
// library, and for what tests may import beside what their package may.
func (r room) permission(imported string, test bool) (permission string, allowed bool) {
	if imported == module {
		return ".", test
	}
	if own, isOwn := strings.CutPrefix(imported, module+"/"); isOwn {
		return own, test || slices.Contains(strings.Fields(r.own), own)
	}
	if !strings.Contains(imported, ".") {
		return "", true
	}
	for _, pattern := range strings.Fields(r.foreign) {
		if matches(pattern, imported) {
			return pattern, true
		}
	}
	return "", test && slices.ContainsFunc(strings.Fields(testKit), func(p string) bool { return matches(p, imported) })
}

// matches reports whether a package is meant by a pattern of the floor plan.
func matches(pattern, imported string) bool {
	tree, whole := strings.CutSuffix(pattern, "/...")
	return imported == tree || whole && strings.HasPrefix(imported, tree+"/")
}

// The command is no test: neither package testing, with its flags, nor what only tests need is linked into it. It speaks
// no gRPC either.
func TestCommandLinksNoTestKit(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/braise").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/scenario") {
		t.Fatal("the list of what the command links lacks package scenario")
	}
	for _, name := range []string{"testing", "github.com/google/go-cmp/cmp", module + "/scenario/scenariotest", module + "/runtime/runtimetest",
		module + "/internal/engine/enginetest", module + "/internal/runtest"} {
		if slices.Contains(linked, name) {
			t.Errorf("cmd/braise links %s", name)
		}
	}
	for _, name := range linked {
		if matches("google.golang.org/grpc/...", name) {
			t.Errorf("cmd/braise links %s", name)
		}
	}
}

func TestExportedNamesHaveComments(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d))) {
					t.Errorf("%s: %s has no doc comment", files.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, name := range undocumented(d) {
					t.Errorf("%s: %s has no doc comment", files.Position(name.Pos()), name.Name)
				}
			}
		}
	}
}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	expr := d.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// undocumented returns the exported names of a declaration that have no comment of their own, nor
// share one with their group.
func undocumented(d *ast.GenDecl) []*ast.Ident {
	if d.Doc != nil {
		return nil
	}
	var names []*ast.Ident
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Doc == nil {
				names = append(names, spec.Name)
			}
		case *ast.ValueSpec:
			if spec.Doc == nil && spec.Comment == nil {
				names = append(names, spec.Names...)
			}
		}
	}
	return slices.DeleteFunc(names, func(n *ast.Ident) bool { return !n.IsExported() })
}

// What decides starts nothing, waits for nothing, asks no clock, throws no dice and catches no panic: so that it
// decides the same wherever it is asked. Programs are made once and shared, which takes locks, but they decide nothing then.
func TestDecidersOnlyDecide(t *testing.T) {
	packages := []string{"agentloop", "internal/agents", "internal/machine", "internal/program", "internal/journal", "internal/engine", "internal/wire"}
	for _, f := range goFiles(t) {
		if f.test || !slices.Contains(packages, path.Dir(f.name)) {
			continue
		}
		for _, spec := range f.syntax.Imports {
			shared := path.Dir(f.name) == "internal/program"
			if name := strings.Trim(spec.Path.Value, `"`); name == "sync" && !shared || strings.HasSuffix(name, "/rand") || strings.HasPrefix(name, "math/rand") {
				t.Errorf("%s: it imports %s", files.Position(spec.Pos()), name)
			}
		}
		for n := range ast.Preorder(f.syntax) {
			if what := does(n); what != "" {
				t.Errorf("%s: it has a %s", files.Position(n.Pos()), what)
			}
		}
	}
}

// does names what a node does that deciders do not; "" for anything else.
func does(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go"
	case *ast.SelectStmt:
		return "select"
	case *ast.ChanType:
		return "channel"
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.Ident:
			if f.Name == "recover" {
				return "recover"
			}
		case *ast.SelectorExpr:
			of, ok := f.X.(*ast.Ident)
			if ok && of.Name == "time" && slices.Contains([]string{"Now", "After", "AfterFunc", "NewTimer", "NewTicker", "Since", "Until", "Sleep"}, f.Sel.Name) {
				return "time." + f.Sel.Name
			}
		}
	}
	return ""
}

func TestNothingIsLeftForLater(t *testing.T) {
	unfinished := regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b|nolint|lint:ignore`)
	for _, f := range goFiles(t) {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if m := unfinished.FindString(c.Text); m != "" {
					t.Errorf("%s: %s", files.Position(c.Pos()), m)
				}
			}
		}
	}
}

// Tests wait for what happens, or let testing/synctest turn the clock; they do not guess how long
// something takes.
func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if bubble, ok := n.(*ast.CallExpr); ok && isSelector(bubble.Fun, "synctest", "Test") {
				return false
			}
			if call, ok := n.(*ast.CallExpr); ok && isSelector(call.Fun, "time", "Sleep") {
				t.Errorf("%s: time.Sleep outside of synctest.Test", files.Position(call.Pos()))
			}
			return true
		})
	}
}

// isSelector reports whether e is x.name.
func isSelector(e ast.Expr, x, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == x
}

func TestLicence(t *testing.T) {
	text, err := os.ReadFile("LICENSE")
	if err != nil || !strings.Contains(string(text), "Apache License") {
		t.Errorf("LICENSE is not the Apache License (%v)", err)
	}
}

// Every module that a file imports has a line in docs/dependencies.md, with its version; no other
// has.
func TestDependenciesAreExplained(t *testing.T) {
	required := requirements(t)
	used := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, spec := range f.syntax.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			for name := range required {
				if matches(name+"/...", imported) {
					used[name] = true
				}
			}
		}
	}
	explained := map[string]string{}
	row := regexp.MustCompile("^\\| `([^`]+)` \\| (v[^ ]+) \\|")
	for _, line := range lines(t, "docs/dependencies.md") {
		if m := row.FindStringSubmatch(line); m != nil {
			explained[m[1]] = m[2]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if explained[name] != required[name] {
			t.Errorf("docs/dependencies.md has %s at %q, want %s", name, cmp.Or(explained[name], "no version"), required[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(explained)) {
		if !used[name] {
			t.Errorf("docs/dependencies.md has %s, which nothing imports", name)
		}
	}
}

// requirements returns the modules that go.mod names, with their versions.
func requirements(t *testing.T) map[string]string {
	required := map[string]string{}
	for _, line := range lines(t, "go.mod") {
		words := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(words) >= 2 && strings.HasPrefix(words[1], "v") {
			required[words[0]] = words[1]
		}
	}
	return required
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		all = append(all, s.Text())
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Nobody gets Temporal's SDK with this module, nor what it needs: cluster/temporal has a go.mod of its own.
func TestNothingNeedsTemporal(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if strings.HasPrefix(path, "go.temporal.io/") {
			t.Errorf("%s is linked", path)
		}
	}
	if !strings.Contains(string(out), "github.com/braise-run/braise/internal/engine\n") {
		t.Error("go list did not list the packages")
	}
}
