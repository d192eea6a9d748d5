// Package dry makes dry runs: they show what a recipe would do, and do it only as far as it changes nothing.
package dry

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// Event is the name of the [trace.Custom] event for a call that a dry run does not make. Its data are what would be
// called, in call, the arguments of a tool, and where its answer is from, in answer: "tools.yaml" or "made up".
const Event = "dry_run"

// Runtime returns a runtime for a dry run of wf, which is like rt except for this:
//
//   - Tools are called only if the call only reads. In place of the others answers gives the result, if it has one; nil
//     has none. Otherwise the result is made up: it fits the output.schema of the step, or has the members that the
//     tool says its result has.
//   - Models are not called, unless a script or a cassette answers for them: what they say is made up, too. So they
//     call no tools.
//   - Indexes are searched, but not updated; conversations are loaded, but not saved.
//   - The run is in memory. What recipes keep with state.put ends with it, and they read what rt.Store has.
//   - Nobody is told of it: there is no sink, and no OnPause. Limits of a day do not apply.
//
// What plugins, the environment and agents in Go bring is not replaced: rt is that of a host, which has none of them.
func Runtime(rt *runtime.Runtime, wf *workflow.Workflow, answers *script.Tools) *runtime.Runtime {
	d := answerer{schemas: map[string]map[string]any{}}
	d.add(wf.Recipe().All(), "")
	if answers != nil {
		d.played = answers.Play()
	}
	out := *rt
	out.Tools, out.Models, out.Searchers = nil, map[string]runtime.Model{}, map[string]runtime.Searcher{}
	for _, t := range rt.Tools {
		spec := t.Spec()
		out.Tools = append(out.Tools, runtime.Wrap(t,
			func(ctx context.Context, args json.RawMessage, next runtime.CallFunc) (json.RawMessage, error) {
				if spec.EffectFor(args) == runtime.ReadOnly {
					return next(ctx, args)
				}
				return d.call(ctx, &spec, args)
			}))
	}
	for name, m := range rt.Models {
		if out.Models[name] = m; !script.Answers(m) {
			out.Models[name] = model{m}
		}
	}
	for name, s := range rt.Searchers {
		out.Searchers[name] = s
		if _, written := s.(runtime.Index); written {
			out.Searchers[name] = index{s}
		}
	}
	if rt.Memory != nil {
		out.Memory = memory{rt.Memory}
	}
	kept, _ := rt.Store.(checkpoint.Documents)
	out.Store, out.Cache, out.OnPause, out.Trace = &store{kept: kept}, nil, nil, nil
	out.Budget.CostUSDPerDay, out.Budget.PerLabel = 0, nil
	return &out
}

// answerer answers the calls that a dry run does not make.
type answerer struct {
	played  *script.Played            // nil: no script does
	schemas map[string]map[string]any // of the outputs of steps, by path
}

// add notes the schemas of steps.
func (d *answerer) add(steps []recipe.Step, prefix string) {
	for i := range steps {
		path := prefix + steps[i].ID
		if o := steps[i].Output; o != nil && o.SchemaJSON != nil {
			d.schemas[path] = o.SchemaJSON
		}
		for name, b := range steps[i].Bodies() {
			inside := path + "/"
			if name != "" {
				inside += name + "/"
			}
			d.add(b.All(), inside)
		}
	}
}

// call answers the call of a tool.
func (d *answerer) call(ctx context.Context, spec *runtime.ToolSpec, args json.RawMessage) (json.RawMessage, error) {
	given, err := value.Decode(args)
	if err != nil {
		return nil, err
	}
	if d.played != nil {
		result, ok, err := d.played.Answer(ctx, spec.Name, args)
		if ok {
			notMade(ctx, spec.Name, given, "tools.yaml")
			return result, err
		}
	}
	notMade(ctx, spec.Name, given, "made up")
	call, _ := runtime.CallOf(ctx)
	if s := d.schemas[resume.DefinitionPath(call.Step)]; s != nil && call.Agent == "" {
		return madeUp(s, "the output.schema of its step")
	}
	return value.JSON(resultOf(spec.Result))
}

