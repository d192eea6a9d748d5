// Package batchtest is a server that answers in batches for tests: it speaks the wire formats of OpenAI's Batch API and
// of Anthropic's Message Batches API, keeps what it was sent, and can be told to misbehave.
package batchtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is the server of a provider. Set its fields before it is used; the methods are safe for concurrent use. The
// zero Server is an http.Handler that answers everything.
type Server struct {
	URL string // the base URL of both APIs

	// Lines changes the lines of the results of a batch, by the number of the batch from 1; nil: they stay, in the
	// order of the requests. OpenAI's error file has lines of its own.
	Lines func(n int, lines []string) []string
	// Answer is the text for a prompt; nil: "re: PROMPT". An error is the status that the request gets.
	Answer func(prompt string) (text string, status int)
	// Status is the status of the n-th batch, as OpenAI words it, when it was asked for so often; nil: completed.
	Status func(n, asked int) string
	// Fault says what goes wrong with a request, like "POST /v1/batches", the n-th of its kind; nil: nothing does.
	Fault func(request string, n int) Fault

	mu      sync.Mutex
	batches []*Batch
	files   map[string]string
	counts  map[string]int
	log     []string
}

// Fault is what goes wrong with a request. The zero Fault is nothing.
type Fault struct {
	Status int    // instead of the answer
	Body   string // with the Status, or instead of a good answer
	Lost   bool   // it is done, and the connection is closed
}

// Batch is a batch that the server has taken.
type Batch struct {
	ID        string
	Key       string   // of OpenAI's metadata
	IDs       []string // of the requests
	Bodies    []string // of them
	Created   time.Time
	Cancelled bool
	asked     int
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{}
	server := httptest.NewUnstartedServer(s)
	s.URL = "http://" + server.Listener.Addr().String() + "/v1"
	server.Start()
	t.Cleanup(server.Close)
	return s
}

// Set changes what the server does, by f, between two requests. The race detector does not see that a request comes
// after what its sender did before: fields of a server that has started are set by f.
func (s *Server) Set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Batches are those that were taken.
func (s *Server) Batches() []Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Batch
	for _, b := range s.batches {
		list = append(list, *b)
	}
	return list
}

// Log is what was requested, in order.
func (s *Server) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	what := r.Method + " " + r.URL.Path
	for _, prefix := range []string{"/v1/batches/", "/v1/files/", "/v1/messages/batches/"} {
		if rest, ok := strings.CutPrefix(r.URL.Path, prefix); ok {
			_, tail, _ := strings.Cut(rest, "/")
			what = strings.TrimSuffix(r.Method+" "+prefix+"ID/"+tail, "/")
		}
	}
	if s.files == nil {
		s.files, s.counts = map[string]string{}, map[string]int{}
	}
	s.log = append(s.log, what)
	s.counts[what]++
	var fault Fault
	if s.Fault != nil {
		fault = s.Fault(what, s.counts[what])
	}
	if fault.Status != 0 {
		w.WriteHeader(fault.Status)
		fmt.Fprint(w, fault.Body)
		return
	}
	answer, status := s.answer(what, r, body)
	switch {
	case fault.Lost:
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
		return
	case fault.Body != "":
		answer = fault.Body
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, answer)
}

