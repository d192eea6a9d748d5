package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
)

// odd is a store whose methods all do the same.
type odd func()

func (o odd) Create(context.Context, checkpoint.Run, string, time.Duration, ...checkpoint.Record) (l checkpoint.Lease, err error) {
	o()
	return
}
func (o odd) Claim(context.Context, string, string, time.Duration) (l checkpoint.Lease, err error) {
	o()
	return
}
func (o odd) Renew(context.Context, checkpoint.Lease, time.Duration) (l checkpoint.Lease, err error) {
	o()
	return
}
func (o odd) Release(context.Context, checkpoint.Lease) (err error) { o(); return }
func (o odd) Append(context.Context, checkpoint.Lease, int64, ...checkpoint.Record) (err error) {
	o()
	return
}
func (o odd) AnswerPause(context.Context, checkpoint.Lease, int64, []byte, ...checkpoint.Record) (err error) {
	o()
	return
}
func (o odd) FindPause(context.Context, string, []byte) (p checkpoint.PauseInfo, err error) {
	o()
	return
}
func (o odd) Load(context.Context, string, int64) (s checkpoint.Summary, recs []checkpoint.Record, err error) {
	o()
	return
}
func (o odd) Definition(context.Context, string) (text json.RawMessage, err error) { o(); return }
func (o odd) List(context.Context, checkpoint.Filter) (list []checkpoint.Summary, err error) {
	o()
	return
}
func (o odd) Delete(context.Context, string) (err error) { o(); return }
func (o odd) Prune(context.Context, time.Time, ...checkpoint.Status) (n int, err error) {
	o()
	return
}
func (o odd) Close() (err error) { o(); return }
func (o odd) Count(context.Context, checkpoint.Filter, int) (n map[checkpoint.Phase]int, err error) {
	o()
	return
}
func (o odd) Pauses(context.Context, checkpoint.PauseFilter) (list []checkpoint.PauseInfo, err error) {
	o()
	return
}
func (o odd) Watch(context.Context, func(string)) (err error)                     { o(); return }
func (o odd) PutSignal(context.Context, string, checkpoint.Signal) (err error)    { o(); return }
func (o odd) EndSignals(context.Context, checkpoint.Lease, ...string) (err error) { o(); return }

type oddSignals struct{ odd }

func (o oddSignals) Signals(context.Context, string, bool) (list []checkpoint.Signal, err error) {
	o.odd()
	return
}

type oddDocuments struct{ odd }

func (o oddDocuments) PutDocument(context.Context, string, checkpoint.Document) (err error) {
	o.odd()
	return
}
func (o oddDocuments) Documents(context.Context, string) (list []checkpoint.Document, err error) {
	o.odd()
	return
}
func (o oddDocuments) Document(context.Context, string, string) (text string, ok bool, err error) {
	o.odd()
	return
}
func (o oddDocuments) SwapDocument(context.Context, string, string, *string, *string) (err error) {
	o.odd()
	return
}
func (o oddDocuments) DeleteDocuments(context.Context, string) (err error) { o.odd(); return }

// trust 8.13: whatever any method of a store does, its caller gets an error: at once, a moment after the caller's context
// has ended, or after a minute.
func TestEveryMethodIsGuarded(t *testing.T) {
	long := map[string]bool{"Prune": true, "Watch": true} // they may work for longer
	for name, of := range map[string]func(o odd) any{
		"Shared":     func(o odd) any { return guard.SharedStore(oddSignals{o}) },
		"Noted":      func(o odd) any { return guard.NotedStore(oddDocuments{o}) },
		"Stored":     func(o odd) any { return guard.Stored(o) },
		"Watched":    func(o odd) any { return guard.Watched(o) },
		"Documented": func(o odd) any { return guard.Documented(oddDocuments{o}) },
	} {
		for how, words := range map[string]string{"panics": "panic in the store: it is broken", "ends": "the store ended its goroutine", "hangs": "the store ignored its context and was left behind"} {
			for i := range reflect.TypeOf(of(nil)).NumMethod() {
				method := reflect.TypeOf(of(nil)).Method(i).Name
				t.Run(fmt.Sprint(name, " ", method, " ", how), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						free := make(chan struct{})
						defer close(free)
						store := of(func() {
							switch how {
							case "panics":
								panic("it is broken")
							case "ends":
								runtime.Goexit()
							}
							<-free
						})
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						wait := time.Minute
						if long[method] {
							wait = time.Hour
							time.AfterFunc(wait, cancel)
						}
						if how != "hangs" {
							wait = -guard.SettleTime
						}
						began := time.Now()
						err := callMethod(ctx, reflect.ValueOf(store).Method(i))
						if err == nil || !strings.Contains(err.Error(), words) {
							t.Errorf("%v, want %q", err, words)
						}
						if took := time.Since(began); took != wait+guard.SettleTime {
							t.Errorf("it took %v", took)
						}
					})
				})
			}
		}
	}
}

// callMethod calls a method with ctx and zero values, and returns its error.
func callMethod(ctx context.Context, m reflect.Value) error {
	var in []reflect.Value
	for i := range m.Type().NumIn() {
		if m.Type().IsVariadic() && i == m.Type().NumIn()-1 {
			break
		}
		v := reflect.Zero(m.Type().In(i))
		if i == 0 {
			v = reflect.ValueOf(ctx)
		}
		in = append(in, v)
	}
	out := m.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return err
}

// stuck is a store that says it is cancellable, as the one that it embeds is.
type stuck struct {
	*checkpoint.Memory
	free chan struct{}
}

func (s *stuck) Append(context.Context, checkpoint.Lease, int64, ...checkpoint.Record) error {
	<-s.free
	return nil
}

// A write of a store is guarded, unless the store itself promises to need no guard.
func TestWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{new(checkpoint.Memory), make(chan struct{})}
		defer close(s.free)
		hung := func(ctx context.Context) (any, error) { return nil, s.Append(ctx, checkpoint.Lease{}, 0) }
		began := time.Now()
		_, err := guard.Write(t.Context(), s, hung)
		if err == nil || !strings.Contains(err.Error(), "was left behind") {
			t.Errorf("a store that embeds another one: %v", err)
		}
		if took := time.Since(began); took != guard.StoreTime+guard.SettleTime {
			t.Errorf("it took %v", took)
		}
	})
	defer func() {
		if p := recover(); p != "here" {
			t.Errorf("%v, want the panic of a call that is not guarded", p)
		}
	}()
	_, _ = guard.Write(t.Context(), new(checkpoint.Memory), func(ctx context.Context) (any, error) {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > guard.StoreTime {
			t.Errorf("the call ends at %v", end)
		}
		panic("here")
	})
}
