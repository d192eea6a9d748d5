package page_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// order has each kind of field.
const order = `apiVersion: braise/v1
name: order
inputs:
  customer: {type: string, description: Who orders, maxLength: 40}
  number: integer
  paid: {type: boolean, default: false}
  speed: {enum: [slow, fast, 3], default: slow}
  weight: {type: number, default: 1.5, exclusiveMinimum: 0}
  letter: {type: string, format: markdown, default: ""}
  due: {type: [string, "null"], format: date, default: "2026-05-06"}
  at: {type: string, format: date-time, default: "2026-01-02T03:04:05Z"}
  lines:
    type: array
    default: []
    items: {type: object, required: [article], properties: {article: {type: string}, count: {type: integer, minimum: 1}}}
  address:
    type: object
    default: {}
    properties: {city: {type: string}, geo: {type: object, required: [lat], properties: {lat: {type: number}, deep: {type: object, properties: {x: {type: integer}}}}}}
  anything: {default: null}
  version: {const: 2, default: 2}
steps: {a: {uses: set, with: {n: "${{ inputs.number }}"}}}
output: ${{ steps.a.output.n }}
`

// api sends a request as olga, and returns the body of the response.
func (s *site) api(method, path, body string) string {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.http.URL+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+olga)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		s.Fatalf("%s %s: %s %v\n%s", method, path, res.Status, err, text)
	}
	return string(text)
}

// fetch reads a resource.
func fetch[T any](s *site, path string) (v T) {
	s.Helper()
	if err := json.Unmarshal([]byte(s.api("GET", path, "")), &v); err != nil {
		s.Fatal(err)
	}
	return v
}

// runs returns the ids of all runs, the newest first.
func (s *site) runs() (ids []string) {
	s.Helper()
	for _, r := range fetch[struct{ Runs []struct{ RunID string } }](s, "runs").Runs {
		ids = append(ids, r.RunID)
	}
	return ids
}

// inputs returns the inputs of the run that the tab shows, as JSON.
func (b *tab) inputs() string {
	b.Helper()
	b.is("/^#.runs.[^/]+/.test(location.hash)", true)
	id := value[string](b, "location.hash.split(/[/?]/)[2]")
	return string(fetch[struct{ Inputs json.RawMessage }](b.site, "runs/"+id).Inputs)
}

// field is the selector of the control of the n-th field with a label.
func (b *tab) field(label string, n int) string {
	b.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll(".form .name")].filter((e) => e.textContent.replace(" *", "").trim() === %q)[%d]`, label, n)
	b.is("!!"+find, true)
	return "#" + value[string](b, "("+find+").htmlFor || ("+find+").id.replace(/-l$/, '')")
}

// put types into the n-th field with a label.
func (b *tab) put(label string, n int, text string) {
	b.Helper()
	b.fill(b.field(label, n), text)
}

// wrong waits until the field that has the focus is said to be wrong.
func (b *tab) wrong(text string) {
	b.Helper()
	b.is(fmt.Sprintf(`document.getElementById(document.activeElement.getAttribute("aria-describedby")?.split(" ")[1])?.innerText.includes(%q) ?? false`, text), true)
}

func TestStart(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"order": order}, idle: true})
	b := s.open(olga, "#/recipes/order")
	b.press("Start")
	b.sees(".starts .trouble", "2 fields need a correction.")
	b.wrong("is required")
	b.put("customer", 0, strings.Repeat("x", 41))
	b.put("number", 0, "seven")
	b.press("Start") // what is no number is not sent
	b.sees(".starts .trouble", "One field needs a correction.")
	b.wrong("is not a number")
	b.put("number", 0, "9007199254740993")
	b.press("Start")
	b.wrong("at most 40")
	b.put("customer", 0, `O'Hara "$HOME" Ω`)
	b.press("Add")
	b.put("article", 0, "pen")
	b.press("Add")
	b.put("article", 1, "ink")
	b.put("count", 1, "0")
	b.press("Add")
	b.press("Remove item 3")
	b.press("Move item 2 up")
	b.is(`document.activeElement.getAttribute("aria-label")`, "Move item 1 up")
	b.press("Fill in")
	b.put("lat", 0, "1.10")
	b.put("x", 0, "-5")
	b.put("anything", 0, `{"a": [1, 1234567890123456789]}`)
	b.press("3")
	b.press("null")
	b.press("Start")
	b.wrong("at least 1")
	b.put("count", 0, "2")
	if ids := s.runs(); ids != nil {
		t.Fatalf("there are runs %v", ids)
	}

	// A reload loses nothing, and the curl command is the same request.
	b.do(chromedp.Reload())
	b.sees(".starts [role=status]", "Draft restored.")
	b.press("Labels, queue, key")
	b.put("labels", 0, "customer=47 11\nregion")
	b.press("Start")
	b.wrong(`"region" is not key=value`)
	b.put("labels", 0, "customer=47 11\nregion=eu")
	b.press("curl")
	b.sees(".curl", "curl -sS")
	command := b.text(".curl")
	b.press("Start")
	inputs := b.inputs()
	want := `{"address":{"geo":{"deep":{"x":-5},"lat":1.1}},"anything":{"a":[1,1234567890123456789]},"at":"2026-01-02T03:04:05Z",` +
		`"customer":"O'Hara \"$HOME\" Ω","due":null,"letter":"","lines":[{"article":"ink","count":2},{"article":"pen"}],` +
		`"number":9007199254740993,"paid":false,"speed":3,"version":2,"weight":1.5}`
	if inputs != want {
		t.Errorf("inputs\n%s, want\n%s", inputs, want)
	}
	out, err := exec.Command("sh", "-c", `curl() { for one; do printf '%s\n' "$one"; done; }; BRAISE_TOKEN=secret`+"\n"+command).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != 12 || lines[3] != s.http.URL+"/api/v1/recipes/order/runs" || lines[5] != "Authorization: Bearer secret" {
		t.Fatalf("the command is\n%s\n%v %d %s", command, err, len(lines), out)
	}
	var body struct {
		Inputs json.RawMessage
		Labels map[string]string
	}
	if err := json.Unmarshal([]byte(lines[11]), &body); err != nil || body.Labels["customer"] != "47 11" || body.Labels["region"] != "eu" ||
		!strings.Contains(string(body.Inputs), "9007199254740993") {
		t.Errorf("%v: the body is %s", err, lines[11])
	}

	// The same once more, with the inputs of that run.
	first := s.runs()[0]
	b.goTo("#/recipes/order?again=" + first)
	b.is(fmt.Sprintf("document.querySelector(%q).value", b.field("number", 0)), "9007199254740993")
	b.press("Start")
	b.is("!location.hash.includes('"+first+"') && location.hash.startsWith('#/runs/')", true)
	if again := b.inputs(); again != inputs {
		t.Errorf("run again with %s", again)
	}
}

