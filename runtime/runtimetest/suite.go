package runtimetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

const (
	apiKey   = "sk-suite-0123456789abcdef"
	maxBytes = 1 << 16

	// mark stands in a reply where the suite changes its encoding. A Wire does not split it.
	mark = "¤"
)

// TestModel tests the [runtime.Model] of an adapter against a server that speaks its provider's wire format: texts,
// tools, schemas, usage, failures, and streams, which must give what a whole answer gives. Options that the model's
// Metadata does not have are not tested, and neither are the features that the provider lacks.
func TestModel(t *testing.T, wire Wire, lacks ...Feature) {
	s := &suite{wire, lacks}
	t.Run("answers", s.testAnswers)
	t.Run("counts", s.testCounts)
	t.Run("forms", s.testForms)
	t.Run("thinking", s.testThinking)
	t.Run("refusal", s.testRefusal)
	t.Run("requests", s.testRequests)
	t.Run("names of tools", s.testToolNames)
	t.Run("options", s.testOptions)
	t.Run("conversation", s.testConversation)
	t.Run("at once", s.testAtOnce)
	t.Run("faults", s.testFaults)
	t.Run("no answer", s.testNoAnswer)
	t.Run("cut", s.testCut)
	t.Run("endless", s.testEndless)
	t.Run("cancelled", s.testCancelled)
}

type suite struct {
	wire  Wire
	lacks []Feature
}

func (s *suite) has(f Feature) bool { return !slices.Contains(s.lacks, f) }

// serve connects a model to a server whose answers are those of answer. A request that the provider would refuse, or
// that not every provider's models take, fails the test.
func (s *suite) serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, asked *Asked)) runtime.Model {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		asked, err := s.wire.Read(r, body)
		switch {
		case err != nil:
		case !strings.Contains(fmt.Sprint(r.Header), apiKey):
			err = errors.New("the key is missing")
		default:
			err = asked.check()
		}
		if err != nil {
			t.Errorf("the provider refuses the request: %v\n%s", err, body)
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, s.wire.Fault(Fault{Status: http.StatusBadRequest, Message: err.Error()}, false))
			return
		}
		answer(w, r, asked)
	}))
	t.Cleanup(srv.Close)
	return s.wire.Connect(t, Endpoint{srv.URL, apiKey, maxBytes})
}

// replying connects a model to a server that gives one reply, whole or in events as it is asked.
func (s *suite) replying(t *testing.T, reply *Reply) runtime.Model {
	return s.serve(t, func(w http.ResponseWriter, _ *http.Request, asked *Asked) {
		for _, piece := range s.pieces(w, asked, reply) {
			io.WriteString(w, piece)
			flush(w)
		}
	})
}

// pieces encodes a reply in the way in which it is asked for, and writes the header for it. Calls get the names that
// the request has for the tools. Those of tools it does not have stay.
func (s *suite) pieces(w http.ResponseWriter, asked *Asked, reply *Reply) []string {
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		return []string{s.wire.Whole(asked, reply)}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	return s.wire.Stream(asked, reply)
}

func flush(w http.ResponseWriter) { http.NewResponseController(w).Flush() }

// way is a way to ask a model.
type way struct {
	name string
	ask  func(context.Context, *runtime.Request) (*runtime.Response, error)
}

// ways are those in which a model can be asked. What it streams is compared with its answer, and each answer with what
// a caller may rely on.
func ways(t *testing.T, m runtime.Model) []way {
	checked := func(ask func(context.Context, *runtime.Request) (*runtime.Response, error)) way {
		return way{"whole", func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
			before := fmt.Sprintf("%+v", *req)
			resp, err := ask(ctx, req)
			if after := fmt.Sprintf("%+v", *req); after != before {
				t.Errorf("the model changed its request:\n%s\n%s", before, after)
			}
			if (resp == nil) == (err == nil) {
				t.Errorf("got %+v and the error %v, want one of them", resp, err)
			}
			if err == nil {
				checkResponse(t, resp)
			}
			return resp, err
		}}
	}
	list := []way{checked(m.Generate)}
	if streaming, ok := m.(runtime.StreamingModel); ok {
		pieces := checked(func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
			pieces := map[string]string{}
			var returned atomic.Bool
			resp, err := streaming.Stream(ctx, req, func(d runtime.Delta) {
				if returned.Load() {
					t.Error("the model emits after it has returned")
				}
				pieces[d.Kind] += d.Text
			})
			returned.Store(true)
			if err == nil {
				checkPieces(t, pieces, resp)
			}
			return resp, err
		})
		pieces.name = "stream"
		list = append(list, pieces)
	}
	return list
}

