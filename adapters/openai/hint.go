package openai

import (
	"regexp"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// What endpoints say when they do not know, or do not take, a member of a request.
var (
	refusesFormat = regexp.MustCompile(`(?i)response_?\s?format|json_schema|structured.?output|guided|grammar`)
	refusesTools  = regexp.MustCompile(`(?i)n.t support (\w+ )?tool|tools? (\w+ )?(is|are) not supported|` +
		`support tool use|tool.?(calling|use|choice)\W* (requires|is not|isn't)`)
)

// hinted adds what can be done about a refusal.
func (m *Model) hinted(req *runtime.Request, err error) error {
	return endpoint.Hint(err, func(f *retry.Failure, said string) string {
		switch {
		case f.Status < 400 || f.Reason != "" && f.Reason != retry.ServerError:
		case len(req.Tools) > 0 && refusesTools.MatchString(said):
			return "for a model that calls no tools, give the agent tools: []"
		case m.formatOf(req) != nil && refusesFormat.MatchString(said):
			return "json_schema: false of the model in braise.yaml puts the schema into words"
		}
		return ""
	})
}
