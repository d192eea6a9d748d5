package program_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// trust 1.1, 1.2: a name under approval or deny that can match nothing is an error, when the recipe is compiled if the
// agent lists its tools, else when the run begins, and so is one under tools; no model is called.
func TestNamesOfToolsAreChecked(t *testing.T) {
	for _, tt := range []struct{ agent, code, when string }{
		{"tools: [exec.run], approval: {exec.rum: pause}", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], deny: [exec.rum]", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], approval: {'exec.*': pause}", "", ""},
		{"tools: [exec.run], approval: {'exce.*': pause}", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], approval: {'': pause}", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], approval: {'exec.run:git': never, exec.run: pause}", "", ""},
		{"tools: [exec.run], approval: {'exec.run:': never}", "agent.unknownTool", "compiled"},
		// trust 8.2
		{"tools: [exec.run], approval: {'exec.run:*': never}, deny: ['exec.run:g++']", "", ""},
		{"tools: [exec.run], approval: {'exec.run:git push': pause}", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], approval: {'exec.run: rm': pause}", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], approval: {'exec.run:/usr/bin/*': pause}", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], deny: ['exec.run:/usr/bin/touch']", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], deny: ['exec.run:rm *']", "agent.unknownTool", "compiled"},
		{"tools: all, approval: {'exec.run:git *': pause}", "agent.unknownTool", "compiled"},
		{"tools: all, deny: ['exec.run:']", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], approval: {external: pause, read_only: never, '*': refuse}", "", ""},
		{"tools: [exec.run], approval: {externel: pause}", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], approval: {delegate_x: pause}", "agent.unknownTool", "compiled"},
		{"tools: [exec.run], approval: {human.ask: never, agent.spawn: pause}", "", ""},
		{"tools: [exec.run], approval: {'${{ inputs.m }}': pause}", "yaml.value", "compiled"},
		{"tools: [exec.run], deny: ['${{ inputs.m }}']", "yaml.value", "compiled"},
		{"tools: all, approval: {test.echo: pause}", "", ""},
		{"tools: all, approval: {'test.*': pause}", "", ""},
		{"tools: all, approval: {test.ecko: pause}", "agent.unknownTool", "begins"},
		{"tools: all, approval: {delegate_x: pause}", "agent.unknownTool", "begins"},
		{"tools: all, deny: [exec.rum]", "agent.unknownTool", "compiled"},
		{"tools: all, deny: [agent.spwan]", "agent.unknownTool", "compiled"},
		{"tools: all, deny: [crm.lookup]", "", ""}, // it is not there, and is not called
		// trust 8.4
		{"tools: [test.echo]", "", ""},
		{"tools: [test.ecko]", "agent.unknownTool", "begins"},
		{"tools: [file.read]", "", ""}, // it is not configured, which is a warning
		{"tools: ['*']", "agent.unknownTool", "compiled"},
		{"tools: [all]", "agent.unknownTool", "begins"},
	} {
		t.Run(tt.agent, func(t *testing.T) {
			wf, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": runtest.Head + "inputs: {m: {default: x}}\nsteps:\n  a: {uses: agent, with: {agent: {model: m, " + tt.agent + "}, prompt: go}}\n"}, nil)
			if compiled := tt.when == "compiled"; compiled != (wf == nil) {
				t.Fatalf("diagnostics %s", runtest.Printed(list))
			} else if compiled {
				if tt.code == "agent.unknownTool" && (len(list) != 1 || string(list[0].Code) != tt.code || list[0].Position.Line == 0) {
					t.Errorf("diagnostics %s", runtest.Printed(list))
				}
				return
			}
			model := runtimetest.Texts("done")
			out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{runtest.Echo, named("exec.run")}})
			if tt.code == "" {
				if err != nil {
					t.Errorf("%v", err)
				}
			} else if err == nil || out.Failure().Code != tt.code || len(model.Requests()) > 0 {
				t.Errorf("%v, %d requests", err, len(model.Requests()))
			}
		})
	}
}

// named is an external tool of that name that gives back its arguments.
func named(name string) runtime.Tool {
	return runtest.JSONTool{Name: name, F: runtest.Echo.(runtest.JSONTool).F}
}

