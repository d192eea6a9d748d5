package program

import (
	"strings"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// retrieverName is the name in events of the place that steps use which name none.
const retrieverName = "retriever"

// The ports of Program.Ports that have names are a word of these with the name behind it.
const (
	SearcherPort = "retriever:" // is looked in
	IndexPort    = "index:"     // is written to, and looked in
	RerankerPort = "reranker:"  // orders what was found
	SkillPort    = "skill:"     // is loaded
	FilesPort    = "files"      // are read

	defaultPlace = SearcherPort + runtime.DefaultSearcher
)

func (s *stepCompiler) compileRetrieve(src *recipe.Step, names *expr.Scope) {
	r, parts := src.Retrieve, map[string]*expr.Template{}
	s.part(parts, "query", r.Query, names)
	s.part(parts, "filter", r.Filter, names)
	parts["top_k"] = expr.Literal(int64(r.TopK))
	if by := r.Rerank; by != nil {
		parts["rerank"], parts["best"] = expr.Literal(by.By.Text), expr.Literal(int64(by.TopK))
		s.need(usePort, RerankerPort+by.By.Text, by.By.Pos, s.path())
	}
	s.compilePlace(src, r.From, "from", SearcherPort, parts, names)
}

func (s *stepCompiler) compileIndex(src *recipe.Step, names *expr.Scope) {
	x, parts := src.Index, map[string]*expr.Template{}
	s.part(parts, "documents", x.Documents, names)
	s.part(parts, "metadata", x.Metadata, names)
	if x.Files != nil {
		parts["in"], parts["match"] = expr.Literal("."), expr.Literal("**")
		s.part(parts, "in", x.Files.In, names)
		s.part(parts, "match", x.Files.Match, names)
		s.need(usePort, FilesPort, src.Uses.Pos, s.path())
	}
	parts["by_size"], parts["stale"] = expr.Literal(x.BySize), expr.Literal(x.Stale)
	parts["max_bytes"] = expr.Literal(int64(x.MaxBytes))
	s.compilePlace(src, x.Into, "into", IndexPort, parts, names)
}

// compilePlace compiles the call of a step that looks in a place, or writes to it. The arguments name another place
// than the default by key; those of an index step do so always.
func (s *stepCompiler) compilePlace(
	src *recipe.Step, place recipe.Name, key, port string, parts map[string]*expr.Template,
	names *expr.Scope,
) {
	name, pos := place.Text, place.Pos
	if name == "" {
		name, pos = runtime.DefaultSearcher, src.Uses.Pos
	}
	s.need(usePort, port+name, pos, s.path())
	if name != runtime.DefaultSearcher || port == IndexPort {
		parts[key] = expr.Literal(name)
	}
	if name == runtime.DefaultSearcher {
		name = retrieverName
	}
	s.input(parts)
	s.compileCall(src, RetrieverCall, name, names)
}

// Place splits the name of a port that has one; "" for others.
func (u *Use) Place() (port, name string) {
	for _, port := range []string{SearcherPort, IndexPort, RerankerPort, SkillPort} {
		if name, ok := strings.CutPrefix(u.Name, port); ok {
			return port, name
		}
	}
	return "", ""
}
