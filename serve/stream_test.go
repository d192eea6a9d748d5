package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// message is one server-sent event.
type message struct{ id, event, data string }

// viewer reads a stream.
type viewer struct {
	testing.TB
	res   *http.Response
	lines *bufio.Scanner
	close func()
}

// watch opens the stream of a path; header may be nil.
func (l *lab) watch(token, path string, header http.Header) *viewer {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", l.http.URL+path, nil)
	if err != nil {
		l.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	return l.stream(r, cancel)
}

func (l *lab) stream(r *http.Request, cancel func()) *viewer {
	l.Helper()
	res, err := l.http.Client().Do(r)
	if err != nil {
		l.Fatal(err)
	}
	v := &viewer{l, res, bufio.NewScanner(res.Body), sync.OnceFunc(func() { cancel(); res.Body.Close() })}
	v.lines.Buffer(nil, 1<<20)
	l.Cleanup(v.close)
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		v.lines.Scan()
		l.Fatalf("status %d, %s: %s", res.StatusCode, kind, v.lines.Text())
	}
	if res.Header.Get("X-Accel-Buffering") != "no" || res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
		l.Errorf("headers %v", res.Header)
	}
	if first, _ := v.raw(); first != "retry: 2000\n" {
		l.Errorf("the stream begins with %q", first)
	}
	return v
}

// raw returns the next block of lines.
func (v *viewer) raw() (block string, more bool) {
	for v.lines.Scan() {
		if v.lines.Text() == "" {
			return block, true
		}
		block += v.lines.Text() + "\n"
	}
	return block, false
}

// next returns the next message; false at the end of the stream.
func (v *viewer) next() (m message, more bool) {
	v.Helper()
	for {
		block, more := v.raw()
		if !more {
			return m, false
		}
		for line := range strings.Lines(block) {
			name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch name {
			case "id":
				m.id = text
			case "event":
				m.event = text
			case "data":
				m.data = text
			}
		}
		if m != (message{}) {
			return m, true
		}
	}
}

// kinds are the kinds of events up to the end of a stream, each with its id.
func (v *viewer) kinds() (all []string) {
	v.Helper()
	for {
		m, more := v.next()
		if !more {
			return all
		}
		var e struct{ Kind string }
		if err := json.Unmarshal([]byte(m.data), &e); err != nil {
			v.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s%s", m.id, m.event, e.Kind))
	}
}

// journal returns the kinds of events as history tells them, each with its number.
func (l *lab) journal(runID string) (all []string) {
	l.Helper()
	told, err := history.Load(l.Context(), l.store, runID)
	if err != nil {
		l.Fatal(err)
	}
	for _, e := range told.Events {
		all = append(all, fmt.Sprintf("%d %s", e.Seq, e.Kind))
	}
	return all
}

// A stream of a run that has ended has all its events, and ends; it can be resumed anywhere.
func TestStreamOfAPastRun(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.hello, map[string]any{"who": "Ada"})
	want := append(l.journal(id), " end")
	path := "/api/v1/runs/" + id + "/events"
	equal(t, "the stream", l.watch(reader, path, nil).kinds(), want)
	equal(t, "behind 1", l.watch(reader, path, http.Header{"Last-Event-Id": {"1"}}).kinds(), want[1:])
	equal(t, "behind 2", l.watch(reader, path+"?after=2", nil).kinds(), want[2:])
	equal(t, "header before parameter", l.watch(reader, path+"?after=2", http.Header{"Last-Event-Id": {"1"}}).kinds(), want[1:])
	for _, last := range []string{"-1", "x", "1.5", "+1", "99"} {
		l.send("GET", path, request{token: reader, header: http.Header{"Last-Event-Id": {last}, "Accept": {"text/event-stream"}}}).
			fails(400, "request.parameter", "last")
	}
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestPagesOfEvents(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.hello, map[string]any{"who": "Ada"})
	n := float64(len(l.journal(id)))
	path := "/api/v1/runs/" + id + "/events"
	l.get(reader, path).is(200).has(map[string]any{"events.0.kind": "run.start", "events.0.seq": 1.0, "next": n, "last": n})
	l.get(reader, path+"?after=1&limit=1").is(200).has(map[string]any{"events.0.seq": 2.0, "events.1": nil, "next": 2.0, "last": n})
	l.get(reader, path+"?after=99").fails(400, "request.parameter", "its last is")
}

