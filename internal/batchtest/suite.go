package batchtest

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Suite tests an adapter against the server. open makes its model; sends is the request that sends a batch, and list
// the one for a page of the list.
func Suite(t *testing.T, open Opener, sends, list string) {
	t.Run("answers", func(t *testing.T) { suiteAnswers(t, open) })
	t.Run("states", func(t *testing.T) { suiteStates(t, open) })
	t.Run("sending", func(t *testing.T) { suiteSending(t, open, sends) })
	t.Run("lost", func(t *testing.T) { suiteFinding(t, open, list) })
	t.Run("unfit", func(t *testing.T) { suiteUnfit(t, open) })
}

// Opener makes the model of an adapter.
type Opener = func(t *testing.T, url string, settle time.Duration) runtime.PolledModel

// requests are a batch of requests with these prompts. Their ids are p1, p2 and so on.
func requests(key string, prompts ...string) *runtime.Batch {
	b := &runtime.Batch{Key: key, Begun: time.Now()}
	for i, p := range prompts {
		b.IDs = append(b.IDs, fmt.Sprint(key, i+1))
		b.Requests = append(b.Requests,
			&runtime.Request{Step: p, Messages: []runtime.Message{{Role: runtime.User, Text: p}}})
	}
	return b
}

// told is what came of each request of a batch, in words.
func told(t *testing.T, m runtime.PolledModel, b *runtime.Batch, id string) map[string]string {
	t.Helper()
	state, err := m.Poll(t.Context(), id)
	if err != nil {
		return map[string]string{"": err.Error()}
	}
	if !state.Over {
		return map[string]string{"": fmt.Sprintf("%d of %d", state.Answered, state.Requests)}
	}
	all := map[string]string{}
	for i, id := range b.IDs {
		read := state.Answers[id]
		if read == nil {
			all[id] = "nothing"
			if state.Err != nil {
				all[id] = worded(state.Err)
			}
			continue
		}
		resp, err := read(t.Context(), b.Requests[i])
		if err != nil {
			all[id] = worded(err)
			continue
		}
		all[id] = fmt.Sprintf("%s, %d in, %d out, %s, %s", resp.Text, resp.Usage.InputTokens, resp.Usage.OutputTokens,
			resp.Finish, resp.Model)
	}
	return all
}

// worded is what an engine makes of a failure.
func worded(err error) string {
	f := retry.FailureOf(err)
	return fmt.Sprintf("%s %d unsent %t", stdcmp.Or(string(f.Reason), "never"), f.Status, f.Unsent())
}

const good = ", 10 in, 5 out, stop, big-1"

