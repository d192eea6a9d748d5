package diagnostics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
)

func ExampleWriteGitHub() {
	list := diagnostics.List{{
		Level:    diagnostics.ErrorLevel,
		Code:     diagnostics.CodeUnknownKey,
		Message:  `unknown key "depends_on"`,
		Hint:     `did you mean "needs"?`,
		Position: diagnostics.Position{File: "recipes/triage.yaml", Line: 4, Column: 5},
	}}
	if err := diagnostics.WriteGitHub(os.Stdout, list); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ::error file=recipes/triage.yaml,line=4,col=5,title=recipe.unknownKey::unknown key "depends_on"%0Ahint: did you mean "needs"?
}

func ExampleWriteSARIF() {
	list := diagnostics.List{{
		Level:    diagnostics.ErrorLevel,
		Code:     diagnostics.CodeUnknownKey,
		Message:  `unknown key "depends_on"`,
		Position: diagnostics.Position{File: "recipes/triage.yaml", Line: 4, Column: 5},
	}}
	if err := diagnostics.WriteSARIF(os.Stdout, list, "braise", "1.0.0"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {
	//   "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
	//   "version": "2.1.0",
	//   "runs": [
	//     {
	//       "tool": {
	//         "driver": {
	//           "name": "braise",
	//           "version": "1.0.0",
	//           "rules": [
	//             {
	//               "id": "recipe.unknownKey",
	//               "shortDescription": {
	//                 "text": "A key that the format does not have."
	//               }
	//             }
	//           ]
	//         }
	//       },
	//       "columnKind": "unicodeCodePoints",
	//       "results": [
	//         {
	//           "ruleId": "recipe.unknownKey",
	//           "ruleIndex": 0,
	//           "level": "error",
	//           "message": {
	//             "text": "unknown key \"depends_on\""
	//           },
	//           "locations": [
	//             {
	//               "physicalLocation": {
	//                 "artifactLocation": {
	//                   "uri": "recipes/triage.yaml"
	//                 },
	//                 "region": {
	//                   "startLine": 4,
	//                   "startColumn": 5
	//                 }
	//               }
	//             }
	//           ]
	//         }
	//       ]
	//     }
	//   ]
	// }
}

func TestWriteGitHub(t *testing.T) {
	for _, tt := range []struct {
		name string
		d    diagnostics.Diagnostic
		want string
	}{
		{"nowhere", diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Code: "a.b", Message: "m"}, "::error title=a.b::m\n"},
		{"file only", diagnostics.Diagnostic{Level: diagnostics.Warn, Code: "a.b", Message: "m",
			Position: diagnostics.Position{File: "r.yaml"}}, "::warning file=r.yaml,title=a.b::m\n"},
		{"line only", diagnostics.Diagnostic{Level: diagnostics.Warn, Code: "a.b", Message: "m",
			Position: diagnostics.Position{File: "r.yaml", Line: 2}}, "::warning file=r.yaml,line=2,title=a.b::m\n"},
		{"syntax in a property", diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Code: "a.b", Message: "m",
			Position: diagnostics.Position{File: "a:b,c%d\r\n.yaml"}}, "::error file=a%3Ab%2Cc%25d%0D%0A.yaml,title=a.b::m\n"},
		{"syntax in a message", diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Code: "a.b", Message: "100%: a, b::c\r\nd", Hint: "50%"},
			"::error title=a.b::100%25: a, b::c%0D%0Ad%0Ahint: 50%25\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := diagnostics.WriteGitHub(&b, diagnostics.List{tt.d}); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// Results keep the list's order and point at sorted rules; what is not known is left out.
func TestWriteSARIF(t *testing.T) {
	list := diagnostics.List{
		{Level: diagnostics.ErrorLevel, Code: diagnostics.CodeCycle, Message: "<c>", Hint: "h", Position: diagnostics.Position{File: "a b%.yaml", Line: 3}},
		{Level: diagnostics.Warn, Code: "acme.own", Message: "m", Position: diagnostics.Position{File: "/tmp/é.yaml"}},
		{Level: diagnostics.ErrorLevel, Code: diagnostics.CodeCycle, Message: "nowhere"},
	}
	var b bytes.Buffer
	if err := diagnostics.WriteSARIF(&b, list, "acme", ""); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "<c>") {
		t.Error("the message is escaped for HTML")
	}
	var got any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	text := func(s string) object { return object{"text": s} }
	at := func(physical object) []any { return []any{object{"physicalLocation": physical}} }
	want := object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{object{
			"tool": object{"driver": object{"name": "acme", "rules": []any{
				object{"id": "acme.own", "shortDescription": text("acme.own")},
				object{"id": "recipe.cycle", "shortDescription": text("Steps wait for each other.")},
			}}},
			"columnKind": "unicodeCodePoints",
			"results": []any{
				object{"ruleId": "recipe.cycle", "ruleIndex": 1., "level": "error", "message": text("<c>\nhint: h"),
					"locations": at(object{"artifactLocation": object{"uri": "a%20b%25.yaml"}, "region": object{"startLine": 3.}})},
				object{"ruleId": "acme.own", "ruleIndex": 0., "level": "warning", "message": text("m"),
					"locations": at(object{"artifactLocation": object{"uri": "file:///tmp/%C3%A9.yaml"}})},
				object{"ruleId": "recipe.cycle", "ruleIndex": 1., "level": "error", "message": text("nowhere")},
			},
		}},
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWriteSARIFOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := diagnostics.WriteSARIF(&b, nil, "braise", "1"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"rules": []`, `"results": []`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %s\nwithout %s", &b, want)
		}
	}
}

// Every code has a description of its own.
func TestRulesAreDescribed(t *testing.T) {
	for _, code := range declaredCodes(t) {
		var b bytes.Buffer
		if err := diagnostics.WriteSARIF(&b, diagnostics.List{{Code: diagnostics.Code(code)}}, "braise", ""); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), `"text": "`+code+`"`) {
			t.Errorf("%s has no description", code)
		}
	}
}
