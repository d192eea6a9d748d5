package serve_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

func TestRecipes(t *testing.T) {
	broken := diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: "yaml.syntax", Message: "it is broken"}}
	l := newLab(t, func(s *serve.Server) {
		old := s.Recipes()
		old[1].Schedules, old[1].Triggers = []worker.Schedule{{Name: "nightly", Cron: "0 2 * * *"}}, []string{"tickets"}
		s.Recipes = func() []serve.Recipe {
			return append(old, serve.Recipe{Name: "stale", Workflow: old[0].Workflow, Diagnostics: broken},
				serve.Recipe{Name: "wrong", Diagnostics: broken})
		}
	})
	id := l.run(l.refund, map[string]any{"order": 7})
	l.get(reader, "/api/v1/recipes").is(200).has(map[string]any{
		"recipes.0.name": "hello", "recipes.0.valid": true, "recipes.0.digest": l.hello.Recipe().Digest,
		"recipes.2.name": "stale", "recipes.2.valid": false, "recipes.2.diagnostics.0.code": "yaml.syntax",
		"recipes.2.digest": l.hello.Recipe().Digest, "recipes.3.digest": nil, "recipes.4": nil,
		"recipes.0.last": nil, "recipes.1.last.runId": id, "recipes.1.last.phase": "waiting",
		"recipes.1.schedules.0.name": "nightly", "recipes.1.triggers.0": "tickets"})
	l.get(reader, "/api/v1/recipes/refund").is(200).has(map[string]any{
		"source": refund, "inputs.required": []any{"order"}, "inputs.properties.order.type": "integer", "plan.steps.0.id": "ask",
		"schedules.0.name": "nightly", "schedules.0.cron": "0 2 * * *", "schedules.0.zone": "UTC", "triggers": []any{"tickets"}})
	next := at(l.get(reader, "/api/v1/recipes/refund").json(), "schedules.0.next").(string)
	if when, err := time.Parse(time.RFC3339, next); err != nil || !strings.HasSuffix(next, "T02:00:00Z") || time.Until(when) > 24*time.Hour {
		t.Errorf("the next run is at %s", next)
	}
	l.get(narrow, "/api/v1/recipes").is(200).has(map[string]any{"recipes.0.name": "refund", "recipes.1": nil})
	// The last good version of a recipe that broke can be started; one that never compiled cannot.
	l.post(starter, "/api/v1/recipes/stale/runs", `{"inputs": {"who": "Ada"}}`).is(202)
	l.post(starter, "/api/v1/recipes/wrong/runs", `{}`).fails(422, "recipe.invalid", "correct it")
}

func TestPlans(t *testing.T) {
	l := newLab(t, nil)
	digest := l.refund.Recipe().Digest
	path := "/api/v1/plans/" + digest
	res := l.get(reader, path).is(200).has(map[string]any{"recipe": "refund", "digest": digest, "steps.0.id": "ask", "steps.1.needs.0.step": "ask"})
	tag := res.header.Get("ETag")
	if !strings.Contains(res.header.Get("Cache-Control"), "immutable") || tag != `"`+digest+`"` {
		t.Errorf("headers %v", res.header)
	}
	l.send("GET", path, request{token: reader, header: http.Header{"If-None-Match": {tag}}}).is(304)
	l.get(reader, path+"?draw=json&dir=LR").is(200).has(map[string]any{"direction": "LR", "nodes.0.id": "ask", "edges.0.from": "ask"})
	svg := l.get(reader, path+"?draw=svg").is(200)
	if err := xml.Unmarshal([]byte(svg.text), new(struct{})); err != nil || svg.header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("%v, %s", err, svg.header.Get("Content-Type"))
	}
	l.get(reader, path+"?draw=png").fails(400, "request.parameter", "svg")
	l.get(reader, path+"?draw=svg&hops=0").fails(400, "request.parameter", "from 1")

	// A recipe that is not served any more has a plan as long as it has a run.
	l.run(compile(t, "apiVersion: braise/v1\nname: gone\nsteps: {a: {uses: set, with: {x: 1}}}\n"), nil)
	gone := at(l.get(reader, "/api/v1/runs?recipe=gone").json(), "runs.0.digest").(string)
	l.get(reader, "/api/v1/plans/"+gone).is(200).has(map[string]any{"recipe": "gone", "steps.0.id": "a"})
	l.get(narrow, "/api/v1/plans/"+gone).fails(404, "recipe.unknown", "")
}

