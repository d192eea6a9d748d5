package temporal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/runtime"
)

// refusing are options of a client that the server refuses work, with an error.
func refusing(err error) client.Options {
	refuse := func(
		ctx context.Context, method string, req, reply any, c *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption,
	) error {
		if strings.Contains(method, "/Poll") {
			return err
		}
		return next(ctx, method, req, reply, c, o...)
	}
	return client.Options{ConnectionOptions: client.ConnectionOptions{
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(refuse)}}}
}

// A worker that the server refuses for good ends, and says why. The SDK asks again for two minutes before: in the short form
// the test says what the SDK says then.
func TestServerRefusesWorker(t *testing.T) {
	s := servertest.Start(t)
	for _, tt := range []struct {
		name string
		err  error
		code string
		text string
	}{
		{"namespace", serviceerror.NewNamespaceNotFound("default").(*serviceerror.NamespaceNotFound).Status().Err(), "cluster.namespace", "default"},
		{"request", serviceerror.NewInvalidArgument("bad queue").(*serviceerror.InvalidArgument).Status().Err(), "cluster.failed", "bad queue"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := refusing(tt.err)
			if testing.Short() {
				o = client.Options{}
			}
			w, err := NewWorker(s.Client(o), demoRuntime(t, &effects{}), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if testing.Short() {
				w.broke <- serviceerror.FromStatus(status.Convert(tt.err))
			}
			if err := w.Run(ctx); codeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the worker ended with %v, want %s", err, tt.code)
			}
		})
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger(level slog.Level) log.Logger {
	return log.NewStructuredLogger(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level})))
}

// Whatever becomes of the calls of a run: the log of the worker, and that of the client, has no secret.
func TestServerLog(t *testing.T) {
	s := servertest.Start(t)
	var said lines
	c := s.Client(client.Options{Logger: said.logger(slog.LevelDebug)})
	rt := demoRuntime(t, &effects{})
	leak := func(_ context.Context, in map[string]any) (any, error) {
		return nil, errors.New("refused: " + in["token"].(string))
	}
	rt.Tools = append(rt.Tools, runtime.NewTool(runtime.ToolSpec{Name: "demo.leak", Effect: runtime.ReadOnly}, leak))
	working(t, c, rt, nil)
	e := &Engine{Client: c}
	onServer(t, e, "log-demo", samples[0], Options{})
	for _, step := range []string{"demo.panics", `demo.leak, with: {token: "${{ secrets.PAY_TOKEN }}"}`,
		`demo.charge, with: {amount: 1, token: "${{ secrets.PAY_TOKEN }}"}`} {
		id, err := e.Start(t.Context(), compiled(t, head+"steps: {a: {uses: "+step+"}}\n"), nil, &Options{LocalReads: true})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := e.Wait(t.Context(), id); out == nil {
			t.Fatal(err)
		}
	}
	if text := said.String(); strings.Contains(text, canary) || !strings.Contains(text, "log-demo") {
		t.Errorf("the log:\n%s", text)
	}
}
