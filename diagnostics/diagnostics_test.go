package diagnostics_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
)

func ExampleList_Err() {
	list := diagnostics.List{{
		Level:    diagnostics.ErrorLevel,
		Kind:     diagnostics.KindRecipe,
		Code:     diagnostics.CodeUnknownKey,
		Message:  `unknown key "depends_on"`,
		Hint:     `did you mean "needs"?`,
		Position: diagnostics.Position{File: "triage.yaml", Line: 4, Column: 5},
	}}
	fmt.Println(list.Err())
	fmt.Println(diagnostics.List{}.Err())
	// Output:
	// triage.yaml:4:5: unknown key "depends_on" [recipe.unknownKey]
	//   hint: did you mean "needs"?
	// <nil>
}

func ExampleDidYouMean() {
	fmt.Println(diagnostics.DidYouMean("depend", []string{"needs", "depends"}))
	fmt.Println(diagnostics.DidYouMean("zzz", []string{"needs", "when"}))
	// Output:
	// did you mean "depends"?
	// known here: needs, when
}

func ExampleMode_Apply() {
	list := diagnostics.List{{Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: diagnostics.CodeMissingModel, Message: `no model "fast"`}}
	fmt.Println(diagnostics.Default.Apply(list).HasErrors())
	fmt.Println(diagnostics.Strict.Apply(list).HasErrors())
	// Output:
	// false
	// true
}

func TestPositionString(t *testing.T) {
	for _, tt := range []struct {
		pos  diagnostics.Position
		want string
	}{
		{diagnostics.Position{}, "-"},
		{diagnostics.Position{File: "a.yaml"}, "a.yaml"},
		{diagnostics.Position{File: "a.yaml", Line: 3}, "a.yaml:3"},
		{diagnostics.Position{File: "a.yaml", Line: 3, Column: 7}, "a.yaml:3:7"},
	} {
		if got := tt.pos.String(); got != tt.want {
			t.Errorf("%+v prints %q, want %q", tt.pos, got, tt.want)
		}
		if got := tt.pos.IsZero(); got != (tt.want == "-") {
			t.Errorf("%+v: IsZero %t", tt.pos, got)
		}
	}
}

func TestPositionCompare(t *testing.T) {
	sorted := []diagnostics.Position{
		{},
		{File: "a.yaml"},
		{File: "a.yaml", Line: 2},
		{File: "a.yaml", Line: 2, Column: 10},
		{File: "a.yaml", Line: 10, Column: 1},
		{File: "b.yaml", Line: 1},
	}
	for i, p := range sorted {
		for j, q := range sorted {
			got := p.Compare(q)
			if want := compare(i, j); got != want {
				t.Errorf("%s.Compare(%s) = %d, want %d", p, q, got, want)
			}
		}
	}
}

func compare(i, j int) int {
	switch {
	case i < j:
		return -1
	case i > j:
		return 1
	}
	return 0
}

func TestDiagnosticString(t *testing.T) {
	at := diagnostics.Position{File: "a.yaml", Line: 3, Column: 7}
	for _, tt := range []struct {
		d    diagnostics.Diagnostic
		want string
	}{
		{diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Code: "c.d", Message: "wrong"}, "wrong [c.d]"},
		{diagnostics.Diagnostic{Level: diagnostics.Warn, Code: "c.d", Message: "odd", Position: at}, "a.yaml:3:7: warning: odd [c.d]"},
		{diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Code: "c.d", Message: "wrong", Position: at, Hint: "mend it"}, "a.yaml:3:7: wrong [c.d]\n  hint: mend it"},
	} {
		if got := tt.d.String(); got != tt.want {
			t.Errorf("prints %q, want %q", got, tt.want)
		}
	}
}

func TestDiagnosticJSON(t *testing.T) {
	for _, tt := range []struct {
		d    diagnostics.Diagnostic
		want string
	}{
		{
			diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindAdapter, Code: "c.d", Message: "odd"},
			`{"level":"warn","kind":"adapter","code":"c.d","message":"odd"}`,
		},
		{
			diagnostics.Diagnostic{
				Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: "c.d", Message: "wrong", Hint: "mend it",
				Position: diagnostics.Position{File: "a.yaml", Line: 3, Column: 7}, Step: "a/b", Data: map[string]any{"n": 1},
			},
			`{"level":"error","kind":"recipe","code":"c.d","message":"wrong","hint":"mend it","file":"a.yaml","line":3,"column":7,"step":"a/b","data":{"n":1}}`,
		},
	} {
		got, err := json.Marshal(tt.d)
		if err != nil || string(got) != tt.want {
			t.Errorf("JSON %s, %v, want %s", got, err, tt.want)
		}
	}
}

// finding returns a diagnostic of level error at a line of a.yaml.
func finding(line int, code diagnostics.Code, message string) diagnostics.Diagnostic {
	return diagnostics.Diagnostic{
		Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: code, Message: message,
		Position: diagnostics.Position{File: "a.yaml", Line: line, Column: 1},
	}
}