// What did not change is not sent again.
func TestETag(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	path := "/api/v1/runs/" + id
	res := l.get(reader, path).is(200)
	sum, _, err := l.store.Load(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	tag := res.header.Get("ETag")
	if want := fmt.Sprintf(`"%d.0"`, sum.Seq); tag != want {
		t.Errorf("ETag %s, want %s", tag, want)
	}
	known := request{token: reader, header: http.Header{"If-None-Match": {`"x", W/` + tag}}}
	l.send("GET", path, known).is(304)
	l.post(answerer, path+"/pauses/"+at(res.json(), "pending.0.id").(string)+"/answer", `{"decision": "approve"}`).is(202)
	l.send("GET", path, known).is(200).has(map[string]any{"pending": []any{}})
}

// Large values are left out of what is shown of a run, with their sizes; the step has them.
func TestLargeValues(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.hello, map[string]any{"who": strings.Repeat("a", 300_000)})
	l.get(reader, "/api/v1/runs/"+id).is(200).has(map[string]any{"inputs": nil, "output": nil, "large.inputs": 300_010.0, "large.output": 300_009.0})
	text, _ := at(l.get(reader, "/api/v1/runs/"+id+"/steps/greet").is(200).json(), "output.text").(string)
	if len(text) != 300_007 {
		t.Errorf("the step has %d bytes", len(text))
	}
}

func TestItems(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(compile(t, `apiVersion: braise/v1
name: each
steps:
  all: {uses: set, foreach: {in: "${{ [1, 2, 3] }}"}, with: {n: "${{ item }}"}}
`), nil)
	path := "/api/v1/runs/" + id
	l.get(reader, path).is(200).has(map[string]any{"steps.0.step": "all", "steps.0.items.succeeded": 3.0})
	l.get(reader, path+"/steps/all/items?from=1&limit=1").is(200).has(map[string]any{"items.0.step": "all[1]", "items.1": nil})
	l.get(reader, path+"/steps/all%5B2%5D").is(200).has(map[string]any{"output.n": 3.0})
	l.get(reader, path+"/steps/all/items?status=failed").is(200).has(map[string]any{"items": []any{}})
	l.get(reader, path+"/steps/nope/items").fails(404, "step.unknown", "all")
}

// No response, header, message or log has a secret that a run uses.
func TestCanary(t *testing.T) {
	l := newLab(t, nil)
	l.rt.Secrets = runtime.SecretMap{"CRM": hidden}
	l.rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "crm.look", Effect: runtime.ReadOnly},
		func(_ context.Context, in struct {
			Key string `json:"key"`
		}) (map[string]any, error) {
			return map[string]any{"said": "you sent " + in.Key}, nil
		})}
	id := l.run(compile(t, `apiVersion: braise/v1
name: leaky
steps:
  look: {uses: crm.look, with: {key: "${{ secrets.CRM }}"}}
  ask: {uses: human, with: {prompt: "It said ${{ steps.look.output.said }}", show: "${{ steps.look.output }}", decisions: [approve]}}
output: ${{ steps.look.output }}
`), nil)
	run := "/api/v1/runs/" + id
	l.post(operator, run+"/pauses/"+at(l.get(reader, run).json(), "pending.0.id").(string)+"/tokens", "").is(200)
	l.answer(id)
	for _, row := range serve.Table() {
		if row.Method != "GET" || !served(row) {
			continue
		}
		path := strings.NewReplacer("{id}", id, "{path}", "look", "{name}", "hello", "{digest}", l.hello.Recipe().Digest).Replace(row.Path)
		got := l.get(operator, path)
		if strings.Contains(row.Path, "{id}") && got.status != 200 && row.Name != "showItems" && row.Name != "showPause" { // they have none
			t.Errorf("GET %s: %d", path, got.status)
		}
	}
	v := l.watch(operator, run+"/events", nil)
	for m, more := v.next(); more; m, more = v.next() {
		l.clean("a stream", m.data)
	}
	if got := l.get(reader, run+"/output").text; !strings.Contains(got, "you sent ***") {
		t.Errorf("the output is %s", got)
	}
}

