package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// The outcome of a run that could not begin has its diagnostics, the usual form, and says that nothing ran.
func TestRefused(t *testing.T) {
	outcomes, err := schema.Compile(workflow.OutcomeSchema())
	if err != nil {
		t.Fatal(err)
	}
	_, wrong := recipe.Parse("r.yaml", []byte("name: r"))
	for _, tt := range []struct {
		err   error
		code  string
		want  string // message of the outcome
		hint  string // of the first diagnostic
		count int    // of diagnostics
	}{
		{wrong, "recipe.missingKey", `nothing ran: r.yaml:1:1: `, "begin with apiVersion: braise/v1", 2},
		{diagnostics.List{{Level: diagnostics.Warn, Kind: diagnostics.KindWorkflow, Code: diagnostics.CodeFile, Message: "w"}, {Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
			Code: diagnostics.CodeInput, Message: "m", Data: map[string]any{"n": 1}}}.Err(), "input.invalid", "nothing ran: m", "", 2},
		{errors.New("no such place\n  hint: look elsewhere"), "recipe.file", "nothing ran: no such place", "look elsewhere", 1},
	} {
		out := host.Refused(tt.err)
		e := out.Failure()
		if e == nil || e.Category != runtime.CategoryConfig || e.Code != tt.code || len(e.Error()) < len(tt.want) || e.Error()[:len(tt.want)] != tt.want {
			t.Errorf("%v: the error is %v, want %s: %s", tt.err, e, tt.code, tt.want)
		}
		if len(out.Diagnostics) != tt.count || out.Diagnostics[0].Hint != tt.hint {
			t.Errorf("%v: diagnostics %v, want %d with the hint %q", tt.err, out.Diagnostics, tt.count, tt.hint)
		}
		if code := host.ExitCode(out); code != host.ExitInvalid {
			t.Errorf("%v: exit code %d", tt.err, code)
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		v, err := value.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if problems := outcomes.Check(v); problems != nil {
			t.Errorf("%s: %s", text, schema.Describe(problems))
		}
	}
}

func TestFailed(t *testing.T) {
	missing := &runtime.Error{Category: runtime.CategoryConfig, Code: "tool.missing", Err: errors.New("no server")}
	for _, tt := range []struct {
		err  error
		code string
		exit int
	}{
		{checkpoint.ErrNotFound, "run.notFound", 7},
		{checkpoint.ErrBusy, "run.busy", 7},
		{checkpoint.ErrCorrupt, "journal.corrupt", 9},
		{checkpoint.ErrVersion, "journal.version", 9},
		{errors.New("the disk is full"), "store.failed", 9},
		{missing, "tool.missing", 8},
	} {
		out := host.Failed("r1", fmt.Errorf("wrapped: %w", tt.err))
		if e := out.Failure(); out.Status != workflow.StatusError || out.RunID != "r1" || e == nil || e.Code != tt.code || !errors.Is(e, tt.err) {
			t.Errorf("%v: %+v", tt.err, out)
		}
		if got := host.ExitCode(out); got != tt.exit {
			t.Errorf("%v: exit code %d, want %d", tt.err, got, tt.exit)
		}
	}
}

func TestExitCode(t *testing.T) {
	got := map[workflow.Status]int{}
	for _, status := range []workflow.Status{workflow.StatusOK, workflow.StatusPaused, workflow.StatusCancelled, workflow.StatusError} {
		got[status] = host.ExitCode(&workflow.Outcome{Status: status})
	}
	want := map[workflow.Status]int{workflow.StatusOK: 0, workflow.StatusPaused: 4, workflow.StatusCancelled: 5, workflow.StatusError: 9}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exit codes without an error (-want +got)\n%s", diff)
	}
	for _, tt := range []struct {
		category runtime.Category
		code     string
		want     int
	}{
		{runtime.CategoryTool, "tool.failed", 1},
		{runtime.CategoryConfig, "recipe.inputs", 1}, // in a run: it has begun
		{runtime.CategoryConfig, "input.invalid", 3},
		{runtime.CategoryLimit, "limits.tokens", 6},
		{runtime.CategoryLimit, "foreach.maxItems", 1},
		{runtime.CategoryInfra, "run.busy", 7},
		{runtime.CategoryConfig, "secret.missing", 8},
		{runtime.CategoryInfra, "engine.panic", 9},
	} {
		out := &workflow.Outcome{Status: workflow.StatusError, Err: &runtime.Error{Category: tt.category, Code: tt.code, Err: errors.New("x")}}
		if got := host.ExitCode(out); got != tt.want {
			t.Errorf("%s %s: exit code %d, want %d", tt.category, tt.code, got, tt.want)
		}
	}
}