// Viewers see what is recorded while they watch, all of them, without a gap or a double; one that comes back later, too.
func testLiveStream(t *testing.T, l *lab) {
	id := l.run(l.refund, map[string]any{"order": 7})
	before := l.journal(id)
	path := "/api/v1/runs/" + id + "/events"
	var viewers []*viewer
	for range 5 {
		viewers = append(viewers, l.watch(reader, path, nil))
	}
	for _, v := range viewers {
		for i := range before {
			if m, _ := v.next(); m.id != fmt.Sprint(i+1) {
				t.Fatalf("message %d: %v", i+1, m)
			}
		}
	}
	viewers[0].close()
	l.answer(id)
	want := append(l.journal(id), " end")
	for _, v := range viewers[1:] {
		equal(t, "what followed", v.kinds(), want[len(before):])
	}
	other := labOf(t, l.store, nil) // the numbers are the same on every server
	resumed := other.watch(reader, path, http.Header{"Last-Event-Id": {fmt.Sprint(len(before))}})
	equal(t, "resumed", resumed.kinds(), want[len(before):])
}

// A deleted run ends its streams.
func TestStreamOfADeletedRun(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	v := l.watch(reader, "/api/v1/runs/"+id+"/events", nil)
	for range l.journal(id) {
		v.next()
	}
	l.send("DELETE", "/api/v1/runs/"+id, request{token: operator}).is(204)
	if m, _ := v.next(); m.event != "end" || m.data != `{"runId":"`+id+`"}` {
		t.Errorf("got %v", m)
	}
}

// Streams end when the server drains, and no new ones begin.
func TestDrainedStream(t *testing.T) {
	drain := make(chan struct{})
	l := newLab(t, func(s *serve.Server) { s.Drain = drain })
	id := l.run(l.refund, map[string]any{"order": 7})
	v := l.watch(reader, "/api/v1/runs/"+id+"/events", nil)
	close(drain)
	last := message{}
	for m, more := v.next(); more; m, more = v.next() {
		last = m
	}
	if last.event != "bye" {
		t.Errorf("the stream ended with %v, not with bye", last)
	}
	l.send("GET", "/api/v1/runs/"+id+"/events", request{token: reader, header: http.Header{"Accept": {"text/event-stream"}}}).
		fails(503, "server.draining", "again")
}

// There are as many streams as allowed, and no more.
func TestTooManyStreams(t *testing.T) {
	l := newLab(t, func(s *serve.Server) { s.MaxStreams = 3 })
	id := l.run(l.refund, map[string]any{"order": 7})
	path := "/api/v1/runs/" + id + "/events"
	for range 3 {
		l.watch(reader, path, nil)
	}
	got := l.send("GET", path, request{token: reader, header: http.Header{"Accept": {"text/event-stream"}}})
	got.fails(429, "streams.full", "close some")
	if got.header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
}

