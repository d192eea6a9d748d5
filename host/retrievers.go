package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/runtime"
)

// Search is what retrieve and index steps may name.
type Search struct {
	Retrievers map[string]Retriever // nil: none
	Embedders  map[string]Embedder  // that Retrievers and Rerankers name; nil: none
	Rerankers  map[string]Reranker  // nil: none
}

// Reranker says who puts documents that were found into a better order: a model, or an embedder.
type Reranker struct {
	OpenAI *openai.Options // of a model; nil: none
	Embed  string          // the name of an embedder; "": none

	absent string // why it cannot be used; "": it can
}

// Retriever says where documents are: in a folder or in a store.
type Retriever struct {
	Folder string         // of text files, as written
	Store  string         // sqlite:PATH or postgres://…, as written
	Embed  string         // of a store: the name of an embedder. "": it is searched by words
	Mode   retriever.Mode // of a store. "": hybrid with an embedder, else words

	absent string // why it cannot be used; "": it can
}

// Embedder says who turns texts into vectors.
type Embedder struct {
	Provider   string          // openai or hash
	OpenAI     *openai.Options // with the provider openai; otherwise nil
	Dimensions int             // of the vectors. 0: the default of the model; of hash 256

	absent string // why it cannot be used; "": it can
}

func (r *reader) search(fields map[string]*yamlnode.Node) Search {
	retrievers, embedders, index := fields["retrievers"], fields["embedders"], fields["retriever"]
	var s Search
	for _, f := range r.Map(embedders) {
		e := part(r, "embedder."+f.Key, func() Embedder { return r.embedder(f.Value) })
		e.absent = r.absent["embedder."+f.Key]
		s.Embedders = with(s.Embedders, f.Key, e)
	}
	for _, f := range r.Map(retrievers) {
		if f.Key == "" || f.Key == runtime.DefaultSearcher && index != nil {
			r.Errorf(f.Pos, diagnostics.CodeInvalidValue, `leave "retriever" out, or choose another name`,
				"%q cannot be the name of a retriever here", f.Key)
		}
		x := part(r, "retriever."+f.Key, func() Retriever { return r.place(f.Value, s.Embedders) })
		x.absent = cmp.Or(r.absent["retriever."+f.Key], s.Embedders[x.Embed].absent)
		s.Retrievers = with(s.Retrievers, f.Key, x)
	}
	for _, f := range r.Map(fields["rerankers"]) {
		x := part(r, "reranker."+f.Key, func() Reranker { return r.reranker(f.Value, s.Embedders) })
		x.absent = cmp.Or(r.absent["reranker."+f.Key], s.Embedders[x.Embed].absent)
		s.Rerankers = with(s.Rerankers, f.Key, x)
	}
	return s
}

func (r *reader) reranker(n *yamlnode.Node, embedders map[string]Embedder) (x Reranker) {
	keys := []string{"embed", "model", "api_key", "base_url", "headers", "timeout", "provider_name"}
	fields := r.Object(n, keys, nil)
	switch embed := fields["embed"]; {
	case fields == nil:
	case embed == nil:
		x.OpenAI = r.openai(n, fields)
	default:
		x.Embed = r.text(embed)
		r.known(embed, x.Embed, embedders)
		for _, key := range keys[1:] {
			if f := fields[key]; f != nil {
				r.Errorf(f.Pos, diagnostics.CodeUnknownKey, "", "%q has no place beside %q", key, "embed")
			}
		}
	}
	return x
}

// known reports an embedder that is not there.
func (r *reader) known(n *yamlnode.Node, name string, embedders map[string]Embedder) {
	if _, ok := embedders[name]; !ok && name != "" {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue,
			diagnostics.DidYouMean(name, slices.Collect(maps.Keys(embedders))), "there is no embedder %q", name)
	}
}

// with is m with one entry more; nil is empty.
func with[T any](m map[string]T, name string, v T) map[string]T {
	if m == nil {
		m = map[string]T{}
	}
	m[name] = v
	return m
}

func (r *reader) embedder(n *yamlnode.Node) Embedder {
	keys := []string{"model", "api_key", "base_url", "headers", "timeout", "provider_name"}
	fields := r.Object(n, slices.Concat([]string{"provider", "dimensions"}, keys), nil)
	r.Require(n, fields, "provider")
	e := Embedder{Dimensions: r.Int(fields["dimensions"], 1, 1<<16),
		Provider: read(r, fields["provider"], func(r *yamlnode.Reader, n *yamlnode.Node) string {
			return r.OneOf(n, "openai", "hash")
		})}
	switch e.Provider {
	case "openai":
		e.OpenAI = r.openai(n, fields)
	case "hash":
		for _, key := range keys {
			if f := fields[key]; f != nil {
				r.Errorf(f.Pos, diagnostics.CodeUnknownKey, "", "the provider %q takes no %q", e.Provider, key)
			}
		}
	}
	return e
}

