package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// runID is the id of every run of a scenario.
const runID = "00000000-0000-7000-8000-000000000000"

// attempt is one run of a scenario, what differs from run to run taken out.
type attempt struct {
	outcome     map[string]any // as the command prints it; of pauses without tokens and times
	plan        *workflow.Plan // nil: the recipe was refused
	diagnostics diagnostics.List
	trace       []string // a line an event, of all executions
	began       string   // as expressions see run.started_at
	problem     string   // an answer could not be given; "": none
	left        string   // answers of tools that no call got; "": none
}

// tempDir makes a folder for one attempt. The names of all such folders are of one length: scripted models count the
// tokens of messages that name the folder.
func tempDir() (string, error) {
	for {
		dir := filepath.Join(os.TempDir(), fmt.Sprintf("braise-scenario-%016x", rand.Uint64()))
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
}

// attempt runs the scenario in a fresh folder:
//
//  1. lay out its files
//  2. make the runtime; load and compile the recipe
//  3. run it, and answer what it waits for
func (s *scenario) attempt(ctx context.Context, base *runtime.Runtime, maxParallel int) (*attempt, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // what programs print as their folder
		return nil, err
	}
	if err := os.CopyFS(dir, s.files); err != nil {
		return nil, err
	}
	var played *script.Played
	if s.tools != nil {
		played = s.tools.Play()
	}
	wf, rt, disconnect, err := s.prepare(ctx, dir, base, maxParallel, played)
	defer disconnect()
	var wrong *diagnostics.Error
	switch {
	case errors.As(err, &wrong):
		return newAttempt([]*workflow.Outcome{host.Refused(wrong)}, nil, dir)
	case err != nil:
		return nil, err
	}
	out, _ := wf.Run(ctx, s.input, rt) // the error is the outcome's
	outcomes, problem := s.answerAll(ctx, wf, rt, out)
	a, err := newAttempt(outcomes, wf.Plan(), dir)
	if err == nil {
		a.problem = problem
		if played != nil {
			a.problem, a.left = strings.Trim(problem+"\n"+played.Unanswered(), "\n"), played.Left()
		}
	}
	return a, err
}

// prepare compiles the recipe for the runtime of one attempt, with the MCP servers that it needs. The
// error is a *diagnostics.Error when the recipe or the configuration is at fault. disconnect ends the
// servers, and is never nil. played answers its tools; nil: they are real.
func (s *scenario) prepare(
	ctx context.Context, dir string, base *runtime.Runtime, maxParallel int, played *script.Played,
) (wf *workflow.Workflow, rt *runtime.Runtime, disconnect func(), err error) {
	disconnect = func() {}
	rt, config, err := s.runtime(dir, base)
	if err != nil {
		return nil, nil, disconnect, err
	}
	r, err := config.Recipe(s.source, s.recipe, dir) // with errors too: Compile finds the rest
	if r == nil {
		return nil, nil, disconnect, err
	}
	if err == nil {
		if disconnect, err = config.Connect(ctx, dir, r, rt); err != nil {
			return nil, nil, disconnect, err
		}
	}
	tools := rt.Tools
	if played != nil {
		rt.Tools = played.Over(tools, nil)
	}
	wf, err = workflow.Compile(r, &workflow.Options{Tools: rt.ToolSpecs()})
	if err != nil {
		return nil, nil, disconnect, err
	}
	if err := s.noStep(wf.Plan()); err != nil {
		return nil, nil, disconnect, err
	}
	if played != nil {
		rt.Tools = played.Over(tools, wf.Plan().Requires.Tools)
	}
	if s.script != nil {
		for _, name := range wf.Plan().Requires.Models {
			rt.Models[name] = s.script
		}
	}
	if s.strict {
		rt.Diagnostics = diagnostics.Strict
	}
	if n := rt.Limits.MaxParallel; n == 0 || n > maxParallel {
		rt.Limits.MaxParallel = maxParallel
	}
	rt.NewRunID = func() string { return runID }
	if rt.Resume == nil {
		rt.Resume = resume.PassThrough{}
	}
	return wf, rt, disconnect, nil
}

