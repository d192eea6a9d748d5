package temporal

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/scenario"
)

// sent is v as another process gets it.
func sent[T any](t *testing.T, v *T) *T {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got := new(T)
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// overTheWire drives an execution here, and makes each call as another process would: of the request and the answer it
// has what is sent.
func overTheWire(t *testing.T, r *local.Run) {
	happened := make(chan func(), 1000)
	cancels, timers := map[int64]context.CancelCauseFunc{}, map[int64]*time.Timer{}
	if !r.Engine.View().Standing().Undoes {
		r.Engine.GoLive()
	}
	for {
		switch c := r.Next(); c.Op {
		case engine.None:
			select {
			case tell := <-happened:
				r.Engine.Tick(r.Now())
				tell()
			case <-r.Context().Done():
				if len(r.Engine.View().Flying()) == 0 {
					continue
				}
				tell := <-happened
				r.Engine.Tick(r.Now())
				tell()
			}
		case engine.Make:
			var ctx context.Context
			ctx, cancels[c.Call.ID] = context.WithCancelCause(context.WithoutCancel(r.Context()))
			made, id := c.Call, c.Call.ID
			req, err := sent(t, requestOf(r.ID, made, nil)).Restore()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				var res engine.Result
				if res.Bad = r.Caller.Prepare(req); res.Bad == nil {
					res = r.Caller.Make(ctx, req)
				}
				if made.Rollback && res.Err != nil && ctx.Err() != nil {
					res.Err = context.Cause(ctx)
				}
				<-time.After(time.Microsecond) // the way takes time
				back := sent(t, wire.ResultOf(&res)).Restore()
				happened <- func() {
					delete(cancels, id)
					r.Engine.Returned(id, back)
				}
			}()
		case engine.Stop:
			if cancel := cancels[c.Call.ID]; cancel != nil {
				cancel(c.Err)
				id := c.Call.ID
				time.AfterFunc(guard.SettleTime, func() {
					happened <- func() {
						if cancels[id] != nil && !r.Engine.View().Standing().Cancelled {
							r.Engine.Returned(id, &engine.Result{Left: true, Err: context.Canceled})
						}
					}
				})
			}
		case engine.Arm:
			id := c.Timer
			timers[id] = time.AfterFunc(c.Wait, func() { happened <- func() { r.Engine.Fired(id) } })
		case engine.Disarm:
			timers[c.Timer].Stop()
		case engine.Done:
			for _, timer := range timers {
				timer.Stop()
			}
			return
		case engine.Time:
			<-time.After(time.Microsecond) // so does thinking
			r.Serve(c)
		default:
			r.Serve(c)
		}
	}
}

var processes = regexp.MustCompile(`(?m)^(tools:.*exec|  exec:|mcp:)`)

// Every scenario comes out as it should when each call crosses to another process and back.
func TestScenariosOverTheWire(t *testing.T) {
	files, err := scenario.Find([]string{"../../testdata/scenarios", "../../recipes"}, nil)
	if err != nil || len(files) < 300 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if processes.Match(text) { // they go by the machine's clock
			continue
		}
		t.Run(scenario.Name(file), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o *scenario.Options
				if filepath.Base(filepath.Dir(file)) == "scenarios" {
					var none *host.Config
					rt, err := none.Runtime("")
					if err != nil {
						t.Fatal(err)
					}
					o = &scenario.Options{Runtime: rt}
				}
				result, err := scenario.Check(local.With(t.Context(), func(r *local.Run) { overTheWire(t, r) }), file, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range result.Failures {
					t.Error(f)
				}
			})
		})
	}
}