func (s *Server) answer(what string, r *http.Request, body []byte) (string, int) {
	switch what {
	case "POST /v1/files":
		return s.upload(r, body)
	case "POST /v1/batches":
		var in struct {
			File     string            `json:"input_file_id"`
			Endpoint string            `json:"endpoint"`
			Window   string            `json:"completion_window"`
			Metadata map[string]string `json:"metadata"`
		}
		if json.Unmarshal(body, &in) != nil || s.files[in.File] == "" || in.Window != "24h" {
			return problem("invalid_request_error", "a file of this id is wanted"), http.StatusBadRequest
		}
		b := &Batch{Key: in.Metadata["braise_batch"]}
		for line := range strings.Lines(s.files[in.File]) {
			var req struct {
				ID   string          `json:"custom_id"`
				URL  string          `json:"url"`
				Body json.RawMessage `json:"body"`
			}
			if json.Unmarshal([]byte(line), &req) != nil || req.URL != in.Endpoint {
				return problem("invalid_request_error", "a line is wrong"), http.StatusBadRequest
			}
			b.IDs, b.Bodies = append(b.IDs, req.ID), append(b.Bodies, string(req.Body))
		}
		return s.take(b, "batch_%d"), http.StatusOK
	case "POST /v1/messages/batches":
		var in struct {
			Requests []struct {
				ID     string          `json:"custom_id"`
				Params json.RawMessage `json:"params"`
			} `json:"requests"`
		}
		if json.Unmarshal(body, &in) != nil || len(in.Requests) == 0 {
			return problem("invalid_request_error", "requests: at least one is wanted"), http.StatusBadRequest
		}
		b := &Batch{}
		for _, req := range in.Requests {
			b.IDs, b.Bodies = append(b.IDs, req.ID), append(b.Bodies, string(req.Params))
		}
		return s.take(b, "msgbatch_%d"), http.StatusOK
	case "GET /v1/batches", "GET /v1/messages/batches":
		return s.list(r), http.StatusOK
	}
	return s.answerOf(what, r.URL.Path)
}

// upload takes a file of a form.
func (s *Server) upload(r *http.Request, body []byte) (string, int) {
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	file, _, err := r.FormFile("file")
	if err != nil || r.FormValue("purpose") != "batch" {
		return problem("invalid_request_error", "a file for a batch is wanted"), http.StatusBadRequest
	}
	content, _ := io.ReadAll(file)
	id := fmt.Sprint("file-", len(s.files)+1)
	s.files[id] = string(content)
	return fmt.Sprintf(`{"id":%q,"object":"file"}`, id), http.StatusOK
}

func (s *Server) take(b *Batch, id string) string {
	b.ID, b.Created = fmt.Sprintf(id, len(s.batches)+1), time.Now().UTC()
	s.batches = append(s.batches, b)
	return s.shown(b, "validating")
}

// list is a page of the batches, the newest first, two at a time.
func (s *Server) list(r *http.Request) string {
	after := r.URL.Query().Get("after") + r.URL.Query().Get("after_id")
	var page []string
	more := false
	for i := len(s.batches) - 1; i >= 0; i-- {
		b := s.batches[i]
		switch {
		case after != "":
			if b.ID == after {
				after = ""
			}
		case len(page) == 2:
			more = true
		default:
			page = append(page, s.shown(b, s.statusOf(i)))
		}
	}
	return fmt.Sprintf(`{"data":[%s],"has_more":%t}`, strings.Join(page, ","), more)
}

// statusOf is the status of a batch by its index.
func (s *Server) statusOf(i int) string {
	switch b := s.batches[i]; {
	case b.Cancelled:
		return "cancelled"
	case s.Status != nil:
		return s.Status(i+1, b.asked)
	}
	return "completed"
}

// shown is a batch as both APIs show it.
func (s *Server) shown(b *Batch, status string) string {
	n := len(b.IDs)
	out := map[string]any{"id": b.ID, "metadata": map[string]any{"braise_batch": b.Key}}
	if strings.HasPrefix(b.ID, "batch_") {
		out["status"], out["created_at"] = status, b.Created.Unix()
		out["request_counts"] = map[string]int{"total": n, "completed": 0, "failed": 0}
		switch status {
		case "completed", "expired", "cancelled":
			out["output_file_id"], out["error_file_id"] = "out-"+b.ID, "err-"+b.ID
			out["request_counts"] = map[string]int{"total": n, "completed": n, "failed": 0}
		case "failed":
			out["errors"] = map[string]any{"data": []any{map[string]any{"code": "token_limit_exceeded",
				"message": "enqueued token limit reached", "line": nil}}}
		}
		text, _ := json.Marshal(out)
		return string(text)
	}
	out["created_at"], out["results_url"] = b.Created.Format(time.RFC3339Nano), nil
	counts := map[string]int{"processing": n}
	out["processing_status"] = "in_progress"
	switch status {
	case "completed", "expired", "cancelled":
		out["processing_status"], out["results_url"] = "ended", s.URL+"/messages/batches/"+b.ID+"/results"
		counts = map[string]int{"succeeded": n}
	case "cancelling":
		out["processing_status"] = "canceling"
	}
	out["request_counts"] = counts
	text, _ := json.Marshal(out)
	return string(text)
}

