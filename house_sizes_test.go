package braise

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The limits of what a reader takes in at once, tests aside.
const (
	maxFields    = 20  // of a struct
	maxFileLines = 450 // of a file
	maxFuncLines = 80  // of a function, its comment aside
	maxColumns   = 120 // of a line
	tabColumns   = 4   // of a tab
	maxTypes     = 20  // that a package outside internal/ exports
	maxFuncs     = 15  // that it exports, methods aside
	maxPortTypes = 73  // that package runtime exports, for it has the ports
	maxDataTypes = 32  // that package checkpoint exports, for it has what stores keep
	otherLines   = 300 // planned for a package that plannedLines does not have
)

// plannedLines is how many lines each package should need. It may need half as many again; who needs more has
// put code into the wrong room, or gives the reason in docs/design.md, section "Sizes".
var plannedLines = map[string]int{
	"adapters/anthropic":        900,
	"adapters/builtin":          1200,
	"adapters/gemini":           820,
	"adapters/limit":            456,
	"adapters/mcp":              1516,
	"adapters/memory":           1200,
	"adapters/openai":           1660,
	"adapters/retriever":        1200,
	"adapters/script":           1262,
	"adapters/skills":           1200,
	"agentloop":                 376,
	"checkpoint":                1790,
	"checkpoint/checkpointtest": 2410,
	"checkpoint/jsonl":          1250,
	"checkpoint/postgres":       2200,
	"checkpoint/sqlite":         1786,
	"internal/batchtest":        500,
	"internal/command":          5790,
	"diagnostics":               680,
	"history":                   1530,
	"host":                      3735,
	"internal/call":             1750,
	"internal/agents":           3600,
	"internal/endpoint":         892,
	"internal/engine":           5735,
	"internal/execution":        1625,
	"internal/drawing":          950,
	"internal/expr":             2862,
	"internal/guard":            260,
	"internal/expr/syntax":      650,
	"internal/journal":          925,
	"internal/ledger":           420,
	"internal/local":            1255,
	"internal/machine":          2200,
	"internal/otlp":             450,
	"internal/past":             440,
	"internal/passages":         380,
	"internal/program":          2935,
	"internal/programs":         330,
	"internal/terminal":         627,
	"internal/runtest":          480,
	"internal/schema":           1300,
	"internal/value":            1560,
	"internal/wire":             510,
	"internal/yamlnode":         1700,
	"recipe":                    3850,
	"resume":                    724,
	"retry":                     400,
	"runtime":                   1812,
	"runtime/runtimetest":       930,
	"scenario":                  930,
	"serve":                     3800,
	"trace":                     790,
	"trace/oteltrace":           1150,
	"worker":                    1200,
	"workflow":                  930,
}

// wide are the structs that have more than maxFields fields because what they mirror has: a step of the format,
// the ports of a run, the settings of an agent, whatever may happen to one.
var wide = []string{"struct recipe.Step", "struct runtime.Runtime", "struct agentloop.Loop"}

// tooLarge are the figures of what is above a limit today. None may grow, and what has come within its limit
// leaves the list.
var tooLarge = map[string]int{}

// size is one figure and its limit.
type size struct {
	pos           string // file, and line if there is one
	what          string // as tooLarge has it
	figure, limit int
	unit          string
}

func TestSizes(t *testing.T) {
	used := map[string]bool{} // what wide and tooLarge are needed for
	for _, s := range sizes(t) {
		allowed, listed := tooLarge[s.what]
		switch {
		case s.figure <= s.limit:
			continue
		case listed && s.figure > allowed:
			t.Errorf("%s: %s: %d %s, %d is too many already", s.pos, s.what, s.figure, s.unit, allowed)
		case !listed && !slices.Contains(wide, s.what):
			t.Errorf("%s: %s: %d %s, the limit is %d", s.pos, s.what, s.figure, s.unit, s.limit)
		}
		used[s.what] = true
	}
	for _, what := range slices.Concat(wide, slices.Sorted(maps.Keys(tooLarge))) {
		if !used[what] {
			t.Errorf("%s is within its limit: house_sizes_test.go need not make an exception of it", what)
		}
	}
}

// sizes measures all packages, their tests aside.
func sizes(t *testing.T) []size {
	var all []size
	total := map[string]int{}          // lines by package
	wideLines := map[string][]string{} // their places, by package
	exported := map[string]exports{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		text := lines(t, f.name)
		total[f.pkg()] += len(text)
		wideLines[f.pkg()] = append(wideLines[f.pkg()], placesOfWideLines(f.name, text)...)
		exported[f.pkg()] = exported[f.pkg()].with(f.syntax)
		all = append(all, size{f.name, "file " + f.name, len(text), maxFileLines, "lines"})
		all = append(all, declSizes(f)...)
	}
	for _, pkg := range slices.Sorted(maps.Keys(total)) {
		planned := cmp.Or(plannedLines[pkg], otherLines)
		places := strings.Join(wideLines[pkg], ", ")
		all = append(all,
			size{pkg, "package " + pkg, total[pkg], planned * 3 / 2, "lines"},
			size{places, "columns of " + pkg, len(wideLines[pkg]), 0, "lines over " + strconv.Itoa(maxColumns) + " columns"})
		if strings.HasPrefix(pkg, "internal/") || pkg == "recipe" { // recipe mirrors the format
			continue
		}
		types := maxTypes
		switch pkg {
		case "runtime":
			types = maxPortTypes
		case "checkpoint":
			types = maxDataTypes
		}
		all = append(all,
			size{pkg, "types of " + pkg, exported[pkg].types, types, "exported types"},
			size{pkg, "functions of " + pkg, exported[pkg].funcs, maxFuncs, "exported functions"})
	}
	return all
}

