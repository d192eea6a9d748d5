package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/workflow"
)

// work executes a run until it ends, pauses or is refused, as a worker does.
func (l *lab) work(id string) *workflow.Outcome {
	l.Helper()
	out, _ := workflow.Recover(l.Context(), id, l.rt, nil)
	if e := out.Failure(); e != nil && e.Category != "cancelled" {
		l.Fatal(e)
	}
	return out
}

// start starts a run over HTTP, and returns its id.
func (l *lab) start(token, recipe, body string) string {
	l.Helper()
	res := l.post(token, "/api/v1/recipes/"+recipe+"/runs", body).is(202)
	id, _ := res.json()["runId"].(string)
	res.has(map[string]any{"url": "/api/v1/runs/" + id})
	if at := res.header.Get("Location"); at != "/api/v1/runs/"+id {
		l.Errorf("Location is %q", at)
	}
	return id
}

// A run is started, waits in its queue, asks, is answered and ends: over HTTP, but for the worker.
func testRunOverHTTP(t *testing.T, l *lab) {
	id := l.start(starter, "refund", `{"inputs": {"order": 7}, "labels": {"customer": "4711"}}`)
	l.get(reader, "/api/v1/runs/"+id).is(200).has(map[string]any{"phase": "queued", "queue": "default", "by": "stella",
		"labels": map[string]any{"customer": "4711"}, "inputs": map[string]any{"order": 7.0, "note": "none"}, "pending": []any{},
		"steps.0.step": "ask", "steps.0.status": "pending", "steps.1.step": "pay"})
	l.get(reader, "/api/v1/runs?label=customer%3D4711&queue=default&phase=queued").has(map[string]any{"runs.0.runId": id})
	l.get(reader, "/api/v1/runs?queue=").has(map[string]any{"runs.0": nil})

	l.work(id)
	view := l.get(reader, "/api/v1/runs/"+id).is(200).has(map[string]any{"phase": "waiting", "pauses": 1.0, "pending.0.prompt": "Pay order 7?",
		"steps.0.status": "waiting", "executions.0.by": "ada"})
	pause := at(view.json(), "pending.0.id").(string)
	l.get(reader, "/api/v1/runs/"+id+"/output").is(200).has(map[string]any{"status": "paused", "pauses.0.id": pause, "output": nil})
	path := "/api/v1/runs/" + id + "/pauses/" + pause + "/answer"
	l.post(answerer, path, `{"decision": "maybe"}`).fails(422, "answer.unfit", `"approve" or "reject"`)
	l.post(answerer, path, `{"decision": "approve", "question": "x"}`).fails(409, "resume.questionChanged", "")
	l.post(answerer, path, `{"decision": "approve", "value": 1}`).fails(400, "request.body", "another takes value")
	l.post(answerer, path, `{"decision": "approve"}`).is(202).has(map[string]any{"runId": id})
	l.post(answerer, path, `{"decision": "approve"}`).is(200)
	if got := l.post(answerer, path, `{"decision": "reject"}`); !strings.Contains(got.text, `by \"anton\" at `) {
		t.Errorf("it does not say who answered: %s", got.text)
	} else {
		got.fails(409, "pause.answered", "")
	}
	l.post(operator, path, `{"decision": "approve"}`).fails(409, "pause.answered", "")
	l.get(answerer, "/api/v1/pauses").has(map[string]any{"pauses": []any{}})
	l.get(reader, "/api/v1/runs/"+id).has(map[string]any{"pending": []any{}, "pauses": 0.0})

	l.work(id)
	l.get(reader, "/api/v1/runs/"+id+"/output").is(200).has(map[string]any{"status": "ok", "output": true, "recipe": "refund"})
	l.get(reader, "/api/v1/runs/"+id).has(map[string]any{"phase": "ok", "output": true, "acts.1.by": "anton", "acts.1.decision": "approve"})
	l.get(reader, "/api/v1/runs/"+id+"/steps/pay").is(200).has(map[string]any{"status": "succeeded", "output": map[string]any{"paid": true}})
	l.get(reader, "/api/v1/runs/"+id+"/steps/payed").fails(404, "step.unknown", "pay")
	l.post(answerer, path, `{"decision": "reject"}`).fails(409, "pause.answered", "")
	for _, order := range []string{"cancel", "recover"} {
		l.post(operator, "/api/v1/runs/"+id+"/"+order, "").fails(409, "run.ended", "")
	}
}

