package local

import (
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/program"
)

// reachedCall says that a boundary of a call of an adapter is reached: of a tool, a retriever or a model.
func reachedCall(c *engine.Call, tool, model string) {
	switch c.Kind {
	case program.ToolCall, program.RetrieverCall:
		failpoint.Reached(tool)
	case program.ModelCall:
		failpoint.Reached(model)
	}
}