// A server has 1,000 streams by default, all of them live. The next one is refused, until another one is closed.
func TestThousandStreams(t *testing.T) {
	const most = 1000
	l := newLab(t, func(s *serve.Server) { s.Metrics = &serve.Metrics{} })
	id := l.run(l.refund, map[string]any{"order": 7})
	path := "/api/v1/runs/" + id + "/events"
	events := http.Header{"Accept": {"text/event-stream"}}
	viewers := make([]*viewer, most)
	past := len(l.journal(id))
	for i := range viewers {
		viewers[i] = l.watch(reader, path, nil)
		for range past {
			viewers[i].next()
		}
	}
	got := l.send("GET", path, request{token: reader, header: events})
	got.fails(429, "streams.full", "close some")
	if got.header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}

	viewers[0].close()
	for l.scrape()["braise_streams"] == most { // the server has not seen yet that the viewer has gone
		goruntime.Gosched()
	}
	next := l.watch(reader, path, nil)
	l.send("GET", path, request{token: reader, header: events}).fails(429, "streams.full", "close some")
	for range past {
		next.next()
	}
	l.answer(id)
	want := l.journal(id)[past:]
	for i, v := range append(viewers[1:], next) {
		if got := v.kinds(); len(got) != len(want)+1 || !slices.Equal(got[:len(want)], want) { // and end
			t.Fatalf("stream %d has %v, want %v", i, got, want)
		}
	}
}

// Pieces of answers come without an id, to who watches the run, from the process that executes it.
func TestDeltas(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	v := l.watch(reader, "/api/v1/runs/"+id+"/events", nil)
	for range l.journal(id) {
		v.next()
	}
	sink := l.server.Sink()
	if d, ok := sink.(trace.Detailed); !ok || !d.Detail().Deltas {
		t.Error("the sink does not ask for the pieces")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sink.Emit(trace.Event{At: at, Run: "another", Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: "text", Value: "no"}}})
	sink.Emit(trace.Event{At: at, Run: id, Kind: trace.StepStart, Step: "a"})
	sink.Emit(trace.Event{At: at, Run: id, Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: "text", Value: "Dear"}}})
	want := message{data: `{"at":"2026-01-02T03:04:05Z","kind":"model.delta","step":"a","data":{"text":"Dear"}}`}
	if m, _ := v.next(); m != want {
		t.Errorf("got %v, want %v", m, want)
	}
}

// A viewer that is far behind is told to read the run again, and goes on from there.
func TestReset(t *testing.T) {
	l := newLab(t, nil)
	lease, err := l.store.Create(t.Context(), checkpoint.Run{ID: "long", Recipe: "hello", Digest: "d", StartedAt: time.Now()}, "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var recs []checkpoint.Record
	for i := range 10_100 {
		rec, err := checkpoint.NewRecord(time.Now(), "call.told", "", map[string]any{"events": []any{
			map[string]any{"at": "2026-01-02T03:04:05Z", "name": fmt.Sprint("n", i)}}})
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, rec)
	}
	if err := l.store.Append(t.Context(), lease, 1, recs...); err != nil {
		t.Fatal(err)
	}
	v := l.watch(reader, "/api/v1/runs/long/events", nil)
	if m, _ := v.next(); m != (message{"10101", "reset", `{"runId":"long","next":10101}`}) {
		t.Errorf("got %v", m)
	}
	near := l.watch(reader, "/api/v1/runs/long/events?after=10100", nil)
	if m, _ := near.next(); m.id != "10101" || m.event != "" {
		t.Errorf("got %v", m)
	}
}