// trust 8.8: integers of a body keep their digits, and so do those of a response.
func TestLargeIntegers(t *testing.T) {
	l := newLab(t, nil)
	id := l.start(starter, "refund", `{"inputs": {"order": 12345678901234567890}}`)
	if got := l.get(reader, "/api/v1/runs/"+id).is(200).text; !strings.Contains(got, `"order":12345678901234567890`) {
		t.Errorf("inputs: %s", got)
	}
}

// A body whose values take more memory than a run may is not decoded.
func TestHeavyBody(t *testing.T) {
	l := newLab(t, func(s *serve.Server) { s.MaxBody = 8 << 20 })
	body := `{"inputs": {"order": [` + strings.Repeat("[],", 1<<20) + `1]}}`
	l.post(starter, "/api/v1/recipes/refund/runs", body).fails(413, "request.tooLarge", "send less")
}

// What cannot be started is refused, and nothing is recorded.
func TestBadStarts(t *testing.T) {
	l := newLab(t, func(s *serve.Server) { s.MaxQueued = 2 }) // what is refused takes no place
	post := func(token, recipe, body string) *response {
		return l.post(token, "/api/v1/recipes/"+recipe+"/runs", body)
	}
	post(starter, "refnd", `{}`).fails(404, "recipe.unknown", `"refund"`)
	post(starter, "refund", `{}`).fails(422, "input.invalid", "")
	post(starter, "refund", `{"inputs": {"order": "x"}}`).fails(422, "input.invalid", "")
	post(starter, "refund", `{"inputs": {"odrer": 2}}`).has(map[string]any{"error.code": "input.invalid",
		"diagnostics.0.data.path": "/inputs/odrer", "diagnostics.1.data.path": "/inputs/order",
		"diagnostics.1.message": "is required", "diagnostics.2": nil})
	post(starter, "refund", `{"inputs": {"order": 1}, "inputs": {"order": 2}}`).fails(400, "request.body", "each member once")
	post(starter, "refund", `{"input": {"order": 1}}`).fails(400, "request.body", `"inputs"`)
	post(starter, "refund", `{"inputs": {"order": 1}, "runId": "../x"}`).fails(400, "request.id", "letters")
	post(starter, "refund", `{"inputs": {"order": 1}, "labels": {"": "x"}}`).fails(422, "run.invalid", "16 labels")
	post(narrow, "hello", `{"inputs": {"who": "Ada"}}`).fails(404, "recipe.unknown", "refund")
	l.send("POST", "/api/v1/recipes/hello/runs", request{token: starter, body: `{"inputs": {"who": "Ada"}}`,
		header: http.Header{"Prefer": {"wait=61"}}}).fails(400, "request.parameter", "from 0 to 60")
	l.get(reader, "/api/v1/runs").has(map[string]any{"runs": []any{}})

	post(starter, "hello", `{"inputs": {"who": "Ada"}, "runId": "mine"}`).is(202)
	post(starter, "hello", `{"inputs": {"who": "Ada"}, "runId": "mine"}`).fails(409, "run.exists", "")
	full := newLab(t, func(s *serve.Server) { s.MaxQueued = 1 })
	full.start(starter, "hello", `{"inputs": {"who": "Ada"}}`)
	got := full.post(starter, "/api/v1/recipes/hello/runs", `{"inputs": {"who": "Ada"}}`)
	got.fails(429, "queue.full", "later")
	if got.header.Get("Retry-After") != "5" {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
}

// serve 5: one key is one run, on any server; other inputs are refused.
func testIdempotencyKey(t *testing.T, l *lab) {
	other := labOf(t, l.store, nil)
	with := func(l *lab, token, key, body string) *response {
		return l.send("POST", "/api/v1/recipes/refund/runs", request{token: token, body: body, header: http.Header{"Idempotency-Key": {key}}})
	}
	first := with(l, starter, "a", `{"inputs": {"order": 7}}`).is(202).json()["runId"]
	with(other, starter, "a", `{"inputs": {"order": 7}}`).is(200).has(map[string]any{"runId": first})
	with(l, starter, "a", `{"inputs": {"order": 7, "note": "none"}}`).is(200).has(map[string]any{"runId": first})
	with(l, starter, "a", `{"inputs": {"order": 8}}`).fails(409, "run.exists", "another key")
	with(l, starter, "a", `{"inputs": {"order": 7, "note": "x"}}`).fails(409, "run.exists", "another key")
	with(l, starter, "", `{"inputs": {"order": 7}}`).fails(400, "request.parameter", "1 to 256")
	with(l, starter, strings.Repeat("k", 257), `{"inputs": {"order": 7}}`).fails(400, "request.parameter", "1 to 256")
	with(l, starter, "a", `{"inputs": {"order": 7}, "runId": "x"}`).fails(400, "request.body", "leave one")
	if second := with(l, starter, "b", `{"inputs": {"order": 7}}`).is(202).json()["runId"]; second == first {
		t.Error("two keys are one run")
	}
	if second := with(l, operator, "a", `{"inputs": {"order": 7}}`).is(202).json()["runId"]; second == first {
		t.Error("the key of another caller is the same run")
	}
}

// serve 12: of many answers at once to two servers one counts, and the others learn whose.
func testAnswersAtOnce(t *testing.T, l *lab) {
	other := labOf(t, l.store, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	pause := at(l.get(reader, "/api/v1/runs/"+id).json(), "pending.0.id").(string)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for i := range 30 {
		wg.Go(func() {
			to, body := l, fmt.Sprintf(`{"decision": "approve", "form": {"n": %d}}`, i)
			if i%2 == 1 {
				to = other
			}
			res := to.post(answerer, "/api/v1/runs/"+id+"/pauses/"+pause+"/answer", body)
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint(res.status, " ", strings.Contains(res.text, `answered by \"anton\" at `))]++
		})
	}
	wg.Wait()
	if len(got) != 2 || got["202 false"] != 1 || got["409 true"] != 29 {
		t.Errorf("got %v, want 1 of 202 and 29 of 409 that say who", got)
	}
}

// serve 3: who may not answer is refused; so is the starter under four eyes, and everybody on a pause that is not there.
func TestWhoMayAnswer(t *testing.T) {
	const text = `apiVersion: braise/v1
name: refund
steps:
  ask: {uses: human, with: {prompt: "Go?", decisions: [approve], to: [support], four_eyes: true}}
`
	l := newLab(t, func(s *serve.Server) {
		s.Access.Tokens = append(s.Access.Tokens,
			serve.Token{Name: "sue", Secret: "support-0123456789", Roles: []serve.Role{serve.Answer}, Groups: []string{"support"}},
			serve.Token{Name: "ada", Secret: "adas-0123456789ab", Roles: []serve.Role{serve.Answer}, Groups: []string{"support"}})
	})
	id := l.run(compile(t, text), nil) // by ada
	pause := at(l.get(reader, "/api/v1/runs/"+id).has(map[string]any{"pending.0.to": []any{"support"}, "pending.0.fourEyes": true}).json(), "pending.0.id").(string)
	path := "/api/v1/runs/" + id + "/pauses/" + pause + "/answer"
	l.post(answerer, path, `{}`).fails(403, "answer.notAllowed", `"support" may answer`)
	l.post("adas-0123456789ab", path, `{}`).fails(403, "answer.notAllowed", "four_eyes")
	l.get(answerer, "/api/v1/pauses?mine=true").has(map[string]any{"pauses": []any{}})
	l.get("support-0123456789", "/api/v1/pauses?mine=true").has(map[string]any{"pauses.0.id": pause})
	l.post("support-0123456789", strings.Replace(path, pause, "nope", 1), `{}`).fails(404, "pause.unknown", "pauses has all")
	l.post("support-0123456789", path, `{}`).is(202)
}

// A token answers as its bearer, once; no other response has it.
func testTokens(t *testing.T, l *lab) {
	id := l.run(l.refund, map[string]any{"order": 7})
	pause := at(l.get(reader, "/api/v1/runs/"+id).json(), "pending.0.id").(string)
	path := "/api/v1/runs/" + id + "/pauses/"
	l.post(operator, path+"nope/tokens", "").fails(404, "pause.unknown", "pauses has all")
	res := l.post(operator, path+pause+"/tokens", "").is(200)
	token := res.json()["token"].(string)
	res.has(map[string]any{"url": l.http.URL + "/#answer=" + token})
	l.post("", "/api/v1/token/look", `{"token": "`+token+`"}`).is(200).has(map[string]any{"runId": id, "id": pause, "prompt": "Pay order 7?"})
	l.post("", "/api/v1/token/answer", `{"token": "`+token+`", "decision": "maybe"}`).fails(422, "answer.unfit", "approve")
	l.post("", "/api/v1/token/answer", `{"token": "`+token+`", "decision": "approve"}`).is(202).has(map[string]any{"runId": id})
	l.post("", "/api/v1/token/answer", `{"token": "`+token+`", "decision": "reject"}`).fails(409, "pause.answered", "")
	l.work(id)
	if got := l.post("", "/api/v1/token/look", `{"token": "`+token+`"}`); !strings.Contains(got.text, "was answered at ") {
		t.Errorf("it does not say when it was answered: %s", got.text)
	}
	for _, path := range []string{"/runs", "/runs/" + id, "/runs/" + id + "/journal", "/runs/" + id + "/events", "/runs/" + id + "/output",
		"/runs/" + id + "/steps/ask", "/pauses", "/me"} {
		if got := l.get(operator, "/api/v1"+path).is(200); strings.Contains(got.text, token[len(id):]) {
			t.Errorf("GET %s has the token: %s", path, got.text)
		}
	}
	l.post("", "/api/v1/token/look", `{"token": "x"}`).fails(409, "resume.invalidToken", "")
}

func testOrders(t *testing.T, l *lab) {
	id := l.run(l.refund, map[string]any{"order": 7})
	path := "/api/v1/runs/" + id
	l.post(operator, path+"/channels/nope", `{"value": 1}`).fails(422, "channel.unknown", "")
	l.post(operator, path+"/channels/nope", `{}`).fails(400, "request.body", "")
	l.post(operator, path+"/tell", `{"text": "hurry"}`).fails(422, "signal.invalid", "")
	l.post(operator, path+"/recover", "").is(202)
	l.post(operator, path+"/cancel", `{"reason": "no more"}`).is(202)
	l.work(id)
	l.get(reader, path).is(200).has(map[string]any{"phase": "cancelled", "acts.1.what": "cancel", "acts.1.by": "olga", "acts.1.reason": "no more",
		"error": map[string]any{"category": "cancelled", "code": "run.cancelled", "message": "the run was cancelled for good: no more"}})
	l.get(reader, path+"/output").is(200).has(map[string]any{"status": "cancelled", "error.category": "cancelled", "error.code": "run.cancelled"})
	l.get(reader, "/api/v1/runs?phase=cancelled").is(200).has(map[string]any{"runs.0.runId": id, "runs.0.error": nil})
	l.send("DELETE", path, request{token: operator}).is(204)
	l.get(reader, path).fails(404, "run.notFound", "")

	l.run(l.hello, map[string]any{"who": "Ada"})
	l.post(operator, "/api/v1/prune", `{"before": "2020-01-01T00:00:00Z"}`).is(200).has(map[string]any{"deleted": 0.0})
	l.post(operator, "/api/v1/prune", `{"before": "2099-01-01T00:00:00Z", "phases": ["running"]}`).fails(400, "request.body", "cancelled")
	l.post(operator, "/api/v1/prune", `{"before": "2099-01-01T00:00:00Z", "phases": ["ok"]}`).is(200).has(map[string]any{"deleted": 1.0})
	l.post(operator, "/api/v1/prune", `{}`).fails(400, "request.body", "")
}

// serve 14.2: what got 202 and came too late is in the acts of the run, with who asked and why nothing came of it.
func TestDroppedAnswer(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	path := "/api/v1/runs/" + id
	pause := at(l.get(reader, path).json(), "pending.0.id").(string)
	l.post(operator, path+"/cancel", "").is(202)
	l.post(answerer, path+"/pauses/"+pause+"/answer", `{"decision": "approve"}`).is(202)
	l.work(id)
	l.get(reader, path).is(200).has(map[string]any{"phase": "cancelled", "acts.1.what": "cancel", "acts.1.by": "olga", "acts.2.what": "drop",
		"acts.2.by": "anton", "acts.2.reason": `pause "` + pause + `" no longer needs an answer: the run was cancelled`})
	l.get(reader, "/api/v1/runs?signalled=true").is(200).has(map[string]any{"runs": []any{}})
}

func testFork(t *testing.T, l *lab) {
	id := l.run(l.refund, map[string]any{"order": 7})
	l.answer(id)
	path := "/api/v1/runs/" + id + "/fork"
	l.post(operator, path, `{"at": "pay", "dry": true}`).is(200).has(map[string]any{"stands": []any{"ask"}, "again": []any{"pay"}})
	l.post(operator, path, `{"at": "ask", "dry": true}`).is(200).has(map[string]any{"stands": []any{}, "again": []any{"ask", "pay"}})
	l.post(operator, path, `{"at": "pya", "dry": true}`).fails(422, "fork.unknownStep", `"pay"`)
	l.post(operator, path, `{"at": "pya"}`).fails(422, "fork.unknownStep", "")
	l.get(reader, "/api/v1/runs?parent="+id).has(map[string]any{"runs": []any{}})
	forked := l.post(operator, path, `{"at": "pay"}`).is(202).json()["runId"].(string)
	l.get(reader, "/api/v1/runs/"+forked).has(map[string]any{"phase": "queued", "parent": id, "by": "olga", "queue": "default"})
	l.work(forked)
	l.get(reader, "/api/v1/runs/"+forked+"/output").has(map[string]any{"status": "ok", "output": true})
}

// An output that the fork would ignore, or could not use, is refused, dry or not, and nothing is recorded.
func TestForkOutputs(t *testing.T) {
	l := newLab(t, nil)
	wf := compile(t, `apiVersion: braise/v1
name: refund
inputs: {order: integer}
steps:
  ask:
    uses: human
    with: {prompt: "Pay?", decisions: [approve, reject], form: {type: object, properties: {n: {type: integer}}, required: [n]}}
  sure: {uses: human, needs: [ask], with: {prompt: "Sure?", decisions: [sure], form: {type: object, properties: {w: {type: string}}, required: [w]}}}
  more: {uses: human, needs: [sure], with: {prompt: "More?", decisions: [yes, no]}}
output: "${{ steps.ask.output.form.n }}"
`)
	id := l.run(wf, map[string]any{"order": 7})
	path := "/api/v1/runs/" + id
	l.post(answerer, path+"/pauses/ask/answer", `{"decision": "approve", "form": {"n": 1}}`).is(202)
	l.work(id)
	l.post(answerer, path+"/pauses/sure/answer", `{"decision": "sure", "form": {"w": "very"}}`).is(202)
	l.work(id)
	for _, dry := range []string{`, "dry": true}`, `}`} {
		for _, tt := range []struct{ body, code, hint, at string }{
			{`{"at": "more", "outputs": {"ask": 5}`, "answer.unfit", `"approve" or "reject"`, ""},
			{`{"at": "more", "outputs": {"ask": {"decision": "zzz"}}`, "answer.unfit", `"approve" or "reject"`, ""},
			{`{"at": "more", "outputs": {"ask": {"decision": "reject"}}`, "", "", ""},
			{`{"at": "more", "outputs": {"ask": {"decision": "approve", "form": {"n": "x"}}}`, "answer.unfit", "", "/outputs/ask/form/n"},
			{`{"at": "more", "outputs": {"sure": 5}`, "answer.unfit", `"sure"`, ""},
			{`{"at": "ask", "outputs": {"sure": {"decision": "sure", "form": {"w": "yes"}}}`, "fork.computed", "leave the output out", ""},
			{`{"at": "more", "outputs": {"more": {"decision": "yes"}}`, "fork.computed", "leave the output out", ""},
			{`{"at": "more", "inputs": {"order": 8}, "outputs": {"sure": {"decision": "sure", "form": {"w": "yes"}}}`, "fork.computed", "leave inputs or outputs out", ""},
		} {
			got := l.post(operator, path+"/fork", tt.body+dry)
			if tt.code == "" { // a rejection has no form
				if got.status != 200 && got.status != 202 {
					t.Errorf("%s: %d %s", tt.body+dry, got.status, got.text)
				}
				continue
			}
			got.fails(422, tt.code, tt.hint)
			if where := at(got.json(), "diagnostics.0.data.path"); tt.at != "" && where != tt.at {
				t.Errorf("%s: at %v, want %s", tt.body, where, tt.at)
			}
		}
	}
	l.post(operator, path+"/fork", `{"at": "more", "outputs": {"ask": null, "sure": null}, "dry": true}`).is(200).has(map[string]any{"again": []any{"more"}})
	l.post(operator, path+"/fork", `{"at": "ask", "inputs": {}, "dry": true}`).is(200)
	l.post(operator, path+"/fork", `{"at": "more", "inputs": {"order": "x"}, "dry": true}`).fails(422, "input.invalid", "")
	l.get(reader, "/api/v1/runs?parent="+id).has(map[string]any{"runs.1": nil}) // the one with a rejection
}

// serve 5: one key is one fork, on any server; other edits are refused.
func testForkKey(t *testing.T, l *lab) {
	other := labOf(t, l.store, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	l.answer(id)
	with := func(l *lab, token, key, body string) *response {
		return l.send("POST", "/api/v1/runs/"+id+"/fork", request{token: token, body: body, header: http.Header{"Idempotency-Key": {key}}})
	}
	first := with(l, operator, "a", `{"at": "pay"}`).is(202).json()["runId"]
	with(other, operator, "a", `{"at": "pay", "outputs": {"ask": {"decision": "reject"}}}`).fails(409, "run.exists", "another key")
	with(other, operator, "a", `{"at": "pay", "outputs": {}}`).is(200).has(map[string]any{"runId": first})
	with(other, operator, "a", `{"at": "pay"}`).is(200).has(map[string]any{"runId": first})
	with(l, operator, "a", `{"at": "ask"}`).fails(409, "run.exists", "another key")
	with(l, operator, "a", `{"at": "pay", "runId": "x"}`).fails(400, "request.body", "leave one")
	with(l, operator, "", `{"at": "pay"}`).fails(400, "request.parameter", "1 to 256")
	if second := with(l, operator, "b", `{"at": "pay"}`).is(202).json()["runId"]; second == first {
		t.Error("two keys are one run")
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			to := []*lab{l, other}[i%2]
			if got := with(to, operator, "c", `{"at": "pay"}`); got.status != 200 && got.status != 202 {
				t.Errorf("%d %s", got.status, got.text)
			}
		})
	}
	wg.Wait()
	l.get(reader, "/api/v1/runs?parent="+id).has(map[string]any{"runs.2.parent": id, "runs.3": nil})
	l.send("POST", "/api/v1/runs/"+id+"/fork", request{token: operator, header: http.Header{"Prefer": {"wait=1"}}, body: `{"at": "ask"}`}).is(202)
	l.send("POST", "/api/v1/runs/"+id+"/recover", request{token: operator, header: http.Header{"Idempotency-Key": {"a"}}}).
		fails(400, "request.parameter", "starts and forks")
}

