package call

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/passages"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// placeOf is the name of the place that a call with these arguments looks in, or writes to.
func placeOf(args map[string]any) (name string, writes bool) {
	if name, ok := args["into"].(string); ok {
		return name, true
	}
	name, ok := args["from"].(string)
	if !ok {
		name = runtime.DefaultSearcher
	}
	return name, false
}

// argsOf returns the arguments of a step's call of a retriever; nil for an agent's.
func argsOf(call *engine.Call) map[string]any {
	args, _ := call.Input.(map[string]any)
	return args
}

// Reaches reports whether what a retriever is called for can be called here.
func (c *Caller) Reaches(call *engine.Call) bool {
	args := argsOf(call)
	name, writes := placeOf(args)
	s := c.rt.Searcher(name)
	_, index := s.(runtime.Index)
	_, files := args["in"]
	by, reranks := args["rerank"].(string)
	return s != nil && (!reranks || c.rt.Rerankers[by] != nil) && (index || !writes) && (c.rt.Files != nil || !files)
}

// preparePlace is Prepare for a search, or for what is put into an index.
func (c *Caller) preparePlace(call *engine.Call) error {
	args := argsOf(call)
	name, writes := placeOf(args)
	s := c.rt.Searcher(name)
	if s == nil {
		where := "there is no retriever"
		if name != runtime.DefaultSearcher {
			where = fmt.Sprintf("there is no retriever %q", name)
		}
		return program.ConfigError(diagnostics.CodeMissingRetriever, "%s: %s", call.Pos, where)
	}
	if d, ok := s.(runtime.Described); ok {
		call.Ready.Spends = d.Metadata().Spends
	}
	if by, ok := args["rerank"].(string); ok {
		r := c.rt.Rerankers[by]
		if missingOf(r) != "" || r == nil {
			return program.ConfigError(diagnostics.CodeMissingReranker, "%s: there is no reranker %q",
				call.Pos, by)
		}
		if d, ok := r.(runtime.Described); ok {
			call.Ready.Spends = append(slices.Clone(call.Ready.Spends), d.Metadata().Spends...)
		}
	}
	switch {
	case call.Job != nil:
		return nil
	case !writes:
		return checkQuery(call.Pos, args)
	}
	call.Ready.Effect = runtime.Idempotent
	if _, ok := s.(runtime.Index); !ok {
		return program.ConfigError(diagnostics.CodeReadOnly, "%s: nothing can be put into %q\n  hint: %s",
			call.Pos, name, storeHint)
	}
	if _, files := args["in"]; files && c.rt.Files == nil {
		return program.ConfigError(diagnostics.CodeNoFiles, "%s: no files may be read here\n  hint: %s",
			call.Pos, filesHint)
	}
	if err := checkIndex(args); err != nil {
		return program.ConfigError("retriever.arguments", "%s: %w", call.Pos, err)
	}
	return nil
}

const (
	storeHint = "a retriever with a store in braise.yaml can be written to"
	filesHint = "a host allows it by tools.file.base in braise.yaml"
)

// checkQuery checks the arguments of a search.
func checkQuery(pos diagnostics.Position, args map[string]any) error {
	if query := args["query"]; value.TypeName(query) != "a string" {
		return program.ConfigError("retriever.arguments", "%s: query of a retrieve step must be a string, not %s",
			pos, value.TypeName(query))
	}
	if filter, ok := args["filter"]; ok && value.TypeName(filter) != "an object" {
		return program.ConfigError("retriever.arguments", "%s: filter of a retrieve step must be an object, not %s",
			pos, value.TypeName(filter))
	}
	return nil
}

// checkIndex checks the arguments of an index step.
func checkIndex(args map[string]any) error {
	for name, want := range map[string]string{"in": "a string", "match": "a string", "metadata": "an object",
		"documents": "a list"} {
		if v, ok := args[name]; ok && value.TypeName(v) != want {
			return fmt.Errorf("%s of an index step must be %s, not %s", name, want, value.TypeName(v))
		}
	}
	list, _ := args["documents"].([]any)
	for i, item := range list {
		d, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("documents[%d] of an index step must be an object, not %s", i, value.TypeName(item))
		}
		for _, name := range []string{"source", "text"} {
			if text, ok := d[name].(string); !ok || name == "source" && text == "" {
				return fmt.Errorf("documents[%d] of an index step needs a %s, a string", i, name)
			}
		}
		if about, ok := d["metadata"]; ok && about != nil && value.TypeName(about) != "an object" {
			return fmt.Errorf("metadata of documents[%d] must be an object, not %s", i, value.TypeName(about))
		}
		if t, ok := d["type"]; ok && !slices.ContainsFunc(passages.Types,
			func(known passages.Type) bool { return t == string(known) }) {
			return fmt.Errorf("type of documents[%d] must be one of %v", i, passages.Types)
		}
	}
	return nil
}

// visit calls the retriever, or changes the index, for a step.
func (a *attempt) visit() engine.Result {
	resp := a.try()
	res := engine.Result{Err: a.shown(resp.err), Spent: resp.used}
	if resp.err != nil {
		return res
	}
	output, extent, err := value.Take(resp.value, a.most.output)
	switch {
	case err != nil:
		res.Bad = a.shown(fmt.Errorf("the retriever returned what is not JSON: %w", err))
	case a.Redact != nil:
		res.Output = a.Redact.Value(output)
	default:
		res.Output, res.Extent = output, extent
	}
	return res
}

