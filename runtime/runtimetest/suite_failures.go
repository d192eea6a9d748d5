package runtimetest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Failures of the provider have the reason that determines retries, and say what it said, without the key.
func (s *suite) testFaults(t *testing.T) {
	const said = "the server says " + apiKey + " no"
	for _, tt := range []struct {
		name       string
		fault      Fault
		retryAfter string
		want       retry.Failure
		code       string
	}{
		{"400", Fault{Status: 400}, "", retry.Failure{}, ""},
		{"too many tokens", Fault{Status: 400, TooLong: true}, "", retry.Failure{}, "model.tooLong"},
		{"401", Fault{Status: 401}, "", retry.Failure{}, ""},
		{"403", Fault{Status: 403}, "", retry.Failure{}, ""},
		{"404", Fault{Status: 404}, "", retry.Failure{}, ""},
		{"413", Fault{Status: 413}, "", retry.Failure{}, "model.tooLong"},
		{"429", Fault{Status: 429}, "", retry.Failure{Reason: retry.RateLimit}, ""},
		{"429 with a wait", Fault{Status: 429}, "7",
			retry.Failure{Reason: retry.RateLimit, After: 7 * time.Second}, ""},
		{"429 with nonsense", Fault{Status: 429}, "soon", retry.Failure{Reason: retry.RateLimit}, ""},
		{"500", Fault{Status: 500}, "", retry.Failure{Reason: retry.ServerError}, ""},
		{"503 with a wait", Fault{Status: 503}, "2",
			retry.Failure{Reason: retry.ServerError, After: 2 * time.Second}, ""},
		{"504", Fault{Status: 504}, "", retry.Failure{Reason: retry.Timeout}, ""},
		{"529", Fault{Status: 529}, "", retry.Failure{Reason: retry.ServerError}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.fault.Message = said
			m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, _ *Asked) {
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.fault.Status)
				io.WriteString(w, s.wire.Fault(tt.fault, false))
			})
			for _, way := range ways(t, m) {
				_, err := way.ask(t.Context(), &runtime.Request{Messages: user("Hi")})
				got := failed(t, err)
				if !strings.Contains(err.Error(), "the server says") {
					t.Errorf("%s: the error does not say what the server said: %v", way.name, err)
				}
				got.Err, tt.want.Status, tt.want.Sent = nil, tt.fault.Status, true
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s: failure (-want +got):\n%s", way.name, diff)
				}
				if code := codeOf(err); code != tt.code {
					t.Errorf("%s: got the code %q, want %q", way.name, code, tt.code)
				}
			}
		})
	}
	for _, fault := range []Fault{{Status: 529, Message: said}, {Status: 500, Message: said}} {
		t.Run("in a stream", func(t *testing.T) {
			m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, asked *Asked) {
				pieces := s.pieces(w, asked, &Reply{Text: "Hello, Ada!", Finish: runtime.FinishStop})
				if asked.Stream {
					pieces = append(pieces[:len(pieces)/2], s.wire.Fault(fault, true))
				}
				io.WriteString(w, strings.Join(pieces, ""))
			})
			if list := ways(t, m); len(list) > 1 {
				_, err := list[1].ask(t.Context(), &runtime.Request{Messages: user("Hi")})
				got := failed(t, err)
				if got.Reason != retry.ServerError || !strings.Contains(err.Error(), "the server says") {
					t.Errorf("%d: got %+v", fault.Status, got)
				}
			}
		})
	}
}

// codeOf is the code of an error; "": it has none.
func codeOf(err error) string {
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e.Code
	}
	return ""
}

// What comes from gateways and wrong addresses is no answer.
func (s *suite) testNoAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, contentType, body string
		status                  int
		reason                  retry.Reason
	}{
		{"a page", "text/html", "<!doctype html><title>Login</title>", 200, ""},
		{"a page of a gateway", "text/html", "<html><body>Bad gateway</body></html>", 502, retry.ServerError},
		{"nothing", "application/json", "", 200, "unknown"},
		{"null", "application/json", "null", 200, "unknown"},
		{"an empty object", "application/json", "{}", 200, "unknown"},
		{"another JSON", "application/json", `[1]`, 200, "unknown"},
		{"no JSON", "text/plain", "ok", 200, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, _ *Asked) {
				w.Header().Set("Content-Type", tt.contentType)
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			for _, way := range ways(t, m) {
				_, err := way.ask(t.Context(), &runtime.Request{Messages: user("Hi")})
				if got := failed(t, err).Reason; tt.reason != "unknown" && got != tt.reason {
					t.Errorf("%s: got the reason %q of %v, want %q", way.name, got, err, tt.reason)
				}
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		m := s.serve(t, func(http.ResponseWriter, *http.Request, *Asked) { panic(http.ErrAbortHandler) })
		for _, way := range ways(t, m) {
			_, err := way.ask(t.Context(), &runtime.Request{Messages: user("Hi")})
			if got := failed(t, err); got.Reason != retry.Network || !got.Sent {
				t.Errorf("%s: got %+v, want a lost connection", way.name, got)
			}
		}
	})
}

