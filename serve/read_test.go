package serve_test

import (
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

func testListRuns(t *testing.T, l *lab) {
	asked := l.run(l.refund, map[string]any{"order": 7})
	greeted := l.run(l.hello, map[string]any{"who": "Ada"})
	l.get(reader, "/api/v1/runs").is(200).has(map[string]any{
		"runs.0.runId": greeted, "runs.0.phase": "ok", "runs.0.by": "ada",
		"runs.1.runId": asked, "runs.1.phase": "waiting", "runs.1.pauses": 1.0, "runs.2": nil,
		"counts.ok": 1.0, "counts.waiting": 1.0, "counts.queued": 0.0, "next": nil,
	})
	l.get(reader, "/api/v1/runs?phase=waiting&phase=queued").has(map[string]any{"runs.0.runId": asked, "runs.1": nil})
	l.get(reader, "/api/v1/runs?recipe=hello").has(map[string]any{"runs.0.runId": greeted, "runs.1": nil, "counts.waiting": 0.0})

	l.get(reader, "/api/v1/runs?now=true").is(200).has(map[string]any{
		"runs.0.now": nil, "runs.1.now": map[string]any{"step": "ask", "text": "Pay order 7?"}})
	lease, err := l.store.Create(t.Context(), checkpoint.Run{ID: "busy", Recipe: "hello", Digest: "d", StartedAt: time.Now().Add(-time.Hour)},
		"test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for i, rec := range []checkpoint.Record{
		{At: time.Now(), Kind: "call.open", Path: "draft", Data: []byte(`{"kind":"model","name":"fast"}`)},
		{At: time.Now(), Kind: "call.told", Data: []byte(`{"events":[]}`)},
	} {
		if err := l.store.Append(t.Context(), lease, int64(i+1), rec); err != nil {
			t.Fatal(err)
		}
	}
	l.get(reader, "/api/v1/runs?now=true&q=busy").is(200).has(map[string]any{
		"runs.0.now": map[string]any{"step": "draft", "text": "model fast"}})
	if err := l.store.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := l.store.Delete(t.Context(), "busy"); err != nil {
		t.Fatal(err)
	}

	first := l.get(reader, "/api/v1/runs?limit=1").is(200)
	next, _ := first.json()["next"].(string)
	second := l.get(reader, "/api/v1/runs?limit=1&after="+next).is(200)
	second.has(map[string]any{"runs.0.runId": asked, "runs.1": nil, "next": nil, "counts": nil})
	l.get(reader, "/api/v1/runs?recipe=hello&after="+next).fails(400, "request.cursor", "of the page before")

	l.get(narrow, "/api/v1/runs").is(200).has(map[string]any{"runs.0.runId": asked, "runs.1": nil, "counts.ok": 0.0})
	l.get(narrow, "/api/v1/runs?recipe=hello").fails(403, "access.recipe", "refund")
	l.get(narrow, "/api/v1/runs/"+greeted+"/events").fails(404, "run.notFound", "")
}

func testListPauses(t *testing.T, l *lab) {
	asked := l.run(l.refund, map[string]any{"order": 7})
	later := l.run(l.refund, map[string]any{"order": 8})
	l.get(answerer, "/api/v1/pauses").is(200).has(map[string]any{
		"pauses.0.runId": later, "pauses.0.prompt": "Pay order 8?", "pauses.0.kind": "human", "pauses.0.step": "ask",
		"pauses.0.show": map[string]any{"order": 8.0}, "pauses.0.decisions": []any{"approve", "reject"},
		"pauses.1.runId": asked, "pauses.2": nil,
	})
	next, _ := l.get(reader, "/api/v1/pauses?limit=1").json()["next"].(string)
	l.get(reader, "/api/v1/pauses?limit=1&after="+next).is(200).has(map[string]any{"pauses.0.runId": asked, "next": nil})
	next, _ = l.get(reader, "/api/v1/pauses?limit=1&sort=expiring").json()["next"].(string)
	l.get(reader, "/api/v1/pauses?limit=1&sort=expiring&after="+next).is(200).has(map[string]any{"pauses.1": nil, "next": nil})
	l.get(reader, "/api/v1/pauses?kind=external").has(map[string]any{"pauses.0": nil})
}
