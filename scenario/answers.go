package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// answer is an entry of answers.yaml: how to answer one pause.
type answer struct {
	pause string // the pause's id; "": by step
	step  string // whose first pause it is; "": the first that is open
	input any    // see resume.AnswerOf
}

// readAnswers reads answers.yaml.
func readAnswers(data []byte) ([]answer, error) {
	root, found := yamlnode.Parse(answersFile, data, nil)
	r := yamlnode.Reader{Diagnostics: found}
	var list []answer
	for _, n := range r.List(root) {
		fields := r.Object(n, []string{"pause", "step", "decision", "form", "input"}, nil)
		if fields["pause"] != nil && fields["step"] != nil {
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", `"pause" names one pause; it excludes "step"`)
		}
		if fields["input"] != nil && (fields["decision"] != nil || fields["form"] != nil) {
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "",
				`"input" is the whole answer; it excludes "decision" and "form"`)
		}
		a := answer{pause: r.Text(fields["pause"]), step: r.Text(fields["step"]),
			input: resume.AnswerOf(r.Text(fields["decision"]), fields["form"].Decoded())}
		if input := fields["input"]; input != nil {
			a.input = input.Decoded()
		}
		list = append(list, a)
	}
	r.Diagnostics.Sort()
	return list, r.Diagnostics.Err()
}

// answerAll answers the pauses of a run until none is pending, or the answers are used up. It returns the
// outcomes of all executions; problem says which answer could not be given.
func (s *scenario) answerAll(
	ctx context.Context, wf *workflow.Workflow, rt *runtime.Runtime, out *workflow.Outcome,
) (outcomes []*workflow.Outcome, problem string) {
	outcomes = []*workflow.Outcome{out}
	tokens := resume.Tokens{}
	for i, a := range s.answers {
		tokens.Note(out.Pauses)
		if out.Status != workflow.StatusPaused {
			return outcomes, fmt.Sprintf("%s: the run was over before answer %d", answersFile, i+1)
		}
		n := slices.IndexFunc(out.Pauses, func(p resume.Pause) bool {
			return (a.pause == "" || p.ID == a.pause) && (a.step == "" || p.Step == a.step)
		})
		switch {
		case n < 0 && a.pause != "":
			return outcomes, fmt.Sprintf("%s: answer %d: no pause %q is open; those that are: %s",
				answersFile, i+1, a.pause,
				waiting(out, func(p resume.Pause) string { return p.ID }))
		case n < 0:
			return outcomes, fmt.Sprintf("%s: answer %d: step %q does not wait; those that do: %s",
				answersFile, i+1, a.step,
				waiting(out, func(p resume.Pause) string { return p.Step }))
		}
		next, err := workflow.Resume(ctx, tokens[out.Pauses[n].ID], a.input, rt, // whoever may answer
			&workflow.ResumeOptions{Workflow: wf})
		if e := next.Failure(); e != nil && (e.Code == "answer.unfit" || e.Code == "resume.refused") {
			return outcomes, fmt.Sprintf("%s: answer %d: %v", answersFile, i+1, err)
		}
		out = next
		outcomes = append(outcomes, out)
	}
	return outcomes, ""
}

// waiting lists what a run waits for.
func waiting(out *workflow.Outcome, name func(resume.Pause) string) string {
	names := make([]string, len(out.Pauses))
	for i, p := range out.Pauses {
		names[i] = name(p)
	}
	return strings.Join(names, ", ")
}