// An answer that ends before its end, in the middle of a text, a thought, a call or a number, is a failure. At most its
// counts may be missing.
func (s *suite) testCut(t *testing.T) {
	tools := []runtime.ToolSpec{lookup, now}
	replies := map[string]*Reply{
		"a text": {Text: "It is 1234", Finish: runtime.FinishStop,
			Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}},
		"a call": {Text: "Ok.", Finish: runtime.FinishCalls,
			Calls: []runtime.ToolCall{call("c1", "crm.lookup", `{"id":1234}`), call("c2", "now", `{}`)}},
	}
	if s.has(Thinking) {
		replies["a thought"] = &Reply{Thinking: "I wonder.", Text: "Yes.", Finish: runtime.FinishStop}
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			var end int // bytes of the answer that are sent
			var abrupt bool
			var sizes []int // of the pieces
			m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, asked *Asked) {
				pieces := s.pieces(w, asked, reply.named(asked, tools))
				sizes = nil
				for _, piece := range pieces {
					sizes = append(sizes, len(piece))
				}
				body := strings.Join(pieces, "")
				io.WriteString(w, body[:min(end, len(body))])
				if end < len(body) && abrupt {
					flush(w)
					panic(http.ErrAbortHandler)
				}
			})
			req := &runtime.Request{Messages: user("Hi"), Tools: tools}
			for _, way := range ways(t, m) {
				end = 1 << 20
				whole, err := way.ask(t.Context(), req)
				if err != nil {
					t.Fatalf("%s: %v", way.name, err)
				}
				for _, end = range ends(sizes) {
					for _, abrupt = range []bool{false, true} {
						got, err := way.ask(t.Context(), req)
						if err == nil {
							got.Usage = whole.Usage
							wantResponse(t, whole, got)
							continue
						}
						reason := failed(t, err).Reason
						if reason != retry.Network && (abrupt || way.name == "stream") {
							t.Errorf("%s, cut after %d bytes, abruptly %t: got the reason %q of %v",
								way.name, end, abrupt, reason, err)
						}
					}
				}
			}
		})
	}
}

// ends are where pieces of these sizes are cut: in the middle of each, and behind it, but not behind the last one.
func ends(sizes []int) (list []int) {
	if len(sizes) == 1 {
		for i := 1; i < 8; i++ {
			list = append(list, sizes[0]*i/8)
		}
		return list
	}
	sum := 0
	for _, n := range sizes {
		list = append(list, sum+n/2, sum+n)
		sum += n
	}
	return list[:len(list)-1]
}

// An answer without an end is given up, once it has as many bytes as an answer may have.
func (s *suite) testEndless(t *testing.T) {
	const most = 1024 * maxBytes // much more than the buffers of a connection hold
	tools := []runtime.ToolSpec{lookup}
	for _, tt := range []struct {
		name   string
		reply  *Reply
		events bool // repeat the event
	}{
		{"a text", &Reply{Text: mark, Finish: runtime.FinishStop}, false},
		{"texts", &Reply{Text: mark, Finish: runtime.FinishStop}, true},
		{"arguments", &Reply{Finish: runtime.FinishCalls, Calls: []runtime.ToolCall{
			call("c1", "crm.lookup", `{"name":"`+mark+`"}`)}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, asked *Asked) {
				more := strings.Repeat("x", 1<<12)
				for _, piece := range s.pieces(w, asked, tt.reply.named(asked, tools)) {
					before, _, found := strings.Cut(piece, mark)
					if !found {
						io.WriteString(w, piece)
						continue
					}
					if asked.Stream && tt.events {
						before, more = "", strings.ReplaceAll(piece, mark, strings.Repeat("x", 1<<10))
					}
					io.WriteString(w, before)
					break
				}
				for sent := 0; sent < most; sent += len(more) {
					if _, err := io.WriteString(w, more); err != nil {
						return
					}
				}
				t.Errorf("the model reads %d bytes of an answer that may have %d", most, maxBytes)
			})
			for _, way := range ways(t, m) {
				_, err := way.ask(t.Context(), &runtime.Request{Messages: user("Hi"), Tools: tools})
				if got := failed(t, err); got.Reason != "" {
					t.Errorf("%s: got %+v, want a failure without a reason to try again", way.name, got)
				}
			}
		})
	}
}

// A call ends soon after its context is done: before the answer, and within it.
func (s *suite) testCancelled(t *testing.T) {
	for name, began := range map[string]bool{"before the answer": false, "within the answer": true} {
		t.Run(name, func(t *testing.T) {
			waiting := make(chan struct{}, 1)
			m := s.serve(t, func(w http.ResponseWriter, r *http.Request, asked *Asked) {
				if began {
					pieces := s.pieces(w, asked, &Reply{Text: "Hello, Ada!", Finish: runtime.FinishStop})
					io.WriteString(w, pieces[0][:len(pieces[0])/2])
					flush(w)
				}
				waiting <- struct{}{}
				<-r.Context().Done()
			})
			for _, way := range ways(t, m) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					select {
					case <-waiting:
						cancel()
					case <-ctx.Done():
					}
				}()
				_, err := way.ask(ctx, &runtime.Request{Messages: user("Hi")})
				cancel()
				if !errors.Is(err, context.Canceled) || failed(t, err).Reason != "" {
					t.Errorf("%s: got %v with the reason %q, want context.Canceled", way.name, err, retry.ReasonOf(err))
				}
			}
		})
	}
}
