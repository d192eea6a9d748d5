package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/runtime"
)

// problem is why a request was refused, or failed.
type problem struct {
	status int
	found  diagnostics.List
	retry  time.Duration // after which the request may be sent again; 0: not known
	errorBody
}

// errorBody is what is wrong with a request, or why a run failed.
type errorBody struct {
	Category string `json:"category" doc:"What is to blame: request, or one of the categories of the errors of runs."`
	Code     string `json:"code" doc:"Stable, for programs."`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty" doc:"What to do about it."`
	Step     string `json:"step,omitempty" doc:"The path of the step."`
}

// Error prints the code and the message.
func (p *problem) Error() string { return p.Code + ": " + p.Message }

// failure is the body of every response that is an error.
type failure struct {
	Error       errorBody        `json:"error"`
	Diagnostics diagnostics.List `json:"diagnostics"`
}

// categoryRequest is of requests that nobody could carry out.
const categoryRequest = "request"

// fail returns a problem; a hint may follow the message on a second line. Without one, it is that of the code.
func fail(status int, code, format string, args ...any) *problem {
	message, hint := split(fmt.Sprintf(format, args...))
	return &problem{status: status, errorBody: errorBody{Category: categoryRequest, Code: code, Message: message,
		Hint: cmp.Or(hint, hints[code])}}
}

// malformed is fail for a request that nobody could understand.
func malformed(code, format string, args ...any) *problem {
	return fail(http.StatusBadRequest, code, format, args...)
}

// forbidden is fail for what is not for this person.
func forbidden(code, format string, args ...any) *problem {
	return fail(http.StatusForbidden, code, format, args...)
}

// absent is fail for what there is not.
func absent(code, format string, args ...any) *problem {
	return fail(http.StatusNotFound, code, format, args...)
}

// conflict is fail for what contradicts what is recorded, with a code that runs, stores and answers have, too.
func conflict(code, format string, args ...any) *problem {
	p := fail(http.StatusConflict, code, format, args...)
	p.Category = string(runtime.CategoryInfra)
	return p
}

// unfit is fail for what is understood, and cannot be carried out.
func unfit(code, format string, args ...any) *problem {
	return fail(http.StatusUnprocessableEntity, code, format, args...)
}

// split takes the hint off a message.
func split(text string) (message, hint string) {
	message, hint, _ = strings.Cut(text, "\n  hint: ")
	return message, strings.ReplaceAll(hint, "\n  hint: ", "; ")
}

// statuses are those of the codes of errors that runs, stores and answers have too. Others of category config and
// limit are 422: the request is understood, and cannot be carried out.
var statuses = map[string]int{
	"run.notFound":             http.StatusNotFound,
	"run.exists":               http.StatusConflict,
	"run.busy":                 http.StatusConflict,
	"run.fenced":               http.StatusConflict,
	"run.ended":                http.StatusConflict,
	"call.alive":               http.StatusConflict,
	"pause.answered":           http.StatusConflict,
	"pause.expired":            http.StatusConflict,
	"resume.invalidToken":      http.StatusConflict,
	"resume.definitionChanged": http.StatusConflict,
	"resume.needsWorkflow":     http.StatusConflict,
	"resume.questionChanged":   http.StatusConflict,
	"channel.closed":           http.StatusConflict,
	"channel.full":             http.StatusConflict,
	"answer.notAllowed":        http.StatusForbidden,
	"hook.signature":           http.StatusUnauthorized,
	"hook.body":                http.StatusBadRequest,
	"store.failed":             http.StatusServiceUnavailable,
	"journal.corrupt":          http.StatusInternalServerError,
	"journal.version":          http.StatusInternalServerError,
	"journal.newer":            http.StatusInternalServerError,
}

// storeRetry is when a request may be sent again if the store could not be used.
const storeRetry = 2 * time.Second

// problemOf returns what an error is for who sent the request; what it tells of the installation is left out.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	var found *diagnostics.Error
	if errors.As(err, &found) {
		p := unfit("recipe.invalid", "%v", found.List.Err())
		for _, d := range found.List {
			if d.Level == diagnostics.ErrorLevel {
				p.errorBody = errorBody{string(runtime.CategoryConfig), string(d.Code), d.Message,
					cmp.Or(d.Hint, hints[string(d.Code)]), d.Step}
				break
			}
		}
		p.found = found.List
		return p
	}
	code, category, text, step := checkpoint.Code(err), runtime.CategoryInfra, err.Error(), ""
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		code, category, text, step = e.Code, e.Category, e.Err.Error(), e.Step
	}
	status, known := statuses[code]
	switch {
	case known:
	case category == runtime.CategoryConfig || category == runtime.CategoryLimit:
		status = http.StatusUnprocessableEntity
	default:
		status = http.StatusInternalServerError
	}
	switch {
	case status == http.StatusServiceUnavailable:
		text = "the store cannot be used at the moment\n  hint: send the request again; the log of the server says more"
	case status == http.StatusInternalServerError && !known:
		text = "the server failed\n  hint: the log of the server says more"
	}
	p := fail(status, code, "%s", text)
	p.Category, p.Step = string(category), step
	if status == http.StatusServiceUnavailable {
		p.retry = storeRetry
	}
	return p
}

// within says at which places of a member of the body an error is, if it is about a value that does not match its
// schema. member is a JSON pointer.
func within(member string, err error) error {
	wrong, ok := errors.AsType[*schema.Misfit](err)
	if !ok {
		return err
	}
	p := problemOf(err)
	for _, one := range wrong.Problems {
		p.found = append(p.found, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
			Code: diagnostics.Code(p.Code), Message: one.Message, Data: map[string]any{"path": member + one.Path}})
	}
	return p
}

// gone reports whether a request failed because who sent it has left.
func gone(ctx context.Context, err error) bool { return ctx.Err() != nil && errors.Is(err, ctx.Err()) }