// What the results of a batch may look like.
func suiteAnswers(t *testing.T, open Opener) {
	both := map[string]string{"p1": "re: a" + good, "p2": "re: b" + good}
	with := func(id, what string) map[string]string {
		m := maps.Clone(both)
		m[id] = what
		return m
	}
	for _, tt := range []struct {
		name   string
		lines  func(n int, lines []string) []string
		answer func(string) (string, int)
		want   map[string]string
	}{
		{"in order", nil, nil, both},
		{"in another order", func(_ int, l []string) []string { slices.Reverse(l); return l }, nil, both},
		{"twice", func(_ int, l []string) []string {
			return append(l, strings.ReplaceAll(strings.Join(l, "\n"), "re: ", "other: "))
		}, nil, both},
		{"one is missing", func(_ int, l []string) []string { return l[:min(1, len(l))] }, nil, with("p2", "nothing")},
		{"one is cut", func(_ int, l []string) []string {
			if len(l) == 2 {
				l[1] = l[1][:len(l[1])/2]
			}
			return l
		}, nil, with("p2", "nothing")},
		{"lines that are no results", func(_ int, l []string) []string {
			return append([]string{"", "null", "[1]", "{}", `{"custom_id":7}`, "<html>"}, l...)
		}, nil, both},
		{"of others", func(_ int, l []string) []string {
			return append(l, strings.ReplaceAll(strings.Join(l, "\n"), `"p1"`, `"q9"`))
		}, nil, both},
		{"one is refused", nil, refuses("b", 400), with("p2", "never 400 unsent false")},
		{"one meets an overload", nil, refuses("b", 529), with("p2", "5xx 529 unsent false")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(t)
			s.Set(func() { s.Lines, s.Answer = tt.lines, tt.answer })
			m := open(t, s.URL, 0)
			b := requests("p", "a", "b")
			id, err := m.Submit(t.Context(), b)
			if err != nil || len(s.Batches()) != 1 || s.Batches()[0].ID != id {
				t.Fatalf("id %q, %d batches, %v", id, len(s.Batches()), err)
			}
			if diff := cmp.Diff(tt.want, told(t, m, b, id)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

// refuses lets one prompt get a status.
func refuses(one string, status int) func(string) (string, int) {
	return func(prompt string) (string, int) {
		if prompt == one {
			return "it cannot be", status
		}
		return "re: " + prompt, 200
	}
}

// What a provider may say of a batch.
func suiteStates(t *testing.T, open Opener) {
	each := func(what string) map[string]string { return map[string]string{"p1": what, "p2": what} }
	for _, tt := range []struct {
		name  string
		state string
		fault func(request string, n int) Fault
		want  map[string]string // "": words in the error, or how far it is
	}{
		{"in progress", "in_progress", nil, map[string]string{"": "0 of 2"}},
		{"cancelling", "cancelling", nil, map[string]string{"": "0 of 2"}},
		{"expired", "expired", nil, each("timeout 0 unsent true")},
		{"cancelled", "cancelled", nil, each("never 0 unsent true")},
		{"no JSON", "completed", answersWith("GET", "/ID", "<html>"), map[string]string{"": "the answer is"}},
		{"the results are gone", "completed", fails("GET", 404, "/content", "/results"),
			map[string]string{"": "status 404"}},
		{"the results cannot be read now", "completed", fails("GET", 503, "/content", "/results"),
			map[string]string{"": "status 503"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(t)
			s.Set(func() { s.Status, s.Fault = func(int, int) string { return tt.state }, tt.fault })
			m := open(t, s.URL, 0)
			b := requests("p", "a", "b")
			id, err := m.Submit(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			got := told(t, m, b, id)
			if words, said := tt.want[""], got[""]; words != "" && strings.Contains(said, words) {
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	s := New(t)
	m := open(t, s.URL, 0)
	if _, err := m.Poll(t.Context(), "batch_unknown"); err == nil || retry.FailureOf(err).Status != 404 {
		t.Errorf("an unknown batch: %v", err)
	}
	id, err := m.Submit(t.Context(), requests("p", "a"))
	if err == nil {
		err = m.Cancel(t.Context(), id)
	}
	if err != nil || !s.Batches()[0].Cancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// fails lets requests fail that end in one of these.
func fails(method string, status int, ends ...string) func(string, int) Fault {
	return func(request string, _ int) Fault {
		is := func(end string) bool { return strings.HasSuffix(request, end) }
		if strings.HasPrefix(request, method) && slices.ContainsFunc(ends, is) {
			return Fault{Status: status, Body: problem("some_error", "not now")}
		}
		return Fault{}
	}
}

// answersWith lets requests be answered with a body.
func answersWith(method, end, body string) func(string, int) Fault {
	return func(request string, _ int) Fault {
		if strings.HasPrefix(request, method) && strings.HasSuffix(request, end) {
			return Fault{Body: body}
		}
		return Fault{}
	}
}

// What may go wrong when a batch is sent, and what is known of it then.
func suiteSending(t *testing.T, open Opener, sends string) {
	for _, tt := range []struct {
		name   string
		fault  Fault
		reason retry.Reason
		status int
		taken  int
	}{
		{"refused", Fault{Status: 400, Body: problem("invalid_request_error", "no")}, "", 400, 0},
		{"too many", Fault{Status: 429, Body: problem("rate_limit_error", "later")}, retry.RateLimit, 429, 0},
		{"the connection is lost", Fault{Lost: true}, retry.Network, 0, 1},
		{"no JSON", Fault{Body: "ok"}, retry.Unknown, 200, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(t)
			fault := func(request string, _ int) Fault {
				if request == sends {
					return tt.fault
				}
				return Fault{}
			}
			s.Set(func() { s.Fault = fault })
			_, err := open(t, s.URL, 0).Submit(t.Context(), requests("p", "a", "b"))
			f := retry.FailureOf(err)
			if err == nil || f.Reason != tt.reason || f.Status != tt.status || !f.Sent || len(s.Batches()) != tt.taken {
				t.Errorf("%q %d, %d taken: %v", f.Reason, f.Status, len(s.Batches()), err)
			}
		})
	}
}

// A batch is found whose sender does not know what became of it, and only that one.
func suiteFinding(t *testing.T, open Opener, list string) {
	s := New(t)
	m := open(t, s.URL, 0)
	ids := map[string]string{}
	for _, key := range []string{"k", "l", "m", "n"} { // two pages
		id, err := m.Submit(t.Context(), requests(key, "a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		ids[key] = id
	}
	if _, err := m.Submit(t.Context(), requests("o", "a", "b", "c")); err != nil {
		t.Fatal(err)
	}
	lost := requests("l", "a", "b")
	lost.Requests = nil
	if id, err := m.Find(t.Context(), lost); err != nil || id != ids["l"] {
		t.Errorf("found %q, %v; want %q", id, err, ids["l"])
	}
	other := requests("x", "a", "b")
	if id, err := m.Find(t.Context(), other); err != nil || id != "" {
		t.Errorf("another one: %q, %v", id, err)
	}
	soon := open(t, s.URL, time.Hour)
	if id, err := soon.Find(t.Context(), other); err == nil || id != "" {
		t.Errorf("too early to tell: %q, %v", id, err)
	}
	fault := func(request string, _ int) Fault {
		if request == list {
			return Fault{Status: 503, Body: problem("some_error", "not now")}
		}
		return Fault{}
	}
	s.Set(func() { s.Fault = fault })
	if id, err := m.Find(t.Context(), lost); err == nil || id != "" {
		t.Errorf("no list: %q, %v", id, err)
	}
}

// A request that cannot be sent does not keep the others back.
func suiteUnfit(t *testing.T, open Opener) {
	s := New(t)
	m := open(t, s.URL, 0)
	b := requests("p", "a", "b")
	b.Requests[1].Tools = []runtime.ToolSpec{{Name: "a.b"}, {Name: "a__b"}} // one, on the wire
	_, err := m.Submit(t.Context(), b)
	unfit, ok := errors.AsType[*runtime.UnfitRequests](err)
	if !ok || unfit.Errs["p2"] == nil || len(unfit.Errs) != 1 || len(s.Log()) != 0 {
		t.Errorf("%v after %v", err, s.Log())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Submit(ctx, requests("p", "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
