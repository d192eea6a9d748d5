package host

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Explain says in an outcome which store was asked for a token or a run that it does not have; it returns the outcome.
func (h *Host) Explain(out *workflow.Outcome) *workflow.Outcome {
	e := out.Failure()
	if e == nil {
		return out
	}
	const hint = "--store, or the store: of another configuration, names another store"
	switch {
	case errors.Is(e, checkpoint.ErrToken):
		text := "no open pause has this token in " + h.storeName()
		out.Err = &runtime.Error{Category: e.Category, Code: e.Code, Step: e.Step,
			Err: fmt.Errorf("%s: %w", text, checkpoint.ErrToken)}
		for i := range out.Diagnostics {
			if d := &out.Diagnostics[i]; d.Code == diagnostics.CodeInvalidToken {
				d.Message, d.Hint = text+": it is unknown, used or expired", hint
			}
		}
	case errors.Is(e, checkpoint.ErrNotFound):
		out.Err = &runtime.Error{Category: e.Category, Code: e.Code, Step: e.Step,
			Err: fmt.Errorf("%w: %s\n  hint: %s", e.Err, h.storeName(), hint)}
	}
	return out
}

// storeName is the URL of the store for messages: its path absolute, without users, passwords and options.
func (h *Host) storeName() string {
	text, dir, err := h.StoreURL()
	if err != nil {
		return "the store"
	}
	scheme, path, _ := strings.Cut(text, ":")
	switch scheme {
	case "sqlite", "jsonl":
		path, _, _ = strings.Cut(path, "?")
		if abs, err := filepath.Abs(within(dir, path)); err == nil {
			path = abs
		}
		return scheme + ":" + path
	case "postgres", "postgresql":
		u, err := url.Parse(text)
		if err != nil {
			return scheme + "://…"
		}
		return scheme + "://" + u.Host + u.Path
	}
	return text
}
