package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// inMemory is a server that has been opened without a program or an endpoint.
func inMemory(t *testing.T, server *sdk.Server, timeout time.Duration) (*Server, func()) {
	t.Helper()
	s := &Server{cfg: Config{Name: "test", Timeout: timeout, MaxBytes: DefaultMaxBytes}, redact: value.NewRedactor(nil), hide: value.NewRedactor(nil),
		busy: make(chan struct{}, 1), turn: make(chan struct{}, 1), closed: make(chan struct{}), manner: newest}
	s.client = sdk.NewClient(&sdk.Implementation{Name: "braise", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	ours, theirs := sdk.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_ = server.Run(ctx, theirs)
		close(ended)
	}()
	n := &session{wire: newWire(time.Minute, time.Minute), lost: make(chan struct{}), end: func() {}}
	var err error
	if n.ClientSession, err = s.client.Connect(ctx, watched{ours, n.wire}, nil); err == nil {
		n.listed, err = n.list(ctx)
	}
	if err == nil {
		var tools []runtime.Tool
		s.session = n
		tools, err = s.bind(n.listed)
		s.tools.Store(&tools)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		_ = n.Close()
		cancel()
		<-ended
	}
}

// Each progress of a call begins its timeout again, up to ten times as long; that of other calls does not.
func TestProgress(t *testing.T) {
	type work struct {
		Steps, Seconds int
		Token          any // instead of that of the call
	}
	for name, tt := range map[string]struct {
		work
		took time.Duration
		want string // of the error
	}{
		"none, in time":      {work{1, 29, "x"}, 29 * time.Second, ""},
		"none, too late":     {work{1, 31, "x"}, 30 * time.Second, "timed out after 30s"},
		"in time":            {work{13, 20, nil}, 260 * time.Second, ""},
		"in time, and stuck": {work{2, 29, nil}, 58 * time.Second, ""},
		"too late":           {work{2, 31, nil}, 30 * time.Second, "timed out after 30s"},
		"of another call":    {work{3, 20, "braise-7"}, 30 * time.Second, "timed out after 30s"},
		"of none":            {work{3, 20, ""}, 30 * time.Second, "timed out after 30s"},
		"of a number":        {work{3, 20, 1}, 30 * time.Second, "timed out after 30s"},
		"without end":        {work{1000, 20, nil}, 300 * time.Second, "timed out after 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
				sdk.AddTool(server, &sdk.Tool{Name: "work"}, func(ctx context.Context, req *sdk.CallToolRequest, in struct{}) (*sdk.CallToolResult, any, error) {
					token := tt.Token
					if token == nil {
						token = req.Params.GetProgressToken()
					}
					for i := range tt.Steps {
						select {
						case <-time.After(time.Duration(tt.Seconds) * time.Second):
						case <-ctx.Done():
							return nil, nil, ctx.Err()
						}
						_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i), Message: "at it"})
					}
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
				})
				s, end := inMemory(t, server, 30*time.Second)
				defer end()
				began := time.Now()
				got, err := s.Tools()[0].Call(t.Context(), json.RawMessage(`{}`))
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				switch {
				case tt.want == "" && (err != nil || string(got) != `"done"`):
					t.Errorf("got %s, %v", got, err)
				case tt.want != "" && (!errors.Is(err, context.DeadlineExceeded) || err.Error() != `mcp server "test": tool "work": `+tt.want || retry.FailureOf(err).Reason != retry.Timeout):
					t.Errorf("got %s, %v, want %s", got, err, tt.want)
				}
			})
		})
	}
}

// told keeps what is emitted.
type told struct{ names []string }

func (e *told) Emitted(t trace.Told) trace.Told {
	e.names = append(e.names, t.Name)
	return t
}

// Progress shows in the trace, without secrets.
func TestProgressInTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		sdk.AddTool(server, &sdk.Tool{Name: "work"}, func(ctx context.Context, req *sdk.CallToolRequest, in struct{}) (*sdk.CallToolResult, any, error) {
			for i, message := range []string{"", "", "with\nhunter22hunter"} {
				_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(3 * i), Message: message})
			}
			time.Sleep(time.Second)
			return &sdk.CallToolResult{}, nil, nil
		})
		s, end := inMemory(t, server, 30*time.Second)
		defer end()
		s.redact = value.NewRedactor([]string{"hunter22hunter"})
		ctx := &trace.Emitter{Context: t.Context(), To: new(told)}
		if _, err := s.Tools()[0].Call(ctx, nil); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range ctx.End() {
			text, err := value.JSON(e.Data)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Name+" "+string(text))
		}
		want := []string{
			`step.said {"text":"1","value":{"progress":1,"tool":"mcp.test.work"}}`,
			`step.said {"text":"2 of 3","value":{"progress":2,"tool":"mcp.test.work","total":3}}`,
			`step.said {"text":"with ***","value":{"progress":3,"tool":"mcp.test.work","total":6}}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