// The most specific key decides, a deny always wins, and programs are looked for in command lines.
func TestApprovalBySpecificity(t *testing.T) {
	const git, rm, shell, hidden = `{"argv":["git","status"]}`, `{"argv":["rm","x"]}`, `{"argv":["sh","-c","git add; rm x"]}`, `{"argv":["sh","-c","$(rm x)"]}`
	for _, tt := range []struct {
		agent, tool, args string
		want              string // called, paused or refused
	}{
		{"tools: all, approval: {'*': pause}", "test.echo", "{}", "paused"},
		{"tools: all, approval: {'*': pause, external: never}", "test.echo", "{}", "called"},
		{"tools: all, approval: {external: pause, 'test.*': never}", "test.echo", "{}", "called"},
		{"tools: all, approval: {'test.*': never, 'test.sub.*': pause}", "test.sub.it", "{}", "paused"},
		{"tools: all, approval: {'test.*': pause, test.echo: never}", "test.echo", "{}", "called"},
		{"tools: all, approval: {read_only: pause}", "test.echo", "{}", "called"},
		{"tools: all, approval: {test.echo: refuse}", "test.echo", "{}", "refused"},
		{"tools: all, approval: {exec.run: pause, 'exec.run:git': never}", "exec.run", git, "called"},
		{"tools: all, approval: {exec.run: pause, 'exec.run:git': never}", "exec.run", rm, "paused"},
		{"tools: all, approval: {exec.run: pause, 'exec.run:git': never}", "exec.run", `{"argv":["/tmp/git"]}`, "paused"},
		{"tools: all, approval: {exec.run: never, 'exec.run:rm': pause}", "exec.run", shell, "paused"},
		{"tools: all, approval: {exec.run: never, 'exec.run:rm': refuse}", "exec.run", hidden, "refused"},
		{"tools: all, approval: {exec.run: never, 'exec.run:rm': pause}", "exec.run", `{"argv":["/bin/rm","x"]}`, "paused"},
		{"tools: all, deny: ['test.*']", "test.echo", "{}", "refused"},
		{"tools: all, deny: ['*'], approval: {test.echo: never}", "test.echo", "{}", "refused"},
		{"tools: all, deny: [external], approval: {test.echo: never}", "test.echo", "{}", "refused"},
		{"tools: all, deny: ['exec.run:rm'], approval: {'exec.run:rm': never}", "exec.run", rm, "refused"},
		{"tools: all, deny: ['exec.run:rm']", "exec.run", hidden, "refused"},
		{"tools: all, deny: ['exec.run:rm']", "exec.run", shell, "refused"},
		{"tools: all, deny: ['exec.run:rm']", "exec.run", git, "called"},
		// trust 8.2 and 8.3
		{"tools: all, deny: ['exec.run:*']", "exec.run", git, "refused"},
		{"tools: all, approval: {exec.run: never, 'exec.run:*': pause}", "exec.run", git, "paused"},
		{"tools: all, approval: {exec.run: pause, 'exec.run:*': refuse, 'exec.run:git': never}", "exec.run", git, "called"},
		{"tools: all, approval: {'exec.run:*': never, 'exec.run:rm': pause}", "exec.run", `{"argv":["sh","-c","for f in *; do rm $f; done"]}`, "paused"},
		{"tools: all, approval: {exec.run: never, 'exec.run:git': never, 'exec.run:*': pause}", "exec.run", `{"argv":["sh","-c","$x"]}`, "paused"},
		{"tools: all, deny: ['exec.run:rm']", "exec.run", `{"argv":["bash","-c","if true; then eval rm x; fi"]}`, "refused"},
		{"tools: all, deny: ['exec.run:rm']", "exec.run", `{"argv":["find",".","-exec","/bin/rm","{}",";"]}`, "refused"},
		{"tools: all, deny: ['exec.run:rm']", "exec.run", `{"argv":["awk","BEGIN { system(\"rm x\") }"]}`, "refused"},
		{"tools: all, deny: ['exec.run:rm']", "exec.run", `{"argv":["sh","-c","for f in *; do ls $f; done"]}`, "called"},
	} {
		t.Run(fmt.Sprint(tt.agent, " ", tt.args), func(t *testing.T) {
			calls, got := 0, "called"
			counted := func(name string) runtime.Tool {
				return runtest.Tool(name, func(context.Context, map[string]any) (any, error) { calls++; return nil, nil })
			}
			model := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
				if req.Messages[len(req.Messages)-1].Role == runtime.ToolRole {
					return &runtime.Response{Text: "done"}, nil
				}
				return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: tt.tool, Arguments: []byte(tt.args)}}}, nil
			}}
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{counted("test.echo"), counted("test.sub.it"), counted("exec.run")},
				Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
			out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: agent, with: {agent: {model: m, "+tt.agent+"}, prompt: go}}\n")).Run(t.Context(), nil, rt)
			switch {
			case err != nil:
				t.Fatal(err)
			case out.Status == workflow.StatusPaused:
				got = "paused"
			case calls == 0:
				got = "refused"
			}
			if got != tt.want || calls > 0 && got != "called" {
				t.Errorf("%s, %d calls, want %s", got, calls, tt.want)
			}
		})
	}
}
