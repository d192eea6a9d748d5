package openai

import (
	"errors"
	"fmt"
	"regexp"

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
	f, ok := errors.AsType[*retry.Failure](err)
	if !ok || f.Status < 400 || f.Reason != "" && f.Reason != retry.ServerError {
		return err
	}
	switch said := f.Err.Error(); {
	case len(req.Tools) > 0 && refusesTools.MatchString(said):
		f.Err = fmt.Errorf("%w\n  hint: for a model that calls no tools, give the agent tools: []", f.Err)
	case m.formatOf(req) != nil && refusesFormat.MatchString(said):
		f.Err = fmt.Errorf("%w\n  hint: json_schema: false of the model in braise.yaml puts the schema into words",
			f.Err)
	}
	return err
}
