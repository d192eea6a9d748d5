package temporal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// drivers are the files with the code of the workflow. Others may hold some that only puts values together.
var drivers = []string{"asked.go", "carry.go", "drive.go", "journal.go", "limits.go", "offer.go", "outcome.go",
	"parts.go", "report.go", "run.go", "versions.go", "wire.go"}

// The driver starts nothing that the SDK does not know of, asks no clock and throws no dice: a replay goes the same way.
// It catches no panic, by which the SDK says that a replay goes another one.
func TestDriversOnlyDrive(t *testing.T) {
	files := token.NewFileSet()
	for _, name := range drivers {
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			if p := strings.Trim(spec.Path.Value, `"`); p == "sync" || strings.HasPrefix(p, "sync/") || strings.Contains(p, "/rand") {
				t.Errorf("%s: it imports %s", files.Position(spec.Pos()), p)
			}
		}
		for n := range ast.Preorder(f) {
			if what := does(n); what != "" {
				t.Errorf("%s: it has a %s", files.Position(n.Pos()), what)
			}
		}
	}
}

// does names what a node does that the driver does not; "" for anything else.
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
			clock := []string{"Now", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Since", "Until", "Sleep"}
			if ok && of.Name == "time" && slices.Contains(clock, f.Sel.Name) {
				return "time." + f.Sel.Name
			}
		}
	}
	return ""
}

// What the house test looks for it finds.
func TestDoes(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f(c chan int) {\n\tgo f(c)\n\tselect {}\n\trecover()\n\t_ = time.Now()\n\t_ = workflow.Now(nil)\n}\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for n := range ast.Preorder(f) {
		if what := does(n); what != "" {
			found = append(found, what)
		}
	}
	if want := []string{"channel", "go", "select", "recover", "time.Now"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}
