package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/workflow"
)

// shownRun is the JSON of runs show.
type shownRun struct {
	*history.Run
	DurationMS *int64      `json:"durationMs,omitempty"` // nil: it has not ended
	Steps      []shownStep `json:"steps"`
	Notes      []string    `json:"notes,omitempty"`
}

// shownStep is the JSON of a step in runs show.
type shownStep struct {
	history.Step
	DurationMS *int64 `json:"durationMs,omitempty"`
	Input      any    `json:"input,omitempty"`
	Output     any    `json:"output,omitempty"`
}

func runJSON(run *history.Run, steps []history.Detail, notes []string) *shownRun {
	shown := &shownRun{run, millis(run.StartedAt, run.EndedAt), []shownStep{}, notes}
	for i := range steps {
		d := &steps[i]
		shown.Steps = append(shown.Steps, shownStep{d.Step, millis(d.StartedAt, d.EndedAt), d.Input, d.Output})
	}
	return shown
}

// millis is how many milliseconds something took; nil: it has not ended.
func millis(from, to time.Time) *int64 {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	return new(max(0, to.Sub(from).Milliseconds()))
}

// tookText words how long something took, with milliseconds where seconds would hide it.
func tookText(from, to time.Time) string {
	took := max(0, to.Sub(from))
	if took < time.Second {
		return took.Round(time.Millisecond).String()
	}
	return terminal.Took(took)
}

// whyText words why a run ended badly, and what its error says should be done about that; failed is the step that made
// it fail, nil if that is not known.
func whyText(about *history.About, failed *history.Step) (why, hint string) {
	e := about.Error
	if e.Code == "" {
		return "", ""
	}
	message := e.Message // of at most 300 bytes
	if failed != nil && failed.Error.Message != "" {
		message = failed.Error.Message
	}
	message, hint, _ = strings.Cut(message, "\n  hint: ")
	first, _, _ := strings.Cut(message, "\n")
	why = e.Code + ": "
	if e.Step != "" && !strings.Contains(first, fmt.Sprintf("step %q", e.Step)) {
		why += fmt.Sprintf("step %q: ", e.Step)
	}
	why += terminal.Cut(first)
	if failed != nil && failed.Attempts > 1 {
		why += fmt.Sprintf(" (%d attempts)", failed.Attempts)
	}
	return why, strings.ReplaceAll(hint, "\n", " ")
}

// nextText is the command by which a run goes on that stopped, or by which another begins where it failed; "": there is
// none, or what the run waits for tells it.
func (s *session) nextText(run *history.Run) string {
	switch {
	case run.Status == history.Interrupted:
		return "braise runs recover " + run.RunID + s.sameFlags()
	case run.Status == history.Failed && run.Error.Step != "" && s.cluster == nil:
		return "braise runs fork " + run.RunID + " --at " + quoted(workflow.PlanID(run.Error.Step)) +
			s.sameFlags()
	}
	return ""
}

// usageText words what was used of models.
func usageText(u checkpoint.Usage) string {
	if u == (checkpoint.Usage{}) {
		return ""
	}
	calls := "calls"
	if u.Calls == 1 {
		calls = "call"
	}
	text := fmt.Sprintf("%d %s, tokens %d in%s, %d out", u.Calls, calls, u.InputTokens, cachedText(&u), u.OutputTokens)
	if u.Micros > 0 {
		text += ", " + terminal.Dollars(float64(u.Micros)/1e6)
	}
	return text
}

// printStep prints how far a step has come, and with verbose also its times, what it took and gave, and what it used.
func printStep(row func(name, text string), run *history.Run, d *history.Detail, verbose bool) {
	row("step "+d.Step.Step, stepText(run, &d.Step))
	if d.Agent != nil {
		for _, c := range d.Agent.Calls {
			at := "asks the model"
			if c.Call > 0 {
				at = fmt.Sprintf("at call %d: %s", c.Call, c.Tool)
			}
			row("  "+c.Path, at)
		}
	}
	if !verbose {
		return
	}
	if !d.StartedAt.IsZero() {
		began := d.StartedAt.Local().Format("2006-01-02 15:04:05.000")
		if !d.EndedAt.IsZero() {
			began += ", took " + tookText(d.StartedAt, d.EndedAt)
		}
		if d.Attempts > 1 {
			began += fmt.Sprintf(", %d attempts", d.Attempts)
		}
		row("  began", began)
	}
	row("  input", valueText(d.Input))
	row("  output", valueText(d.Output))
	if d.Usage != nil {
		row("  models", usageText(*d.Usage))
	}
	if _, hint, _ := strings.Cut(d.Error.Message, "\n  hint: "); hint != "" {
		row("  hint", strings.ReplaceAll(hint, "\n", " "))
	}
}

// shownChars is how many characters of a value runs show -v shows.
const shownChars = 400

// valueText is a value on one line, shortened; "": nil.
func valueText(v any) string {
	if v == nil {
		return ""
	}
	text, err := value.JSON(v)
	if err != nil {
		return err.Error()
	}
	chars := []rune(string(text[:min(len(text), 4*shownChars)]))
	if len(text) <= 4*shownChars && len(chars) <= shownChars {
		return string(chars)
	}
	return fmt.Sprintf("%s… (%s bytes; --output json has all)",
		string(chars[:min(len(chars), shownChars)]), terminal.Grouped(int64(len(text))))
}

// stepText words how far a step of a run has come.
func stepText(run *history.Run, step *history.Step) string {
	text := step.Status
	if step.Status == "running" && run.Status == history.Interrupted {
		text = "interrupted"
	}
	if step.Reason != "" {
		text += " (" + step.Reason + ")"
	}
	switch {
	case step.StartedAt.IsZero():
	case step.Status == "running" || step.Status == "waiting":
		text += ", since " + terminal.LocalTime(step.StartedAt)
	case step.EndedAt.Sub(step.StartedAt) >= time.Second: // never of one that has no end
		text += " in " + tookText(step.StartedAt, step.EndedAt)
	}
	if step.RolledBack {
		text += ", rolled back"
	}
	if step.Error.Message != "" {
		text += ": " + terminal.Cut(step.Error.Message)
	}
	if step.RollbackError != "" {
		text += ", not rolled back: " + terminal.Cut(step.RollbackError)
	}
	for i, status := range slices.Sorted(maps.Keys(step.Items)) {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		text += fmt.Sprintf("%s%d %s", separator, step.Items[status], status)
	}
	if step.Agent != nil {
		text += fmt.Sprintf(", step %d, tokens %d in, %d out",
			step.Agent.Step, step.Agent.Usage.InputTokens, step.Agent.Usage.OutputTokens)
		if stop := step.Agent.Stop; stop != "" && stop != "answer" && stop != "error" { // the usual end, and a failure
			text += ", stopped: " + stop
		}
	}
	return text
}