// place reads where documents are.
func (r *reader) place(n *yamlnode.Node, embedders map[string]Embedder) Retriever {
	fields := r.Object(n, []string{"folder", "store", "embed", "mode"}, nil)
	x := Retriever{Folder: r.text(fields["folder"]), Store: read(r, fields["store"], readShelf),
		Embed: r.text(fields["embed"]), Mode: retriever.Mode(read(r, fields["mode"],
			func(r *yamlnode.Reader, n *yamlnode.Node) string { return r.OneOf(n, "words", "vector", "hybrid") }))}
	bad := func(at *yamlnode.Node, hint, format string, args ...any) {
		r.Errorf(at.Pos, diagnostics.CodeInvalidValue, hint, format, args...)
	}
	folder, store, embed, mode := fields["folder"], fields["store"], fields["embed"], fields["mode"]
	switch {
	case fields == nil:
	case (folder == nil) == (store == nil):
		bad(n, "a folder of files is searched by words; a store is filled by index steps",
			"a retriever has either %q or %q", "folder", "store")
	case folder != nil && cmp.Or(embed, mode) != nil:
		at := cmp.Or(embed, mode)
		bad(at, "it is for a store", "%q has no place beside %q", at.Key, "folder")
	case embed != nil:
		r.known(embed, x.Embed, embedders)
	case mode != nil && x.Mode != retriever.ByWords && x.Mode != "":
		bad(mode, "name one with embed", "the mode %q needs an embedder", x.Mode)
	}
	return x
}

// readShelf reads the URL of a store of documents.
func readShelf(r *yamlnode.Reader, n *yamlnode.Node) string {
	url := r.Text(n)
	path, sqlite := strings.CutPrefix(url, "sqlite:")
	if url != "" && !inPostgres(url) && !(sqlite && path != "") {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "it is sqlite:PATH or postgres://…",
			"%q is not a store of documents", n.Key)
	}
	return url
}

func inPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// searchers makes the retrievers.
func (s *Search) searchers(dir string) (map[string]runtime.Searcher, error) {
	var list map[string]runtime.Searcher
	for _, name := range slices.Sorted(maps.Keys(s.Retrievers)) {
		x := s.Retrievers[name]
		switch path, sqlite := strings.CutPrefix(x.Store, "sqlite:"); {
		case x.absent != "":
			list = with[runtime.Searcher](list, name, absentPort(x.absent))
		case x.Folder != "":
			list = with[runtime.Searcher](list, name, retriever.New(within(dir, x.Folder), retriever.Options{}))
		default:
			opts := retriever.DatabaseOptions{Name: name, Mode: x.Mode, Spends: x.Embed}
			if x.Embed != "" {
				var err error
				if opts.Embedder, err = s.Embedders[x.Embed].make(); err != nil {
					return nil, fmt.Errorf("embedder %q: %w", x.Embed, err)
				}
			}
			made := retriever.Postgres(x.Store, opts)
			if sqlite {
				made = retriever.SQLite(within(dir, path), opts)
			}
			list = with[runtime.Searcher](list, name, made)
		}
	}
	return list, nil
}

// rerankers makes the rerankers.
func (s *Search) rerankers() (list map[string]runtime.Reranker, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Rerankers)) {
		var made runtime.Reranker
		switch x := s.Rerankers[name]; {
		case x.absent != "":
			made = absentPort(x.absent)
		case x.OpenAI != nil:
			made, err = openai.NewReranker(*x.OpenAI, name)
		default:
			var by runtime.Embedder
			by, err = s.Embedders[x.Embed].make()
			made = retriever.ByEmbedder(by, x.Embed)
		}
		if err != nil {
			return nil, fmt.Errorf("reranker %q: %w", name, err)
		}
		list = with(list, name, made)
	}
	return list, nil
}

// Rerank makes an absent reranker a runtime.Reranker.
func (p absentPort) Rerank(context.Context, string, []runtime.Document) (runtime.Found, error) {
	return runtime.Found{}, notConfigured(diagnostics.CodeMissingReranker, "the reranker", string(p))
}

func (e Embedder) make() (runtime.Embedder, error) {
	if e.Provider == "openai" && e.OpenAI != nil {
		return openai.NewEmbedder(*e.OpenAI, e.Dimensions)
	}
	return retriever.Hash(e.Dimensions), nil
}

// Search makes an absent retriever a runtime.Searcher.
func (p absentPort) Search(context.Context, runtime.Query) (runtime.Found, error) {
	return runtime.Found{}, notConfigured(diagnostics.CodeMissingRetriever, "the retriever", string(p))
}

// examine says where documents are.
func (s *Search) examine(dir string) (checks []Check) {
	for _, name := range slices.Sorted(maps.Keys(s.Retrievers)) {
		x := s.Retrievers[name]
		check := Check{Status: CheckOK, Message: "the folder " + within(dir, x.Folder)}
		switch {
		case x.absent != "":
			check = absentCheck(x.absent)
		case x.Store != "":
			check.Message = "a store, without vectors"
			if x.Embed != "" {
				check.Message = "a store, with vectors of " + x.Embed
			}
		}
		check.Part, check.Name = "retriever", name
		checks = append(checks, check)
	}
	return checks
}