// answerOf answers a request for a batch or its results.
func (s *Server) answerOf(what, path string) (string, int) {
	for i, b := range s.batches {
		if !strings.Contains(path+"/", b.ID+"/") {
			continue
		}
		switch {
		case strings.HasSuffix(what, "/cancel"):
			b.Cancelled = true
			return s.shown(b, "cancelling"), http.StatusOK
		case strings.HasSuffix(what, "/content"), strings.HasSuffix(what, "/results"):
			return s.results(i, b, strings.Contains(path, "/err-")), http.StatusOK
		}
		b.asked++
		return s.shown(b, s.statusOf(i)), http.StatusOK
	}
	return problem("not_found_error", "there is no such batch"), http.StatusNotFound
}

// results are the lines of a batch; of OpenAI's, those that failed stand in another file.
func (s *Server) results(i int, b *Batch, failed bool) string {
	var lines []string
	for n, id := range b.IDs {
		if line, bad := s.line(b, id, b.Bodies[n], s.statusOf(i)); bad == failed || !strings.HasPrefix(b.ID, "batch_") {
			lines = append(lines, line)
		}
	}
	if s.Lines != nil {
		lines = s.Lines(i+1, lines)
	}
	return strings.Join(lines, "\n")
}

// line is what came of a request.
func (s *Server) line(b *Batch, id, body, status string) (line string, bad bool) {
	prompt, code := PromptOf(body), 200
	text := "re: " + prompt
	if s.Answer != nil {
		text, code = s.Answer(prompt)
	}
	if strings.HasPrefix(b.ID, "batch_") {
		switch {
		case status == "expired":
			return fmt.Sprintf(`{"custom_id":%q,"response":null,"error":{"code":"batch_expired"}}`, id), true
		case status == "cancelled":
			return fmt.Sprintf(`{"custom_id":%q,"response":null,"error":{"code":"batch_cancelled"}}`, id), true
		case code != 200 && code != 0:
			return fmt.Sprintf(`{"custom_id":%q,"response":{"status_code":%d,"body":%s},"error":null}`, id, code,
				problem("some_error", text)), true
		}
		return fmt.Sprintf(`{"custom_id":%q,"response":{"status_code":200,"body":{"model":"big-1","choices":`+
			`[{"finish_reason":"stop","message":{"role":"assistant","content":%q}}],`+
			`"usage":{"prompt_tokens":10,"completion_tokens":5}}},"error":null}`, id, text), false
	}
	switch {
	case status == "expired":
		return fmt.Sprintf(`{"custom_id":%q,"result":{"type":"expired"}}`, id), true
	case status == "cancelled":
		return fmt.Sprintf(`{"custom_id":%q,"result":{"type":"canceled"}}`, id), true
	case code != 200 && code != 0:
		kind := map[int]string{400: "invalid_request_error", 529: "overloaded_error"}[code]
		return fmt.Sprintf(`{"custom_id":%q,"result":{"type":"errored","error":%s}}`, id, problem(kind, text)), true
	}
	return fmt.Sprintf(`{"custom_id":%q,"result":{"type":"succeeded","message":{"model":"big-1","stop_reason":`+
		`"end_turn","content":[{"type":"text","text":%q}],`+
		`"usage":{"input_tokens":10,"output_tokens":5}}}}`, id, text), false
}

// problem is an error as both APIs word it.
func problem(kind, message string) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
}

// PromptOf is the text of the last message of a request.
func PromptOf(body string) string {
	var in struct {
		Messages []struct {
			Content any `json:"content"`
		} `json:"messages"`
	}
	if json.NewDecoder(bufio.NewReader(strings.NewReader(body))).Decode(&in) != nil || len(in.Messages) == 0 {
		return ""
	}
	last := in.Messages[len(in.Messages)-1].Content
	if parts, ok := last.([]any); ok && len(parts) > 0 {
		part, _ := parts[len(parts)-1].(map[string]any)
		last = part["text"]
	}
	text, _ := last.(string)
	return text
}