func TestBulk(t *testing.T) {
	l := newLab(t, nil)
	var ids, pauses []string
	for i := range 3 {
		id := l.run(l.refund, map[string]any{"order": i})
		ids = append(ids, id)
		pauses = append(pauses, at(l.get(reader, "/api/v1/runs/"+id).json(), "pending.0.id").(string))
	}
	body := fmt.Sprintf(`{"do": "answer", "decision": "reject", "pauses": [{"runId": %q, "pause": %q}, {"runId": "nope", "pause": "x"}]}`, ids[0], pauses[0])
	l.post(answerer, "/api/v1/bulk", body).is(200).has(map[string]any{"results.0.status": 202.0, "results.0.runId": ids[0],
		"results.1.status": 404.0, "results.1.error.code": "run.notFound"})
	l.post(answerer, "/api/v1/bulk", `{"do": "cancel", "runs": []}`).fails(403, "access.role", "operate")
	for body, hint := range map[string]string{
		`{"do": "cancel"}`:                                    "one of them",
		`{"do": "cancel", "runs": [], "filter": {}}`:          "one of them",
		`{"do": "answer", "decision": "reject"}`:              "in pauses",
		`{"do": "answer", "pauses": [], "reason": "late"}`:    "answer takes pauses, decision",
		`{"do": "answer", "pauses": [], "runs": []}`:          "answer takes pauses, decision",
		`{"do": "cancel", "pauses": []}`:                      "cancel takes runs, filter",
		`{"do": "recover", "runs": [], "decision": "reject"}`: "recover takes runs, filter",
		`{"do": "recover", "runs": [], "reason": "late"}`:     "recover takes runs, filter",
		`{"do": "recover", "runs": [], "value": null}`:        "recover takes runs, filter",
	} {
		l.post(operator, "/api/v1/bulk", body).fails(400, "request.body", hint)
	}
	l.post(operator, "/api/v1/bulk", `{"do": "destroy"}`).fails(400, "request.body", "")
	l.post(operator, "/api/v1/bulk", `{"do": "cancel", "filter": {"phases": ["waitin"]}}`).fails(400, "request.body", `"waiting"`)
	l.post(operator, "/api/v1/bulk", `{"do": "cancel", "filter": {"phases": ["waiting"], "recipe": "refund"}}`).is(200).
		has(map[string]any{"results.0.status": 202.0, "results.2.status": 202.0, "results.3": nil, "more": false})
	l.work(ids[1])
	l.get(reader, "/api/v1/runs/"+ids[1]).has(map[string]any{"phase": "cancelled"})
}