// untrusted is what the scenario's braise.yaml allows, if the working folder does not vouch for the scenario's folder;
// nil if it allows nothing or has errors.
func (s *scenario) untrusted(dir string) []string {
	f := s.file(configFile)
	if f == nil {
		return nil
	}
	config, err := host.ParseConfig(configFile, f.Data, environment)
	if err != nil {
		return nil // which the run says
	}
	return config.Untrusted(dir)
}

// runtime makes the runtime of the scenario's braise.yaml, which it returns too, over base. Models are
// those of base and of the configuration; a script answers for all of them.
func (s *scenario) runtime(dir string, base *runtime.Runtime) (*runtime.Runtime, *host.Config, error) {
	var config *host.Config
	var models []string
	var fallbacks map[string][]string
	if f := s.file(configFile); f != nil {
		var err error
		if config, err = host.ParseConfig(configFile, f.Data, environment); err != nil {
			return nil, nil, err
		}
		if exec := config.Tools.Exec; exec != nil && exec.Dir == "" {
			exec.Dir = "." // the working folder is the scenario's
		}
		for name, server := range config.MCP {
			if server.Command != nil && server.Dir == "" {
				server.Dir = "."
				config.MCP[name] = server
			}
		}
		for server := range config.MCP { // with a script only those of real tools are started
			if s.tools != nil && !s.tools.RealServer(server) {
				delete(config.MCP, server)
			}
		}
		fallbacks = config.Fallbacks()
		if s.script != nil { // instead of what the configuration says, which may need a key
			models = slices.Collect(maps.Keys(config.Models))
			config.Models = nil
		}
	}
	var rt runtime.Runtime
	if base != nil {
		rt = *base
	}
	rt.Models = map[string]runtime.Model{}
	if base != nil {
		maps.Copy(rt.Models, base.Models)
	}
	if base == nil || config != nil {
		own, err := config.Runtime(dir)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(rt.Models, own.Models)
		merge(&rt, own)
		if fallbacks != nil {
			rt.Fallbacks = fallbacks
		}
	}
	if s.script != nil {
		for _, name := range slices.Concat(models, slices.Collect(maps.Keys(rt.Models))) {
			rt.Models[name] = s.script
		}
	}
	return &rt, config, config.UseStore(&rt, &checkpoint.Memory{})
}

// merge lays what a configuration says over a runtime, but for its models.
func merge(rt, own *runtime.Runtime) {
	if own.Prices != nil {
		rt.Prices = own.Prices
	}
	rt.Tools = replaceTools(rt.Tools, own.Tools)
	if own.Approval != nil {
		rt.Approval = own.Approval
	}
	rt.Deny = slices.Concat(rt.Deny, own.Deny)
	if own.Secrets != nil {
		rt.Secrets = own.Secrets
	}
	if own.Retriever != nil {
		rt.Retriever = own.Retriever
	}
	if own.Searchers != nil {
		rt.Searchers = own.Searchers
	}
	if own.Rerankers != nil {
		rt.Rerankers = own.Rerankers
	}
	if own.Files != nil {
		rt.Files = own.Files
	}
	if own.Env != nil {
		rt.Env = own.Env
	}
	if !reflect.DeepEqual(own.Budget, runtime.Budget{}) {
		rt.Budget = own.Budget
	}
	if own.Skills != nil {
		rt.Skills = own.Skills
	}
	if own.Limits.MaxParallel > 0 {
		rt.Limits.MaxParallel = own.Limits.MaxParallel
	}
	if own.Limits.Grace > 0 {
		rt.Limits.Grace = own.Limits.Grace
	}
	if own.RetryDefaults != nil {
		rt.RetryDefaults = own.RetryDefaults
	}
	rt.Interrupt = cmp.Or(own.Interrupt, rt.Interrupt)
	rt.Diagnostics = cmp.Or(own.Diagnostics, rt.Diagnostics)
	if !reflect.ValueOf(own.Agents).IsZero() {
		rt.Agents = own.Agents
	}
}

