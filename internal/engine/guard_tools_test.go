package engine_test

import (
	"context"
	"encoding/json"
	goruntime "runtime"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// oddTool is a tool whose Spec is asked by a function.
type oddTool struct{ spec func() runtime.ToolSpec }

func (t oddTool) Spec() runtime.ToolSpec { return t.spec() }

func (oddTool) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage("1"), nil
}

// oddEnv is an environment whose tools are asked by a function.
type oddEnv struct{ tools func() []runtime.Tool }

func (e oddEnv) Tools() []runtime.Tool { return e.tools() }

func (oddEnv) Instructions(context.Context) (string, error) { return "", nil }

// trust 8.13: whatever Spec, EffectOf, Env.Tools and NewRunID do, Run, Check and Answer return, with the code of the port.
func TestToolsAndHostsAreGuarded(t *testing.T) {
	for how, be := range map[string]func(){"panics": func() { panic("boom") }, "ends": goruntime.Goexit} {
		for _, tt := range []struct {
			port, run, check, answer string // the codes; "": they are ok
			set                      func(*runtime.Runtime)
		}{
			{"Spec", "runtime.invalid", "runtime.invalid", "runtime.invalid", func(rt *runtime.Runtime) {
				rt.Tools = []runtime.Tool{oddTool{func() runtime.ToolSpec { be(); return runtime.ToolSpec{} }}}
			}},
			{"EffectOf", "", "", "step.panic", func(rt *runtime.Runtime) {
				rt.Tools = []runtime.Tool{oddTool{func() runtime.ToolSpec {
					return runtime.ToolSpec{Name: "t.odd", EffectOf: func(json.RawMessage) runtime.Effect { be(); return runtime.ReadOnly }}
				}}}
			}},
			{"Env.Tools", "env.failed", "env.failed", "env.failed", func(rt *runtime.Runtime) {
				rt.Env = oddEnv{func() []runtime.Tool { be(); return nil }}
			}},
			{"Spec of a tool of Env", "env.failed", "env.failed", "env.failed", func(rt *runtime.Runtime) {
				rt.Env = oddEnv{func() []runtime.Tool {
					return []runtime.Tool{oddTool{func() runtime.ToolSpec { be(); return runtime.ToolSpec{} }}}
				}}
			}},
			{"NewRunID", "runtime.invalid", "", "", func(rt *runtime.Runtime) {
				rt.NewRunID = func() string { be(); return "" }
			}},
		} {
			t.Run(tt.port+" "+how, func(t *testing.T) {
				wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go on}}\n  call: {uses: t.odd, needs: [ask]}\n"+
					"  agent: {uses: agent, needs: [call], with: {agent: {model: m, tools: [t.odd]}, prompt: 't.odd {}'}}\n"))
				good := func() *runtime.Runtime {
					return &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{},
						Models: map[string]runtime.Model{"m": runtimetest.Texts("x", "x")},
						Tools:  []runtime.Tool{oddTool{func() runtime.ToolSpec { return runtime.ToolSpec{Name: "t.odd"} }}}}
				}
				rt := good()
				out, err := wf.Run(t.Context(), nil, rt)
				if err != nil {
					t.Fatal(err)
				}
				tt.set(rt)
				bad := good()
				tt.set(bad)
				for _, leg := range []struct {
					name, want string
					do         func() error
				}{
					{"Run", tt.run, func() error { _, err := wf.Run(t.Context(), nil, bad); return err }},
					{"Check", tt.check, func() error { _, err := wf.Check(t.Context(), bad); return err }},
					{"Answer", tt.answer, func() error {
						_, err := workflow.Answer(t.Context(), out.RunID, "ask", runtest.Yes, rt, nil)
						return err
					}},
				} {
					returned, over := false, make(chan struct{})
					var err error
					go func() {
						defer close(over)
						defer func() {
							if p := recover(); p != nil {
								t.Errorf("%s: panic: %v", leg.name, p)
							}
						}()
						err = leg.do()
						returned = true
					}()
					<-over
					code := ""
					if e, ok := err.(*runtime.Error); ok {
						code = e.Code
					}
					if !returned || code != leg.want {
						t.Errorf("%s: returned: %t, %v; want the code %q", leg.name, returned, err, leg.want)
					}
				}
			})
		}
	}
}