// A filter without phases is about runs that have not ended, however many of them have; who sees runs of one recipe only
// changes no others.
func TestBulkFilter(t *testing.T) {
	l := newLab(t, func(s *serve.Server) {
		s.Access.Tokens = append(s.Access.Tokens, serve.Token{Name: "oda", Secret: "odas-0123456789abcd", Roles: []serve.Role{serve.Operate}, Recipes: []string{"refund"}})
	})
	queue := func(wf *workflow.Workflow, n int, input map[string]any) (ids []string) {
		for range n {
			id, err := wf.Enqueue(t.Context(), input, l.rt, &workflow.EnqueueOptions{Queue: "q", Labels: map[string]string{"c": "1"}})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		return ids
	}
	first := queue(l.refund, 1, map[string]any{"order": 1})[0]
	l.work(first)
	for _, id := range queue(l.hello, 3, map[string]any{"who": "Ada"}) {
		l.work(id)
	}
	const all = `{"do": "cancel", "filter": {"labels": {"c": "1"}}}`
	l.post(operator, "/api/v1/bulk", all).is(200).has(map[string]any{"more": false,
		"results": []any{map[string]any{"runId": first, "status": 202.0}}})
	l.work(first)
	second := queue(l.refund, 1, map[string]any{"order": 2})[0]
	queue(l.hello, 1001, map[string]any{"who": "Ada"})
	l.post("odas-0123456789abcd", "/api/v1/bulk", all).is(200).has(map[string]any{"more": false,
		"results": []any{map[string]any{"runId": second, "status": 202.0}}})
	l.post(operator, "/api/v1/bulk", all).is(200).has(map[string]any{"more": true, "results.999.status": 202.0, "results.1000": nil})
}

// A request may wait for the run, and then has its outcome.
func testPreferWait(t *testing.T, l *lab) {
	wait := http.Header{"Prefer": {"respond-async, wait=60"}}
	done := make(chan *response)
	go func() {
		done <- l.send("POST", "/api/v1/recipes/refund/runs", request{token: starter, header: wait, body: `{"inputs": {"order": 7}, "runId": "r1"}`})
	}()
	l.await("r1")
	l.work("r1")
	res := (<-done).is(200).has(map[string]any{"status": "paused", "runId": "r1", "pauses.0.prompt": "Pay order 7?", "pauses.0.token": nil})
	if got := res.header.Get("Preference-Applied"); got != "wait=60" {
		t.Errorf("Preference-Applied is %q", got)
	}
	pause := at(res.json(), "pauses.0.id").(string)
	go func() {
		done <- l.send("POST", "/api/v1/runs/r1/pauses/"+pause+"/answer", request{token: answerer, header: wait, body: `{"decision": "approve"}`})
	}()
	l.awaitSignal("r1")
	l.work("r1")
	(<-done).is(200).has(map[string]any{"status": "ok", "output": true})
	l.send("POST", "/api/v1/recipes/refund/runs", request{token: starter, header: http.Header{"Prefer": {"wait=1"}},
		body: `{"inputs": {"order": 7}, "runId": "r2"}`}).is(202).has(map[string]any{"runId": "r2"})
}

// serve 4: a server that drains lets no request wait: who started a run learns its id at once.
func TestPreferWaitWhileDraining(t *testing.T) {
	drain := make(chan struct{})
	l := newLab(t, func(s *serve.Server) { s.Drain = drain })
	start := func(id string) *response {
		return l.send("POST", "/api/v1/recipes/hello/runs", request{token: starter, header: http.Header{"Prefer": {"wait=60"}},
			body: `{"inputs": {"who": "Ada"}, "runId": "` + id + `"}`})
	}
	done := make(chan *response)
	go func() { done <- start("r1") }()
	l.await("r1")
	began := time.Now()
	close(drain)
	(<-done).is(202).has(map[string]any{"runId": "r1"})
	start("r2").is(202).has(map[string]any{"runId": "r2"})
	if took := time.Since(began); took >= time.Minute { // for so long each would wait
		t.Errorf("it took %v", took)
	}
}

// serve 11: a pause that has expired, or was closed, takes no answer.
func TestLateAnswers(t *testing.T) {
	l := newLab(t, nil)
	tokens := make(chan string, 1)
	l.rt.OnPause = func(p resume.Pause) { tokens <- p.Token }
	id := l.run(compile(t, `apiVersion: braise/v1
name: refund
steps:
  ask: {uses: human, with: {prompt: "Go?", decisions: [approve, reject], expires: 1ms, on_expire: reject}}
`), nil)
	pause := at(l.get(reader, "/api/v1/runs/"+id).json(), "pending.0.id").(string)
	<-time.After(2 * time.Millisecond)
	path := "/api/v1/runs/" + id + "/pauses/" + pause
	bearer := `{"token": "` + <-tokens + `"}`
	l.post("", "/api/v1/token/look", bearer).fails(409, "pause.expired", "on_expire")
	l.post(answerer, path+"/answer", `{"decision": "approve"}`).fails(409, "pause.expired", "on_expire")
	l.work(id)
	l.agree(path, bearer, "its on_expire was the answer: reject")
}

// agree asks on all ways for a pause that is not pending, and fails unless all say the same.
func (l *lab) agree(path, bearer, said string) {
	l.Helper()
	ways := map[string]*response{"show": l.get(operator, path), "answer": l.post(operator, path+"/answer", `{"decision": "approve"}`),
		"mint": l.post(operator, path+"/tokens", ""), "look": l.post("", "/api/v1/token/look", bearer),
		"answer by token": l.post("", "/api/v1/token/answer", bearer)}
	for way, got := range ways {
		got.fails(409, "pause.answered", "nothing left")
		if got.text != ways["show"].text || !strings.Contains(got.text, said) || !strings.Contains(got.text, `"category":"infra"`) {
			l.Errorf("%s: %s, want what show says, %s, and %q in it", way, got.text, ways["show"].text, said)
		}
	}
}

// However a pause was asked for, and however it ended, the error is the same.
func TestPausesThatAreOver(t *testing.T) {
	l := newLab(t, nil)
	pending := func() (id, path, bearer string) {
		id = l.run(l.refund, map[string]any{"order": 7})
		path = "/api/v1/runs/" + id + "/pauses/ask"
		return id, path, `{"token": "` + l.post(operator, path+"/tokens", "").is(200).json()["token"].(string) + `"}`
	}
	id, path, bearer := pending()
	l.post(answerer, path+"/answer", `{"decision": "reject"}`).is(202)
	l.agree(path, bearer, `was answered by \"anton\" at `)
	l.work(id)
	l.agree(path, bearer, `was answered by \"anton\" at `)
	for _, way := range []*response{l.get(operator, path+"x"), l.post(operator, path+"x/answer", `{}`), l.post(operator, path+"x/tokens", "")} {
		way.fails(404, "pause.unknown", "pauses has all")
	}
	id, path, bearer = pending()
	l.post(operator, "/api/v1/runs/"+id+"/cancel", "").is(202)
	l.work(id)
	l.agree(path, bearer, "was closed at ")
}

// serve 11: what models and people write comes as they wrote it, as JSON that no browser takes for a page.
func TestHostileText(t *testing.T) {
	l := newLab(t, nil)
	hostile := "<script>alert(1)</script> [x](javascript:alert(1)) \x1b[31m \u202e \u2028 \x00"
	wf := compile(t, `apiVersion: braise/v1
name: hello
inputs: {who: string}
steps:
  constructor: {uses: set, with: {__proto__: "${{ inputs.who }}"}}
output: ${{ steps.constructor.output }}
`)
	id := l.run(wf, map[string]any{"who": hostile})
	for path, member := range map[string]string{"": "output.__proto__", "/output": "output.__proto__", "/steps/constructor": "output.__proto__"} {
		got := l.get(reader, "/api/v1/runs/"+id+path).is(200).has(map[string]any{member: hostile})
		if kind := got.header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s is %s", path, kind)
		}
	}
	lone := l.run(l.hello, map[string]any{"who": "\xed\xa0\x80"}) // half of a pair of surrogates
	l.get(reader, "/api/v1/runs/"+lone+"/output").is(200).has(map[string]any{"output": "Hello, \ufffd\ufffd\ufffd"})
	l.post(starter, "/api/v1/recipes/hello/runs", `{"inputs": {"who": "\ud800"}}`).is(202)
}

// What a process holds can be asked for, and not be deleted.
func TestHeldRun(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	path := "/api/v1/runs/" + id
	pause := at(l.get(reader, path).json(), "pending.0.id").(string)
	lease, err := l.store.Claim(t.Context(), id, checkpoint.NewOwner(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	l.send("DELETE", path, request{token: operator}).fails(409, "run.busy", "")
	l.post(operator, path+"/pauses/"+pause+"/tokens", "").fails(409, "run.busy", "")
	l.post(answerer, path+"/pauses/"+pause+"/answer", `{"decision": "approve"}`).is(202)
	l.post(operator, path+"/cancel", "").is(202)
	if err := l.store.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	l.send("DELETE", path, request{token: operator}).is(204)
}

func TestTooMuchAtOnce(t *testing.T) {
	l := newLab(t, nil)
	many := strings.Repeat(`"x",`, 1000) + `"x"`
	l.post(operator, "/api/v1/bulk", `{"do": "cancel", "runs": [`+many+`]}`).fails(400, "request.body", "")
	l.post(operator, "/api/v1/bulk", `{"do": "cancel", "runs": ["../x"]}`).is(200).
		has(map[string]any{"results.0.status": 400.0, "results.0.error.code": "request.id"})
}
