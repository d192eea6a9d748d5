package mcp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/trace"
)

// A call says which span it is of, in a header and in _meta, if there is one. A header of the host's own goes before it.
func TestTraceparent(t *testing.T) {
	e := endpoint(t)
	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var mu sync.Mutex
	var got [][2]string
	e.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		var body struct {
			Params struct {
				Meta struct{ Traceparent string } `json:"_meta"`
			}
		}
		text, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		if err == nil {
			err = json.Unmarshal(text, &body)
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, [2]string{r.Header.Get("Traceparent"), body.Params.Meta.Traceparent})
		return false
	})
	mine := e.config()
	mine.Headers = map[string]string{"Traceparent": "mine"}
	with := trace.WithTraceparent(t.Context(), span)
	s, own := open(t, e.config()), open(t, mine)
	if _, err := call(with, t, s, "echo", `{"text":"a"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t.Context(), t, s, "echo", `{"text":"b"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := call(with, t, own, "echo", `{"text":"c"}`); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][2]string{{span, span}, {}, {"mine", span}}, got); diff != "" {
		t.Errorf("header and _meta of each call (-want +got):\n%s", diff)
	}
}
