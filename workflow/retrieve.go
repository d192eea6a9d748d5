package workflow

import (
	"fmt"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// bindPorts reports ports that are not there, or that lack something.
func (p *prepared) bindPorts(ports []program.Use, rt *runtime.Runtime) {
	for _, u := range ports {
		port, name, code := any(rt.Retriever), "retriever", diagnostics.CodeMissingRetriever
		switch u.Name {
		case "memory":
			port, name, code = rt.Memory, "memory", diagnostics.CodeMissingCapability
		case "skills":
			port, name, code = rt.Skills, "skill loader", diagnostics.CodeMissingCapability
		}
		if port == nil {
			p.list = append(p.list, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: code,
				Message: fmt.Sprintf("there is no %s; step %q needs it", name, u.Step), Position: u.Pos, Step: u.Step,
			})
		} else if d, ok := port.(runtime.Described); ok {
			p.list = append(p.list, p.offers.Unmet("the "+name, d.Metadata().Requires)...)
		}
	}
}

// prepareRetriever checks the query of a retrieve step.
func (in *invocation) prepareRetriever() error {
	if in.run.rt.Retriever == nil {
		return program.ConfigError(diagnostics.CodeMissingRetriever, "%s: there is no retriever", in.call.Pos)
	}
	in.args, _ = in.input.(map[string]any)
	if _, ok := in.args["query"].(string); !ok {
		return program.ConfigError("retriever.arguments", "%s: query of a retrieve step must be a string, not %s",
			in.call.Pos, value.TypeName(in.args["query"]))
	}
	about, _ := in.run.rt.Retriever.(runtime.Described)
	in.resolve(about)
	return nil
}

// search asks the retriever once.
func (in *invocation) search() ([]runtime.Document, error) {
	query, _ := in.args["query"].(string)
	topK, _ := in.args["top_k"].(int64)
	found, err := in.run.rt.Retriever.Retrieve(in.ctx, query, int(topK))
	return found[:min(len(found), int(topK))], err
}

// retrieve asks the retriever and checks what it returns, secrets out.
func (in *invocation) retrieve() (any, error) {
	resp, err := in.try()
	if err != nil {
		return nil, err
	}
	output, size, err := value.Take(map[string]any{"documents": documentList(resp.found)}, in.run.limits.MaxOutputBytes)
	if in.size = size; err != nil {
		return nil, fmt.Errorf("the retriever returned what is not JSON: %w", err)
	}
	if in.run.prepared.redact != nil {
		output, in.size = in.run.prepared.redact.Value(output), machine.Unknown
	}
	return output, in.checkOutput(output, in.call.Answer)
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
