package endpoint_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
)

func client(t *testing.T, opts endpoint.Options) *endpoint.Client {
	t.Helper()
	opts.Model, opts.DefaultURL = "m", "https://api.example.com/v1"
	c, err := endpoint.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A stream ends where its reader, the server or a failure ends it, and nowhere else.
func TestReadEvents(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		stop         string // the data at which read returns io.EOF
		finished     bool
		want         []string
		wantErr      string // "": none
	}{
		{"to its end", "data: 1\n\n: ping\n\nevent: x\ndata: 2\n\n", "", true, []string{"1", "2"}, ""},
		{"by the reader", "data: 1\n\ndata: 2\n\ndata: 3\n\n", "2", false, []string{"1", "2"}, ""},
		{"by a mark", "data: 1\r\n\r\ndata: [DONE]\r\n\r\ndata: 2\n\n", "", false, []string{"1"}, ""},
		{"cut", "data: 1\n\ndata: {\"a", "", false, []string{"1"}, "the stream was cut: unexpected EOF"},
		{"an error", "data: 1\n\nevent: error\ndata: {\"message\": \"too\\nbusy\"}\n\n", "", false, []string{"1"}, "the answer is an error: too busy"},
		{"no stream", "hello\n", "", false, nil, "the answer is neither JSON nor a stream of events: hello"},
		{"an event that is too large", "data: 1" + strings.Repeat("2", 40) + "\n\n", "", false, nil, "the answer is larger than 40 bytes"},
	} {
		c := client(t, endpoint.Options{MaxBytes: 40})
		var got []string
		err := c.ReadEvents(t.Context(), "chat", bufio.NewReader(strings.NewReader(tt.stream)), func() bool { return tt.finished }, func(data []byte) error {
			got = append(got, string(data))
			if string(data) == tt.stop {
				return io.EOF
			}
			return nil
		})
		if !slices.Equal(got, tt.want) || tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.wantErr)) {
			t.Errorf("%s: got %q, %v, want %q, %s", tt.name, got, err, tt.want, tt.wantErr)
		}
	}
}

func TestCount(t *testing.T) {
	for text, want := range map[string]endpoint.Count{`12`: 12, `12.0`: 12, `"12"`: 12, `null`: 0, `"many"`: 0, `[]`: 0, `1e99`: 0, `-1`: -1} {
		var got endpoint.Count
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
}

// An error within a good answer has the reason that a status would have had.
func TestReasonsOfFaults(t *testing.T) {
	for raw, want := range map[string]retry.Reason{
		`{"type": "overloaded_error"}`:                   retry.ServerError,
		`{"type": "api_error"}`:                          retry.ServerError,
		`{"type": "rate_limit_error"}`:                   retry.RateLimit,
		`{"code": 503}`:                                  retry.ServerError,
		`{"code": 429, "type": "insufficient_quota"}`:    "",
		`{"type": "invalid_request_error"}`:              "",
		`"the sentence of a server that knows no types"`: "",
	} {
		err := client(t, endpoint.Options{}).FaultIn(t.Context(), "chat", json.RawMessage(raw))
		if f, ok := errors.AsType[*retry.Failure](err); !ok || f.Reason != want {
			t.Errorf("%s: got %v, want the reason %q", raw, err, want)
		}
	}
}

// Google says in the details of a failure how long to wait, where others have a header.
func TestRetryInfo(t *testing.T) {
	const kind = `{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": `
	for details, want := range map[string]time.Duration{
		`[{"links": []}, ` + kind + `"36.5s"}]`:     36500 * time.Millisecond,
		`[` + kind + `"-1s"}, ` + kind + `"2s"}]`:   2 * time.Second,
		`[` + kind + `"soon"}, ` + kind + `7}]`:     0,
		`[1, null]`:                                 0,
		`{"@type": "RetryInfo", "retryDelay": "s"}`: 0,
	} {
		err := client(t, endpoint.Options{}).FaultIn(t.Context(), "chat", json.RawMessage(`{"code": 429, "details": `+details+`}`))
		if f, ok := errors.AsType[*retry.Failure](err); !ok || f.Reason != retry.RateLimit || f.After != want {
			t.Errorf("%s: got %v, want to wait %s", details, err, want)
		}
	}
}

// Names that differ do so for the endpoint, too, in the characters that all of them take.
func TestToolName(t *testing.T) {
	for name, want := range map[string]string{
		"look":                          "look",
		"_a-b.c":                        "_a-b__c",
		"7zip":                          "_7zip_98fa304e",
		"-x":                            "_-x_",
		"a b":                           "a_b_",
		strings.Repeat("x", 80) + ".re": strings.Repeat("x", 55) + "_",
	} {
		got := endpoint.ToolName(name)
		if cut := strings.HasSuffix(want, "_") && len(got) == len(want)+8 && strings.HasPrefix(got, want); got != want && !cut {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