// A signed request begins a run, once.
func TestHooks(t *testing.T) {
	const secret = "hook-0123456789abcdef"
	l := newLab(t, nil)
	start := func(ctx context.Context, inputs map[string]any, o *workflow.EnqueueOptions) (string, error) {
		return l.hello.Enqueue(ctx, inputs, l.rt, o)
	}
	trigger, err := worker.NewTrigger(worker.TriggerConfig{Name: "tickets", Start: start, Queue: "default", Secret: secret,
		Signature: worker.SignedGitHub, Inputs: map[string]any{"who": "${{ body.who }}"}, Key: "${{ headers['x-github-delivery'] }}",
		Positions: map[string]diagnostics.Position{"inputs/who": {File: "/etc/braise/braise.yaml", Line: 3, Column: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	served := labOf(t, l.store, func(s *serve.Server) { s.Triggers = []*worker.Trigger{trigger} })
	body := `{"who": "Ada"}`
	header := http.Header{"X-Github-Delivery": {"d1"}, "X-Hub-Signature-256": {sign(secret, body)}}
	id := served.send("POST", "/api/v1/hooks/tickets", request{body: body, header: header}).is(202).json()["runId"]
	served.send("POST", "/api/v1/hooks/tickets", request{body: body, header: header}).is(202).has(map[string]any{"runId": id})
	l.get(reader, "/api/v1/runs").has(map[string]any{"runs.0.runId": id, "runs.1": nil})
	header["X-Hub-Signature-256"] = []string{sign(secret, `{"whom": "Ada"}`)}
	wrong := served.send("POST", "/api/v1/hooks/tickets", request{body: `{"whom": "Ada"}`, header: header})
	wrong.fails(422, "expr.failed", "lack what the trigger reads")
	if strings.Contains(wrong.text, "etc") || !strings.Contains(served.log.String(), "/etc/braise/braise.yaml:3:4") {
		t.Errorf("the sender sees %s, and the log has %s", wrong.text, served.log)
	}
	header["X-Hub-Signature-256"] = []string{sign("another-0123456789", body)}
	served.send("POST", "/api/v1/hooks/tickets", request{body: body, header: header}).fails(401, "hook.signature", "")
	served.send("POST", "/api/v1/hooks/nope", request{body: body, header: header}).fails(404, "hook.unknown", "")
	l.post("", "/api/v1/hooks/tickets", body).fails(404, "request.path", "")
}

// listener takes what would fail a test.
type listener struct {
	testing.TB
	said []string
}

func (l *listener) Errorf(format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
}

// The check of all responses finds those that are not as described.
func TestResponsesAreChecked(t *testing.T) {
	l := newLab(t, nil)
	good := l.get(reader, "/api/v1/me").is(200)
	for _, tt := range []struct{ name, path, body, want string }{
		{"as it came", "/api/v1/me", good.text, ""},
		{"one member more", "/api/v1/me", `{"x": 1,` + good.text[1:], "not as described"},
		{"one member less", "/api/v1/me", `{"name": "x"}`, "not as described"},
		{"wrong type", "/api/v1/me", `{"name": 1, "groups": [], "roles": []}`, "not as described"},
		{"another route", "/api/v1/you", good.text, "no such route"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", l.http.URL+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		var said listener
		said.TB = t
		checkResponse(&said, r, &http.Response{StatusCode: 200, Header: good.header}, []byte(tt.body))
		if all := strings.Join(said.said, "\n"); tt.want == "" && all != "" || !strings.Contains(all, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, all, tt.want)
		}
	}
	var doc map[string]any
	if err := json.Unmarshal(serve.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, row := range serve.Table() {
		if at(doc["paths"].(map[string]any)[row.Path], strings.ToLower(row.Method)+".operationId") != row.Name {
			t.Errorf("%s %s is not described", row.Method, row.Path)
		}
	}
}