// replaceTools returns tools with those of own added, or put in the place of the same name.
func replaceTools(tools, own []runtime.Tool) []runtime.Tool {
	kept := slices.DeleteFunc(slices.Clone(tools), func(t runtime.Tool) bool {
		return slices.ContainsFunc(own, func(o runtime.Tool) bool { return o.Spec().Name == t.Spec().Name })
	})
	return append(kept, own...)
}

// environment stands for the process's: a scenario has the same outcome everywhere, and never sees
// a secret.
func environment(name string) (string, bool) { return "value-of-" + name, true }

// newAttempt makes an attempt of the executions of a run. It takes the folder's name out of everything: the
// folder is ".", what is in it has the name that the scenario gives it.
func newAttempt(outcomes []*workflow.Outcome, plan *workflow.Plan, dir string) (*attempt, error) {
	out := outcomes[len(outcomes)-1]
	text, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(dir)
	if err != nil {
		return nil, err
	}
	escaped := strings.Trim(string(quoted), `"`)
	clean := strings.NewReplacer(dir+"/", "", dir, ".", escaped+`\\`, "", escaped, ".").Replace
	decoded, err := value.Decode([]byte(clean(string(text))))
	if err != nil {
		return nil, err
	}
	a := &attempt{outcome: decoded.(map[string]any), plan: plan, began: out.StartedAt.UTC().Format(time.RFC3339)}
	for _, name := range []string{"token", "startedAt", "endedAt"} {
		delete(a.outcome, name)
	}
	pauses, _ := a.outcome["pauses"].([]any)
	for _, p := range pauses {
		for _, name := range []string{"token", "createdAt", "expiresAt", "retryAt"} {
			delete(p.(map[string]any), name)
		}
		if call, ok := p.(map[string]any)["call"].(map[string]any); ok {
			delete(call, "at")
			delete(call, "owner")
			delete(call, "pids") // of a program that is about to end, too
		}
		if p := p.(map[string]any); p["reason"] == "limits.wall_time" {
			show, _ := p["show"].(map[string]any)
			used, _ := show["used"].(map[string]any)
			delete(used, "wall_time")
		}
	}
	for _, d := range out.Diagnostics {
		d.Position.File, d.Message, d.Hint = clean(d.Position.File), clean(d.Message), clean(d.Hint)
		a.diagnostics = append(a.diagnostics, d)
	}
	for _, each := range outcomes {
		for _, e := range each.Trace {
			if e.Kind == trace.RunStart || e.Kind == trace.AdapterCall { // they say no more than the recipe itself
				e.Data = slices.DeleteFunc(slices.Clone(e.Data),
					func(a trace.Attr) bool { return a.Key == "digest" || a.Key == "key" })
			}
			a.trace = append(a.trace, clean(e.Line()))
		}
	}
	return a, nil
}

// fingerprint is what must be the same in every run, see sameOutput. Which independent steps had run when a run
// failed may differ, and so does the time at which it began, also where a step has it.
func (a *attempt) fingerprint(same string) string {
	return strings.ReplaceAll(a.compared(same), a.began, "run.started_at")
}

func (a *attempt) compared(same string) string {
	if same == sameOutput {
		return indented(pick(a.outcome, "status", "output")) + a.problem
	}
	if a.ok() || a.paused() || a.plan == nil {
		return indented(pick(a.outcome, "status", "output", "error", "artefact", "pauses", "diagnostics")) +
			lines(a.trace) + a.problem
	}
	return indented(pick(a.outcome, "status", "output", "error"))
}

func (a *attempt) ok() bool { return a.outcome["status"] == string(workflow.StatusOK) }

func (a *attempt) paused() bool { return a.outcome["status"] == string(workflow.StatusPaused) }

// pick returns the members of an object that have one of the names.
func pick(object map[string]any, names ...string) map[string]any {
	picked := map[string]any{}
	for _, name := range names {
		if v, ok := object[name]; ok {
			picked[name] = v
		}
	}
	return picked
}
