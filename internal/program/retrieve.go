package program

import (
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/recipe"
)

// retrieverName is the name of the retriever in events: a runtime has one, and recipes do not name it.
const retrieverName = "retriever"

func (s *stepCompiler) compileRetrieve(src *recipe.Step, names *expr.Scope) {
	query, refs := s.template(src.Retrieve.Query, names)
	s.refer(refs)
	s.node.With = expr.Map([]string{"query", "top_k"}, []*expr.Template{query, expr.Literal(int64(src.Retrieve.TopK))})
	s.node.Bound()
	s.need(usePort, retrieverName, src.Uses.Pos, s.path())
	s.compileCall(src, RetrieverCall, retrieverName)
}
