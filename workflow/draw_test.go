package workflow_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// A picture of a plan is data, or SVG.
func ExamplePlan_Draw() {
	r := must(recipe.Parse("recipe.yaml", []byte(`
apiVersion: braise/v1
name: digest
steps:
  fetch: {uses: set, with: 1}
  parse: {uses: set, with: "${{ steps.fetch.output }}"}
  report: {uses: set, needs: [parse], with: 1}
`)))
	plan := must(workflow.Compile(r, nil)).Plan()

	d := plan.Draw(&workflow.DrawOptions{Direction: "LR", Around: "parse", Hops: 1})
	for _, n := range d.Nodes {
		fmt.Println(n.ID, n.X, n.Y, n.Width, n.Height)
	}
	fmt.Println(d.Links[1].From, d.Links[1].Kind, d.Links[1].To, d.Links[1].Points)
	svg := d.SVG() // for a file, or a page
	fmt.Println(len(svg) > 1000)
	// Output:
	// fetch 16 16 88 44
	// parse 144 16 88 44
	// report 272 16 88 44
	// parse order report [[232 38] [272 38]]
	// true
}

// serve 3: the members of a picture as JSON are a contract.
func TestDrawingJSON(t *testing.T) {
	plan := planOf(t, `apiVersion: braise/v1
name: r
steps:
  a: {uses: set, when: "true", with: 1}
  b: {uses: recipe, needs: [a], foreach: {in: [1]}, with: {steps: {c: {uses: set, with: 1}}}}
`)
	text, err := json.Marshal(plan.Draw(&workflow.DrawOptions{Open: []string{}}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"direction":"TB","width":142,"height":160,"nodes":[` +
		`{"id":"a","label":"a","uses":"set","kind":"step","when":true,"x":27,"y":16,"width":88,"height":44},` +
		`{"id":"b","label":"b","uses":"recipe","kind":"body","foreach":true,"folded":true,"children":1,"x":16,"y":100,"width":110,"height":44}],` +
		`"edges":[{"from":"a","to":"b","kind":"order","points":[[71,60],[71,100]]}]}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if text, _ = json.Marshal((&workflow.Plan{}).Draw(nil)); string(text) != `{"direction":"TB","width":32,"height":32,"nodes":[],"edges":[]}` {
		t.Errorf("of an empty plan: %s", text)
	}
}