func TestListSort(t *testing.T) {
	other := finding(1, "a", "x")
	other.Position.File = "b.yaml"
	list := diagnostics.List{
		other,
		finding(10, "a", "x"),
		finding(2, "b", "x"),
		finding(2, "a", "y"),
		finding(2, "a", "x"),
		finding(10, "a", "x"), // again
	}
	list.Sort()
	want := diagnostics.List{
		finding(2, "a", "x"),
		finding(2, "a", "y"),
		finding(2, "b", "x"),
		finding(10, "a", "x"),
		other,
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("sorted (-want +got)\n%s", diff)
	}
	var none diagnostics.List
	none.Sort()
	if none != nil {
		t.Errorf("nil sorted is %v", none)
	}
}

func TestListErr(t *testing.T) {
	warning := finding(1, "w", "odd")
	warning.Level = diagnostics.Warn
	for _, list := range []diagnostics.List{nil, {}, {warning}} {
		if err := list.Err(); err != nil || list.HasErrors() {
			t.Errorf("%v: error %v", list, err)
		}
	}
	list := diagnostics.List{finding(1, "a", "x"), warning, finding(2, "b", "y")}
	err := list.Err()
	if got, want := fmt.Sprint(err), "a.yaml:1:1: x [a]\na.yaml:2:1: y [b]"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	holder, ok := errors.AsType[*diagnostics.Error](fmt.Errorf("parse: %w", err))
	if !ok {
		t.Fatal("the error is no *diagnostics.Error")
	}
	if diff := cmp.Diff(list, holder.List); diff != "" {
		t.Errorf("its list (-want +got)\n%s", diff)
	}
}

func TestModeApply(t *testing.T) {
	for _, tt := range []struct {
		kind   diagnostics.Kind
		raised bool
	}{
		{diagnostics.KindRecipe, true},
		{diagnostics.KindRequirement, true},
		{diagnostics.KindContract, true},
		{diagnostics.KindAdapter, false},
		{diagnostics.KindWorkflow, false},
	} {
		list := diagnostics.List{{Level: diagnostics.Warn, Kind: tt.kind}, {Level: diagnostics.ErrorLevel, Kind: tt.kind}}
		got := diagnostics.Strict.Apply(list)
		if raised := got[0].Level == diagnostics.ErrorLevel; raised != tt.raised {
			t.Errorf("strict: a warning of kind %s raised: %t, want %t", tt.kind, raised, tt.raised)
		}
		if got[1].Level != diagnostics.ErrorLevel || list[0].Level != diagnostics.Warn {
			t.Errorf("strict: %v became %v", list, got)
		}
		if diff := cmp.Diff(list, diagnostics.Default.Apply(list)); diff != "" {
			t.Errorf("default (-want +got)\n%s", diff)
		}
	}
}

func TestSuggest(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, tt := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"needs", []string{"needs"}, "needs"},
		{"NEEDS", []string{"needs"}, "needs"},        // case costs nothing
		{"need", []string{"when", "needs"}, "needs"}, // one insertion
		{"neeeds", []string{"needs"}, "needs"},       // one deletion
		{"neexs", []string{"needs"}, "needs"},        // one replacement
		{"nedes", []string{"needs"}, "needs"},        // one swap of neighbours
		{"if", []string{"of"}, "of"},                 // at least 1 is near, however short
		{"if", []string{"as"}, ""},                   // 2 is not
		{"abcdef", []string{"abcdxy"}, "abcdxy"},     // 2 is a third of 6
		{"abcdef", []string{"abcxyz"}, ""},           // 3 is over a third of 6
		{"abcde", []string{"abcxy"}, ""},             // 2 is over a third of 5
		{"bat", []string{"hat", "cat"}, "cat"},       // a tie goes to the first in order
		{"bat", []string{"cat", "hat"}, "cat"},       // however they are given
		{"model", []string{"mode", "modal", "models"}, "modal"},
		{"modeel", []string{"models", "model"}, "model"},
		{"k", []string{"a"}, ""}, // nothing in common
		{"aa", []string{"a"}, "a"},
		{"", []string{"a"}, ""},
		{"", []string{"ab"}, ""},
		{"a", nil, ""},
		{long, []string{long}, long},
		{long, []string{long + "x"}, ""}, // over 64 bytes only the same is near
	} {
		if got := diagnostics.Suggest(tt.name, tt.candidates); got != tt.want {
			t.Errorf("Suggest(%q, %q) = %q, want %q", tt.name, tt.candidates, got, tt.want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	twelve := strings.Split("a b c d e f g h i j k l", " ")
	reversed := slices.Clone(twelve)
	slices.Reverse(reversed)
	for _, tt := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"need", []string{"when", "needs"}, `did you mean "needs"?`},
		{"zzzz", nil, ""},
		{"zzzz", reversed, "known here: a, b, c, d, e, f, g, h, i, j, k, l"},
		{"zzzz", append(twelve, "m"), ""},
	} {
		if got := diagnostics.DidYouMean(tt.name, tt.candidates); got != tt.want {
			t.Errorf("DidYouMean(%q, %q) = %q, want %q", tt.name, tt.candidates, got, tt.want)
		}
	}
	if reversed[0] != "l" {
		t.Error("the candidates were sorted in place")
	}
}