// A request that is sent again is one run, and so is a double click; the next start is another one.
func TestStartOnce(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"hello": hello}, idle: true})
	b := s.open(olga, "#/recipes/hello")
	b.put("who", 0, "Ada")
	b.is(`window.real = window.fetch, window.lost = 0, window.fetch = async (to, init) => {
		const answer = await real(to, init);
		if (init?.method === "POST" && String(to).endsWith("/runs") && !lost++) throw new TypeError("lost");
		return answer;
	}, true`, true)
	b.press("Start")
	b.sees(".starts .trouble", "cannot be reached")
	b.do(chromedp.Evaluate[chromedp.Void](`for (const e of [...document.querySelectorAll("button")].filter((e) => e.innerText === "Start")) { e.click(); e.click(); }`))
	if got := b.inputs(); got != `{"who":"Ada"}` {
		t.Errorf("inputs %s", got)
	}
	if ids := s.runs(); len(ids) != 1 {
		t.Errorf("there are runs %v", ids)
	}
	b.goTo("#/recipes/hello")
	b.put("who", 0, "Ada")
	b.press("Start")
	b.inputs()
	if ids := s.runs(); len(ids) != 2 {
		t.Errorf("there are runs %v", ids)
	}
}

const hello = `apiVersion: braise/v1
name: hello
inputs: {who: string}
steps: {a: {uses: set, with: {n: "Hello ${{ inputs.who }}"}}, b: {uses: set, with: {m: "${{ steps.a.output.n }}!"}}}
output: ${{ steps.b.output.m }}
`

// A fork begins at a step, with what was edited of the steps that stand.
func TestFork(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"refund": refund, "hello": hello}, answers: dear})
	id := s.run("refund", map[string]any{"order": 7})
	b := s.open(olga, "#/runs/"+id+"/fork?at=ask")
	b.sees("section[aria-label=Stands]", "draft")
	b.sees("section[aria-label='Runs again'] li", "pay")
	b.press("Edit output of draft")
	b.put("output of draft", 0, `{"text": `)
	b.do(chromedp.Reload()) // the draft and the place stay
	b.sees("[role=status]", "Draft restored.")
	b.press("Fork")
	b.wrong("is not JSON")
	b.put("output of draft", 0, `{"text": "Hi Bob"}`)
	b.press("Fork")
	b.is("location.hash.startsWith('#/runs/') && !location.hash.includes('fork')", true)
	fork := value[string](b, "location.hash.split(/[/?]/)[2]")
	b.is("fetch('api/v1/runs/"+fork+"').then((r) => r.json()).then((v) => window.letter = v.pending[0]?.show.letter), window.letter", "Hi Bob")

	// Other inputs let all steps run again; what the server refuses shows at the inputs.
	b.goTo("#/runs/" + id + "/fork?at=ask")
	b.press("Edit the inputs")
	b.sees("section[aria-label='Runs again'] li", "draft")
	b.put("inputs", 0, `{"order": "7"}`)
	b.press("Fork")
	b.wrong("must be an integer")
	b.put("inputs", 0, `{"order": 8, "note": "x"}`)
	b.press("Fork")
	b.is("location.hash.includes('fork')", false)
	if got := b.inputs(); got != `{"note":"x","order":8}` {
		t.Errorf("inputs %s", got)
	}
	b.goTo("#/runs/" + id + "/fork?at=nothing")
	b.sees(".trouble", "nothing")

	// A step that only computes computes again, so its output cannot be edited.
	b.goTo("#/runs/" + s.run("hello", map[string]any{"who": "Ada"}) + "/fork?at=b")
	b.sees("section[aria-label=Stands] li", "a")
	b.gone("section[aria-label=Stands] li button")
	s.open(rita, "#/runs/"+id+"/fork?at=ask").sees("main", "takes the role operate")
}
