package runtimetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ExampleTexts() {
	model := runtimetest.Texts("Hello", "Bye")
	for _, prompt := range []string{"Hi", "See you"} {
		answer, err := model.Generate(context.Background(), &runtime.Request{
			Messages: []runtime.Message{{Role: runtime.User, Text: prompt}},
		})
		fmt.Println(answer.Text, err)
	}
	fmt.Println(model.Requests()[1].Messages[0].Text)
	// Output:
	// Hello <nil>
	// Bye <nil>
	// See you
}

func ExampleNewTool() {
	greet := runtimetest.NewTool("crm.greet", func(context.Context, json.RawMessage) (any, error) {
		return map[string]any{"said": "hello"}, nil
	})
	result, err := greet.Call(context.Background(), json.RawMessage(`{"to": "Ann"}`))
	fmt.Println(string(result), err)
	fmt.Println(len(greet.Calls()), string(greet.Calls()[0]))
	// Output:
	// {"said":"hello"} <nil>
	// 1 {"to": "Ann"}
}

func ExampleNewGate() {
	gate := runtimetest.NewGate("test.gate")
	done := make(chan string)
	go func() {
		result, _ := gate.Call(context.Background(), json.RawMessage(`{"n":1}`))
		done <- string(result)
	}()
	fmt.Println("under way:", string(<-gate.Started))
	gate.Release <- struct{}{}
	fmt.Println("result:", <-done)
	// Output:
	// under way: {"n":1}
	// result: {"n":1}
}

func TestModel(t *testing.T) {
	broken := errors.New("broken")
	m := &runtimetest.Model{Answers: []runtimetest.Answer{
		{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "a.b"}}, Usage: runtime.Usage{InputTokens: 3}},
		{Err: broken},
	}}
	got, err := m.Generate(t.Context(), &runtime.Request{Call: 1})
	want := &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "a.b"}}, Usage: runtime.Usage{InputTokens: 3}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("first answer (-want +got)\n%s%v", diff, err)
	}
	if _, err := m.Generate(t.Context(), &runtime.Request{Call: 2}); !errors.Is(err, broken) {
		t.Errorf("second answer: error %v", err)
	}
	if _, err := m.Generate(t.Context(), &runtime.Request{Call: 3}); err == nil {
		t.Error("a third answer of two")
	}
	if diff := cmp.Diff([]runtime.Request{{Call: 1}, {Call: 2}, {Call: 3}}, m.Requests()); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestModelIsSafeForConcurrentUse(t *testing.T) {
	m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		return &runtime.Response{Text: fmt.Sprint(req.Call)}, nil
	}}
	var wait sync.WaitGroup
	for i := range 10 {
		wait.Go(func() {
			if got, err := m.Generate(t.Context(), &runtime.Request{Call: i}); err != nil || got.Text != fmt.Sprint(i) {
				t.Errorf("call %d: %v, %v", i, got, err)
			}
		})
	}
	wait.Wait()
	if got := len(m.Requests()); got != 10 {
		t.Errorf("%d requests, want 10", got)
	}
}

// A recorded request does not change when the caller's lists grow.
func TestModelRecordsCopies(t *testing.T) {
	m := runtimetest.Texts("a")
	messages := make([]runtime.Message, 1, 2)
	req := &runtime.Request{Messages: messages}
	if _, err := m.Generate(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	messages[0].Text = "changed"
	if got := m.Requests()[0].Messages[0].Text; got != "" {
		t.Errorf("the record says %q", got)
	}
}

func TestTool(t *testing.T) {
	echo := runtimetest.NewTool("test.echo", nil)
	if got, err := echo.Call(t.Context(), json.RawMessage(`{"a":1}`)); err != nil || string(got) != `{"a":1}` {
		t.Errorf("echo: %s, %v", got, err)
	}
	broken := errors.New("broken")
	failing := runtimetest.NewTool("test.fail", func(context.Context, json.RawMessage) (any, error) { return nil, broken })
	if _, err := failing.Call(t.Context(), nil); !errors.Is(err, broken) {
		t.Errorf("fail: %v", err)
	}
	if got := len(failing.Calls()); got != 1 {
		t.Errorf("%d calls recorded, want 1", got)
	}
}

func TestGateAndItsContext(t *testing.T) {
	for _, tt := range []struct {
		deaf bool
		want error
	}{
		{false, context.Canceled},
		{true, nil},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		gate := runtimetest.NewGate("test.gate")
		gate.Deaf = tt.deaf
		done := make(chan error)
		go func() {
			_, err := gate.Call(ctx, nil)
			done <- err
		}()
		<-gate.Started
		cancel()
		if tt.deaf {
			close(gate.Release)
		}
		if got := <-done; !errors.Is(got, tt.want) {
			t.Errorf("deaf %t: error %v, want %v", tt.deaf, got, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runtimetest.NewGate("test.gate").Call(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that nobody sees start: %v", err)
	}
}

func TestGoodForARuntime(t *testing.T) {
	rt := runtime.Runtime{
		Models: map[string]runtime.Model{"m": runtimetest.Texts()},
		Tools:  []runtime.Tool{runtimetest.NewTool("a.b", nil), runtimetest.NewGate("a.c")},
	}
	if err := rt.Validate(); err != nil {
		t.Error(err)
	}
}