// A viewer that reads nothing is cut off, and holds up nobody.
func TestDeafViewer(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for 10 s")
	}
	l := newLab(t, func(s *serve.Server) { s.MaxStreams = 1 })
	lease, err := l.store.Create(t.Context(), checkpoint.Run{ID: "long", Recipe: "hello", Digest: "d", StartedAt: time.Now()}, "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var recs []checkpoint.Record
	for range 9000 {
		rec, err := checkpoint.NewRecord(time.Now(), "call.told", "", map[string]any{"events": []any{
			map[string]any{"at": "2026-01-02T03:04:05Z", "name": strings.Repeat("n", 3000)}}})
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, rec)
	}
	if err := l.store.Append(t.Context(), lease, 1, recs...); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(l.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /api/v1/runs/long/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n", reader)
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200" {
		t.Fatalf("%s, %v", status, err)
	}
	next := func() int { // the status for another viewer, whose request is wrong: 429 as long as there is no place
		return l.send("GET", "/api/v1/runs/long/events", request{token: reader, header: http.Header{
			"Accept": {"text/event-stream"}, "Last-Event-Id": {"99999"}}}).status
	}
	for _, want := range []int{429, 400} { // first the deaf viewer has the only place, then it has lost it
		deadline := time.After(2 * time.Minute)
		for next() != want {
			select {
			case <-deadline:
				t.Fatalf("no %d within 2 minutes", want)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// answer answers the pause of a run with approve, and executes the rest.
func (l *lab) answer(id string) {
	l.Helper()
	sum, _, err := l.store.Load(l.Context(), id, 0)
	if err != nil || len(sum.Pauses) != 1 {
		l.Fatal(err, sum.Pauses)
	}
	if _, err := workflow.Answer(l.Context(), id, sum.Pauses[0].ID, map[string]any{"decision": "approve"}, l.rt, nil); err != nil {
		l.Fatal(err)
	}
}

// One stream has the events of several runs, and what changes in the lists.
func testStreamOfSeveral(t *testing.T, l *lab) {
	greeted := l.run(l.hello, map[string]any{"who": "Ada"})
	asked := l.run(l.refund, map[string]any{"order": 7})
	open := func(token, body string) *viewer {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", l.http.URL+"/api/v1/stream", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		return l.stream(r, cancel)
	}
	v := open(reader, fmt.Sprintf(`{"runs": [{"id": %q, "after": 1}, {"id": "nope"}, {"id": %q}], "list": true, "inbox": true}`, greeted, asked))
	got := map[string][]string{}                // by run
	read := func(run string, texts ...string) { // until there is one of them
		for !slices.ContainsFunc(got[run], func(text string) bool { return slices.Contains(texts, text) }) {
			m, more := v.next()
			if !more {
				t.Fatalf("the stream ended before %s %v; got %v", run, texts, got)
			}
			var data struct {
				RunID string
				Phase string
				Event struct{ Kind string }
			}
			if err := json.Unmarshal([]byte(m.data), &data); err != nil {
				t.Fatal(err)
			}
			got[data.RunID] = append(got[data.RunID], strings.TrimSpace(m.event+" "+data.Event.Kind+" "+data.Phase))
		}
	}
	read("", "lists") // what was before is not told
	read(asked, "run.end")
	read(greeted, "end  ok")
	l.answer(asked)
	read(asked, "end  ok")
	var want []string
	for _, kind := range l.journal(greeted)[1:] {
		_, kind, _ = strings.Cut(kind, " ")
		want = append(want, kind)
	}
	equal(t, "the first run", got[greeted], append(want, "end  ok"))
	equal(t, "a run that there is not", got["nope"], []string{"end"})
	l.post(reader, "/api/v1/stream", `{"runs": [{"id": "../x"}]}`).fails(400, "request.id", "")
	l.post(reader, "/api/v1/stream", `{"rnus": []}`).fails(400, "request.body", `"runs"`)

	unseen := open(narrow, fmt.Sprintf(`{"runs": [{"id": %q}]}`, greeted)) // it may see refund only
	if m, _ := unseen.next(); m.event != "end" || m.data != `{"runId":"`+greeted+`"}` {
		t.Errorf("of a run that is not seen: %v", m)
	}
	away := open(narrow, `{"list": true, "inbox": true}`)
	said := ""
	for n := 8; !strings.Contains(said, `inbox {"runId":"`); n++ { // it may be told to read the lists instead
		l.run(l.hello, map[string]any{"who": "Bob"})
		l.run(l.refund, map[string]any{"order": n})
		m, more := away.next()
		if said = m.event + " " + m.data; !more || strings.Contains(said, `"recipe":"hello"`) {
			t.Fatalf("got %v", m)
		}
	}
}