// checkPieces compares the pieces of an answer, by kind, with the answer. Thinking and calls need not be told.
func checkPieces(t *testing.T, pieces map[string]string, resp *runtime.Response) {
	if text := pieces[runtime.DeltaText]; text != resp.Text {
		t.Errorf("the pieces are %q, the answer is %q", text, resp.Text)
	}
	called := ""
	for _, call := range resp.ToolCalls {
		called += call.Name
	}
	if told := pieces[runtime.DeltaToolCall]; told != "" && told != called {
		t.Errorf("calls of %q are told, the answer has %q", told, called)
	}
}

// checkResponse reports what no answer may be.
func checkResponse(t *testing.T, resp *runtime.Response) {
	if !utf8.ValidString(resp.Text) {
		t.Errorf("the text %q is not UTF-8", resp.Text)
	}
	if resp.Usage != resp.Usage.Clamped() {
		t.Errorf("the usage cannot be: %+v", resp.Usage)
	}
	if !slices.Contains([]string{"", runtime.FinishStop, runtime.FinishLength, runtime.FinishCalls,
		runtime.FinishFilter}, resp.Finish) {
		t.Errorf("%q is no reason why answers end", resp.Finish)
	}
	seen := map[string]bool{"": true}
	for _, call := range resp.ToolCalls {
		if seen[call.ID] {
			t.Errorf("the call of %s has no id of its own: %q", call.Name, call.ID)
		}
		seen[call.ID] = true
		if !json.Valid(call.Arguments) {
			t.Errorf("the arguments of %s are not JSON: %s", call.Name, call.Arguments)
		}
	}
}

// wantResponse compares an answer with the one that is wanted, but for what is the adapter's own business: ids, parts,
// white space in arguments.
func wantResponse(t *testing.T, want, got *runtime.Response) {
	t.Helper()
	if diff := cmp.Diff(plain(want), plain(got)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func plain(resp *runtime.Response) runtime.Response {
	if resp == nil {
		return runtime.Response{}
	}
	r := *resp
	r.Parts, r.ToolCalls = nil, nil
	for _, call := range resp.ToolCalls {
		var compact bytes.Buffer
		if json.Compact(&compact, call.Arguments) != nil {
			compact = *bytes.NewBuffer(call.Arguments)
		}
		r.ToolCalls = append(r.ToolCalls, runtime.ToolCall{Name: call.Name, Arguments: compact.Bytes()})
	}
	return r
}

// check reports what models of some providers, or the templates of some models, do not take.
func (a *Asked) check() error {
	tools := map[string]bool{}
	for _, spec := range a.Tools {
		if tools[spec.Name] {
			return fmt.Errorf("the tool %q is declared twice", spec.Name)
		}
		tools[spec.Name] = true
	}
	var open []string // ids of calls without results
	var last runtime.Role
	for i, msg := range a.Messages {
		empty := strings.TrimSpace(msg.Text) == "" && len(msg.ToolCalls) == 0 && len(msg.Files) == 0
		switch at := fmt.Sprintf("message %d, of the role %s", i+1, msg.Role); {
		case msg.Role == runtime.ToolRole:
			n := slices.Index(open, msg.ToolCallID)
			if n < 0 {
				return fmt.Errorf("%s, answers no call before it: %q", at, msg.ToolCallID)
			}
			open = slices.Delete(open, n, n+1)
		case len(open) > 0:
			return fmt.Errorf("%s, comes before the results of %q", at, open)
		case msg.Role != runtime.User && msg.Role != runtime.Assistant:
			return fmt.Errorf("%s, is neither the user's nor the assistant's", at)
		case msg.Role == last:
			return fmt.Errorf("%s, follows another of this role", at)
		case empty:
			return fmt.Errorf("%s, is empty", at)
		}
		for _, call := range msg.ToolCalls {
			if !tools[call.Name] {
				return fmt.Errorf("message %d calls the tool %q, which is not declared", i+1, call.Name)
			}
			open = append(open, call.ID)
		}
		last = msg.Role
	}
	switch {
	case last == "":
		return errors.New("there are no messages")
	case len(open) > 0:
		return fmt.Errorf("there are no results of %q", open)
	}
	return nil
}

// failed returns what is known of an error. None, and one that shows the key, fail the test.
func failed(t *testing.T, err error) retry.Failure {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	if strings.Contains(err.Error(), apiKey) {
		t.Errorf("the error shows the key: %v", err)
	}
	return *retry.FailureOf(err)
}

func user(text string) []runtime.Message { return []runtime.Message{{Role: runtime.User, Text: text}} }