// notMade tells of a call that was not made.
func notMade(ctx context.Context, call string, args any, answer string) {
	data := map[string]any{"call": call, "answer": answer}
	if args == nil {
		_ = trace.Emit(ctx, Event, data) // more than an attempt may tell is not told
		return
	}
	data["arguments"] = args
	if err := trace.Emit(ctx, Event, data); err != nil { // they are large
		text, _ := value.JSON(args)
		data["arguments"] = string(text[:min(len(text), 1000)]) + "…"
		_ = trace.Emit(ctx, Event, data)
	}
}

// madeUp is a value that fits a schema.
func madeUp(s any, of string) (json.RawMessage, error) {
	v, ok := schema.Example(s)
	if !ok {
		return nil, &retry.Failure{Err: fmt.Errorf("a dry run makes up no value that fits %s"+
			"\n  hint: give an answer in tools.yaml, or a script for the model", of)}
	}
	return value.JSON(v)
}

// members are those of a result in [runtime.ToolSpec].
var members = regexp.MustCompile(`\w+`)

// resultOf makes up a result with the members that a tool says it has; nil: it does not say.
func resultOf(about string) any {
	if len(about) == 0 || about[0] != '{' {
		return nil
	}
	result := map[string]any{}
	for _, name := range members.FindAllString(about, -1) {
		switch name {
		case "code", "bytes", "version":
			result[name] = int64(0)
		case "status":
			result[name] = int64(200)
		case "headers":
			result[name] = map[string]any{}
		case "json":
			result[name] = nil
		default:
			result[name] = ""
		}
	}
	return result
}

// model is not asked.
type model struct{ runtime.Model }

// Generate makes an answer up.
func (model) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	notMade(ctx, "model "+req.Model, nil, "made up")
	text := "(dry run: model " + req.Model + " was not asked)"
	if req.Schema != nil {
		s, err := value.Decode(req.Schema)
		if err != nil {
			return nil, err
		}
		made, err := madeUp(s, "the schema of the answer")
		if err != nil {
			return nil, err
		}
		text = string(made)
	}
	return &runtime.Response{Text: text, Finish: runtime.FinishStop}, nil
}

// Metadata implements runtime.Described.
func (m model) Metadata() runtime.Metadata { return metadata(m.Model) }

// index is searched, but not updated.
type index struct{ runtime.Searcher }

// Update implements runtime.Index.
func (index) Update(ctx context.Context, c runtime.Change) (runtime.Updated, error) {
	var sources []any
	for i := range c.Sources {
		sources = append(sources, c.Sources[i].Name)
	}
	notMade(ctx, "index", map[string]any{"sources": sources}, "made up")
	return runtime.Updated{}, nil
}

// Metadata implements runtime.Described.
func (x index) Metadata() runtime.Metadata { return metadata(x.Searcher) }

func metadata(port any) (about runtime.Metadata) {
	if d, ok := port.(runtime.Described); ok {
		about = d.Metadata()
	}
	return about
}

// memory is read, but not written.
type memory struct{ runtime.Memory }

// Save implements runtime.Memory.
func (memory) Save(ctx context.Context, c runtime.Conversation, _ string, _ []runtime.Message) error {
	notMade(ctx, "memory", map[string]any{"thread": c.Thread}, "made up")
	return nil
}

// store is the store of a dry run, with the documents of another one, which stay as they are.
type store struct {
	checkpoint.Memory
	kept checkpoint.Documents // nil: there are none
}

// Document implements checkpoint.Documents.
func (s *store) Document(ctx context.Context, collection, name string) (string, bool, error) {
	text, ok, err := s.Memory.Document(ctx, collection, name)
	if ok || err != nil || s.kept == nil {
		return text, ok, err
	}
	return s.kept.Document(ctx, collection, name)
}

// SwapDocument implements checkpoint.Documents.
func (s *store) SwapDocument(ctx context.Context, collection, name string, old, text *string) error {
	if _, ok, err := s.Memory.Document(ctx, collection, name); err != nil {
		return err
	} else if !ok && old != nil {
		if err := s.PutDocument(ctx, collection, checkpoint.Document{Name: name, Text: *old}); err != nil {
			return err
		}
	}
	notMade(ctx, runtime.StatePut, map[string]any{"key": name}, "in memory")
	return s.Memory.SwapDocument(ctx, collection, name, old, text)
}
