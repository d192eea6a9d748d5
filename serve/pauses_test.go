package serve_test

import (
	"strings"
	"testing"
)

// A pause is shown by its id; of one that is over, the error says what became of it.
func TestShowPause(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	path := "/api/v1/runs/" + id + "/pauses/ask"
	l.get(answerer, path).is(200).has(map[string]any{"id": "ask", "prompt": "Pay order 7?", "startedBy": "ada"})
	l.get(answerer, path+"ed").fails(404, "pause.unknown", "pauses has all")
	l.get(starter, path).fails(403, "access.role", "")
	l.post(answerer, path+"/answer", `{"decision": "approve"}`).is(202)
	for range 2 { // before a worker has carried it out, and after
		got := l.get(reader, path)
		got.fails(409, "pause.answered", "")
		if !strings.Contains(got.text, `pause \"ask\" was answered by \"anton\" at `) {
			t.Errorf("it does not say who answered: %s", got.text)
		}
		l.work(id)
	}
}

const asking = `apiVersion: braise/v1
name: asking
steps:
  ask:
    uses: human
    with:
      prompt: How many?
      form: {type: object, properties: {lines: {type: array, items: {type: object, required: [n], properties: {n: {type: integer, maximum: 9}}}}}}
  late: {uses: human, with: {prompt: Late?, expires: 1ms, on_expire: reject}}
  nap: {uses: wait, with: {duration: 24h}}
`

// What does not fit is told by its place in the body, of many answers too.
func TestWhereAnswersDoNotFit(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(compile(t, asking), nil)
	path := "/api/v1/runs/" + id + "/pauses/"
	wrong := map[string]any{"error.code": "answer.unfit", "diagnostics.0.data.path": "/form/lines/0/n", "diagnostics.0.message": "must be at most 9",
		"diagnostics.1.data.path": "/form/lines/1/n", "diagnostics.1.message": "is required"}
	l.post(answerer, path+"ask/answer", `{"decision": "approve", "form": {"lines": [{"n": 10}, {}]}}`).is(422).has(wrong)
	token := l.post(operator, path+"ask/tokens", "").json()["token"].(string)
	l.post("", "/api/v1/token/answer", `{"token": "`+token+`", "decision": "approve", "form": {"lines": [{"n": 10}, {}]}}`).is(422).has(wrong)
	many := `{"do": "answer", "decision": "approve", "form": {"lines": 1}, "pauses": [{"runId": "` + id + `", "pause": "ask"}]}`
	l.post(answerer, "/api/v1/bulk", many).is(200).has(map[string]any{"results.0.status": 422.0, "results.0.diagnostics.0.data.path": "/form/lines"})
	many = strings.Replace(strings.Replace(many, `"lines": 1`, "", 1), `"ask"}`, `"ask", "question": "another"}`, 1)
	l.post(answerer, "/api/v1/bulk", many).is(200).has(map[string]any{"results.0.error.code": "resume.questionChanged"})
	l.get(answerer, "/api/v1/pauses?mine=true").has(map[string]any{"pauses.2": nil})
	l.get(answerer, "/api/v1/pauses").has(map[string]any{"pauses.3": nil})
}

// What a run waits for: an event by its name, a time by when it comes.
func TestNowOfWaits(t *testing.T) {
	l := newLab(t, nil)
	const waits = `apiVersion: braise/v1
name: waits
steps: {nap: {uses: wait, with: {WHAT}}}
`
	timed := l.run(compile(t, strings.Replace(waits, "WHAT", `at: "2999-01-31T12:00:00Z"`, 1)), nil)
	event := l.run(compile(t, strings.Replace(waits, "WHAT", "event: payment", 1)), nil)
	l.get(reader, "/api/v1/runs?now=true").is(200).has(map[string]any{
		"runs.0.runId": event, "runs.0.now": map[string]any{"step": "nap", "text": "waits for payment"},
		"runs.1.runId": timed, "runs.1.now": map[string]any{"step": "nap", "until": "2999-01-31T12:00:00Z"},
	})
}

// Who has the link of a pause that has expired is told what happened instead.
func TestExpiredByLink(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(compile(t, strings.Replace(asking, "1ms", "300ms", 1)), nil)
	path := "/api/v1/runs/" + id + "/pauses/late"
	token := l.post(operator, path+"/tokens", "").is(200).json()["token"].(string)
	for {
		l.work(id)
		got := l.post("", "/api/v1/token/look", `{"token": "`+token+`"}`)
		if got.status == 200 || strings.Contains(got.text, "is pending, but") || strings.Contains(got.text, `"pause.expired"`) {
			continue // it has not expired yet, or nobody has noted it
		}
		got.fails(409, "pause.answered", "")
		if !strings.Contains(got.text, "so its on_expire was the answer: reject") {
			t.Errorf("it does not say what happened: %s", got.text)
		}
		break
	}
}

// An empty answer takes the default, and fields take theirs.
func TestAnswersOfAllKinds(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(compile(t, `apiVersion: braise/v1
name: kinds
steps:
  name: {uses: human, with: {prompt: "Who?", answer: {type: string, default: Ada}}}
  size: {uses: human, with: {prompt: "How many?", answer: {type: object, default: {n: 1}, properties: {n: {type: integer}}}}}
  form: {uses: human, with: {prompt: Sure?, answer: {type: object, properties: {n: {default: 2}}}}}
output: ["${{ steps.name.output }}", "${{ steps.size.output }}", "${{ steps.form.output }}"]
`), nil)
	path := "/api/v1/runs/" + id + "/pauses/"
	for pause, body := range map[string]string{"name": `{}`, "size": `{}`, "form": `{}`} {
		l.post(answerer, path+pause+"/answer", body).is(202)
	}
	for range 3 {
		l.work(id)
	}
	l.get(reader, "/api/v1/runs/"+id+"/output").is(200).has(map[string]any{"status": "ok", "output.0": "Ada", "output.1.n": 1.0, "output.2.n": 2.0})
}