// visitOnce calls the retriever, or changes the index, once.
func (a *attempt) visitOnce() (r response) {
	args := argsOf(a.call)
	name, writes := placeOf(args)
	s := a.rt.Searcher(name)
	if writes {
		r.value, r.used, r.err = a.update(s.(runtime.Index))
		return r
	}
	q := runtime.Query{}
	q.Text, _ = args["query"].(string)
	q.Filter, _ = args["filter"].(map[string]any)
	topK, _ := args["top_k"].(int64)
	q.TopK = int(topK)
	found, err := s.Search(a.ctx, q)
	list := found.Documents[:min(len(found.Documents), q.TopK)]
	if by, ok := args["rerank"].(string); ok && err == nil {
		best, failed := a.rt.Rerankers[by].Rerank(a.ctx, q.Text, slices.Clone(list))
		list, err, found.Used = best.Documents, failed, slices.Concat(found.Used, best.Used)
		if n, _ := args["best"].(int64); n > 0 {
			list = list[:min(len(list), int(n))]
		}
	}
	return response{value: map[string]any{"documents": documentList(list)}, used: found.Used, err: err}
}

func documentList(found []runtime.Document) []any {
	list := make([]any, len(found))
	for i, d := range found {
		fields := map[string]any{"id": d.ID, "text": d.Text, "score": d.Score}
		if d.Source != "" {
			fields["source"] = d.Source
		}
		if d.Metadata != nil {
			fields["metadata"] = d.Metadata
		}
		list[i] = fields
	}
	return list
}

// update puts what the step has into an index.
func (a *attempt) update(x runtime.Index) (any, []runtime.Spent, error) {
	args, call := argsOf(a.call), a.call
	change := runtime.Change{Stale: args["stale"] == true,
		Key: resume.Key(a.RunID, call.Generation, call.Path, call.Ordinal, call.Key)}
	sources, err := a.sources()
	if err != nil {
		return nil, nil, err
	}
	if in, ok := args["in"].(string); ok {
		change.Under = strings.TrimPrefix(strings.TrimSuffix(in, "/")+"/", "./")
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		change.Sources = append(change.Sources, *sources[name])
	}
	u, err := x.Update(a.ctx, change)
	return map[string]any{"added": u.Added, "updated": u.Changed, "deleted": u.Deleted, "skipped": u.Skipped},
		u.Used, err
}

// sources reads what is indexed, by name.
func (a *attempt) sources() (map[string]*runtime.Source, error) {
	args, s := argsOf(a.call), sources{by: map[string]*runtime.Source{}}
	most, _ := args["max_bytes"].(int64)
	s.options = passages.Options{Whole: args["by_size"] == true, MaxBytes: int(most)}
	s.about, _ = args["metadata"].(map[string]any)
	list, _ := args["documents"].([]any)
	for _, item := range list { // they were checked
		d := item.(map[string]any)
		about, _ := d["metadata"].(map[string]any)
		t, _ := d["type"].(string)
		source := d["source"].(string)
		if t == "" && passages.TypeOf(source) == passages.Text && !strings.HasSuffix(source, ".txt") {
			t = string(passages.Markdown) // what tools and models give
		}
		if err := s.add(source, []byte(d["text"].(string)), passages.Type(t), about); err != nil {
			return nil, err
		}
	}
	if in, ok := args["in"].(string); ok {
		match, _ := args["match"].(string)
		err := a.rt.Files.Walk(a.ctx, in, match, func(name string, data []byte) error {
			return s.add(name, data, "", nil)
		})
		if err != nil {
			return nil, err
		}
	}
	return s.by, nil
}

// sources gathers what is indexed.
type sources struct {
	by      map[string]*runtime.Source
	options passages.Options
	about   map[string]any // of all
}

// add cuts a text. Texts of one source go together.
func (s *sources) add(name string, data []byte, t passages.Type, about map[string]any) error {
	o := s.options
	o.Type = t
	cut, err := passages.Of(name, data, o)
	if err != nil {
		return err
	}
	source := s.by[name]
	if source == nil {
		source = &runtime.Source{Name: name}
		s.by[name] = source
	}
	all := maps.Clone(s.about)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, about)
	written, err := value.JSON([]any{source.Digest, all, string(t), o.Whole, o.MaxBytes})
	if err != nil {
		return errors.New("the metadata is not JSON")
	}
	sum := sha256.New() // of all that the documents are made of, and the version of how they are made
	fmt.Fprintf(sum, "1 %d %s ", len(written), written)
	sum.Write(data)
	source.Digest = fmt.Sprintf("%x", sum.Sum(nil))
	for _, p := range cut {
		metadata := p.About()
		maps.Copy(metadata, all)
		source.Documents = append(source.Documents, runtime.Document{Text: p.Text, Source: name, Metadata: metadata,
			ID: fmt.Sprintf("%s#%d", name, len(source.Documents)+1)})
	}
	return nil
}