// placesOfWideLines returns where the lines of a file are too wide.
func placesOfWideLines(name string, text []string) []string {
	var places []string
	for i, line := range text {
		if utf8.RuneCountInString(line)+(tabColumns-1)*strings.Count(line, "\t") > maxColumns {
			places = append(places, name+":"+strconv.Itoa(i+1))
		}
	}
	return places
}

// declSizes measures the functions and the structs of a file.
func declSizes(f goFile) []size {
	var all []size
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			from := files.Position(n.Pos())
			name := n.Name.Name
			if n.Recv != nil {
				name = receiver(n) + "." + name
			}
			count := files.Position(n.End()).Line - from.Line + 1
			all = append(all, size{from.String(), "func " + f.pkg() + "." + name, count, maxFuncLines, "lines"})
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				pos, what := files.Position(n.Pos()).String(), "struct "+f.pkg()+"."+n.Name.Name
				all = append(all, size{pos, what, countFields(s), maxFields, "fields"})
			}
		}
		return true
	})
	return all
}

// countFields counts every name of a struct, and every type that is embedded.
func countFields(s *ast.StructType) int {
	n := 0
	for _, field := range s.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}

// exports counts what a package exports.
type exports struct{ types, funcs int }

// with adds what one file of the package exports.
func (e exports) with(f *ast.File) exports {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				e.funcs++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
					e.types++
				}
			}
		}
	}
	return e
}

// pure are the packages whose results depend on their arguments alone.
var pure = []string{"agentloop", "internal/agents", "internal/engine", "internal/journal", "internal/machine", "internal/past",
	"internal/wire"}

// impure is what a pure package may not import, and impureFuncs what it may not call.
var (
	impure      = []string{"crypto/rand", "math/rand", "net", "os", "sync", "syscall"}
	impureFuncs = []string{"time.After", "time.AfterFunc", "time.NewTicker", "time.NewTimer", "time.Now", "time.Since",
		"time.Sleep", "time.Tick", "time.Until"}
)

// What is pure knows no goroutine, channel, clock, chance, I/O, nor the order of a map, and hides no panic.
func TestPurity(t *testing.T) {
	for _, pkg := range pure {
		var syntax []*ast.File
		for _, f := range goFiles(t) {
			if f.pkg() == pkg && !f.test {
				syntax = append(syntax, f.syntax)
			}
		}
		if len(syntax) == 0 {
			t.Errorf("%s has no files", pkg)
			continue
		}
		info := typesOf(t, pkg, syntax)
		for _, f := range syntax {
			for _, spec := range f.Imports {
				imported := strings.Trim(spec.Path.Value, `"`)
				if slices.ContainsFunc(impure, func(p string) bool { return matches(p+"/...", imported) }) {
					t.Errorf("%s: a pure package may not import %s", files.Position(spec.Pos()), imported)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if what := impurity(n, info); what != "" {
					t.Errorf("%s: %s in a pure package", files.Position(n.Pos()), what)
				}
				return true
			})
		}
	}
}

// impurity names what makes a node impure; "" if nothing does.
func impurity(n ast.Node, info *types.Info) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.SelectStmt:
		return "a select"
	case *ast.ChanType:
		return "a channel"
	case *ast.Ident:
		switch used := info.Uses[n].(type) {
		case *types.Builtin:
			if used.Name() == "recover" {
				return "recover"
			}
		case *types.Func:
			if slices.Contains(impureFuncs, used.FullName()) {
				return used.FullName()
			}
		}
	case *ast.RangeStmt:
		if _, isMap := info.TypeOf(n.X).Underlying().(*types.Map); isMap || isMapIterator(n.X) {
			return "the order of a map, where slices.Sorted(maps.Keys(m)) has one,"
		}
	}
	return ""
}

// isMapIterator reports whether e is an iterator over a map in its own order.
func isMapIterator(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && slices.ContainsFunc([]string{"All", "Keys", "Values"}, func(name string) bool {
		return isSelector(call.Fun, "maps", name)
	})
}

// typesOf checks the types of a package's files, with what it imports as the go command has compiled it.
func typesOf(t *testing.T, pkg string, syntax []*ast.File) *types.Info {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			compiled[name] = file
		}
	}
	open := func(name string) (io.ReadCloser, error) {
		if compiled[name] == "" {
			return nil, fmt.Errorf("the go command has no compiled %s", name)
		}
		return os.Open(compiled[name])
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
		Defs:  map[*ast.Ident]types.Object{},
	}
	conf := types.Config{Importer: importer.ForCompiler(files, "gc", open)}
	if _, err := conf.Check(path.Join(module, pkg), files, syntax, info); err != nil {
		t.Fatal(err)
	}
	return info
}

// All kinds of events stand in one table, trace/kinds.go: every constant of type trace.Kind is declared there.
func TestKindsStandInOneTable(t *testing.T) {
	const table = "trace/kinds.go"
	declared := 0
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		for _, d := range f.syntax.Decls {
			d, ok := d.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			for _, spec := range d.Specs {
				spec := spec.(*ast.ValueSpec)
				if !isKind(f, spec) {
					continue
				}
				declared += len(spec.Names)
				if f.name != table {
					t.Errorf("%s: %s is a kind of event that is not in %s", files.Position(spec.Pos()), spec.Names[0].Name, table)
				}
			}
		}
	}
	if declared == 0 {
		t.Errorf("%s declares no constant of type Kind", table)
	}
}

// isKind reports whether constants are declared with type trace.Kind.
func isKind(f goFile, spec *ast.ValueSpec) bool {
	is := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return isSelector(e, "trace", "Kind") || ok && id.Name == "Kind" && f.pkg() == "trace"
	}
	return is(spec.Type) || slices.ContainsFunc(spec.Values, func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		return ok && is(call.Fun)
	})
}
