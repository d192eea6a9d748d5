package braise

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// maxRunMethods is how many methods internal/engine.Run may have, tests aside. A rule belongs to the part whose data it
// reads; Run joins the parts.
const maxRunMethods = 90

// runParts are the parts of a run in internal/engine, and the files that may name the fields of each. The first is where
// the part stands. docs/design.md, section "The parts of a run", says what they own.
var runParts = map[string]string{
	"budget":   "budget held use view",
	"account":  "budget held use",
	"modelUse": "use",
	"drawn":    "model",
	"batches":  "batches batchsend",
	"todo":     "todo agent attempts batchsend calls drain finally hold next restart undo",
	"timers":   "todo",
	"due":      "todo next pauses",
	"events":   "trace run",
	"unsaved":  "run agent attempts batchsend calls files next open pauses say share signals start step undo",
	"actor":    "run pauses undo",
	"notes":    "signals",
	"people":   "run calls job undo view",
	"tools":    "tools agent run",
	"Answers":  "answers restart",
	"waits":    "pauses agent answers apply batches batchsend files job replay restart result start undo",
	"calls":    "calls agent batchsend channel drain files legal next pauses replay restart run start view",
	"agent":    "agent apply batches grants indeterminate job",
	"atWork":   "agent drain files hold indeterminate inside job use view",
	"undoing":  "undo apply batchsend channel drain finally hold legal next pauses replay restart result",
	"ending": "run agent apply attempts batches batchsend calls channel deny drain fallback finally " +
		"indeterminate job next open pauses replay restart result start step undo",
	"leftOver": "replay agent apply batchsend breakpoint deny finally legal next pauses restart run share " +
		"start undo view",
	"elsewhere":   "share",
	"generations": "run agent apply channel grants indeterminate job pauses replay restart share start undo",
}

// runCallers are the types of internal/engine whose methods may take a *Run: a call, whom it is made for, see its
// caller, and the batches in which calls wait.
var runCallers = []string{"agent", "batches", "pending", "step", "undoing"}

// The parts of a run do not know the run, and what they own is named in few files.
func TestPartsOfARun(t *testing.T) {
	const pkg = "internal/engine"
	var syntax []*ast.File
	for _, f := range goFiles(t) {
		if f.pkg() == pkg && !f.test {
			syntax = append(syntax, f.syntax)
		}
	}
	info := typesOf(t, pkg, syntax)
	methods := 0
	owner := map[types.Object]string{} // of a field: the part
	for _, f := range syntax {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				by := ""
				if n.Recv != nil {
					by = receiver(n)
				}
				switch {
				case by == "Run":
					methods++
				case names(n.Type.Params, "Run") && !slices.Contains(runCallers, by):
					t.Errorf("%s: %s takes a Run, and is not a method of it", files.Position(n.Pos()), n.Name)
				}
			case *ast.TypeSpec:
				s, ok := n.Type.(*ast.StructType)
				if !ok {
					return true
				}
				if n.Name.Name != "Run" && names(s, "Run") {
					t.Errorf("%s: %s has a Run", files.Position(n.Pos()), n.Name)
				}
				if runParts[n.Name.Name] == "" {
					return true
				}
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						owner[info.Defs[name]] = n.Name.Name
					}
				}
			}
			return true
		})
	}
	if methods != maxRunMethods {
		t.Errorf("Run has %d methods, maxRunMethods is %d: a new rule belongs to a part, and a lower figure stays",
			methods, maxRunMethods)
	}
	named := map[string]map[string]bool{}
	for id, used := range info.Uses {
		part := owner[used]
		if part == "" {
			continue
		}
		at := files.Position(id.Pos()).Filename
		file := strings.TrimSuffix(at[strings.LastIndex(at, "/")+1:], ".go")
		if named[part] == nil {
			named[part] = map[string]bool{}
		}
		named[part][file] = true
	}
	for _, part := range slices.Sorted(maps.Keys(runParts)) {
		got := strings.Join(slices.Sorted(maps.Keys(named[part])), " ")
		allowed := strings.Fields(runParts[part])
		slices.Sort(allowed)
		if want := strings.Join(allowed, " "); got != want {
			t.Errorf("%s: its fields are named in %s, and may be in %s", part, got, want)
		}
	}
}

// names reports whether a node names an identifier.
func names(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}
