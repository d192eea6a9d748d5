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
	step  string // whose pause it is; "": the first that is open
	input any    // see resume.AnswerOf
}

// readAnswers reads answers.yaml.
func readAnswers(data []byte) ([]answer, error) {
	root, found := yamlnode.Parse(answersFile, data, nil)
	r := yamlnode.Reader{Diagnostics: found}
	var list []answer
	for _, n := range r.List(root) {
		fields := r.Object(n, []string{"step", "decision", "form", "input"}, nil)
		if fields["input"] != nil && (fields["decision"] != nil || fields["form"] != nil) {
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", `"input" is the whole answer; it excludes "decision" and "form"`)
		}
		a := answer{step: r.Text(fields["step"]), input: resume.AnswerOf(r.Text(fields["decision"]), fields["form"].Decoded())}
		if input := fields["input"]; input != nil {
			a.input = input.Decoded()
		}
		list = append(list, a)
	}
	r.Diagnostics.Sort()
	return list, r.Diagnostics.Err()
}

// answerAll answers what a run waits for until it waits no more, or the answers are used up. It returns the
// outcomes of all legs; problem says which answer could not be given.
func (s *scenario) answerAll(ctx context.Context, wf *workflow.Workflow, rt *runtime.Runtime, out *workflow.Outcome) (legs []*workflow.Outcome, problem string) {
	legs = []*workflow.Outcome{out}
	for i, a := range s.answers {
		if out.Status != workflow.StatusPaused {
			return legs, fmt.Sprintf("%s: the run was over before answer %d", answersFile, i+1)
		}
		n := 0
		if a.step != "" {
			n = slices.IndexFunc(out.Pauses, func(p resume.Pause) bool { return p.Step == a.step })
		}
		if n < 0 {
			return legs, fmt.Sprintf("%s: answer %d: step %q does not wait; those that do: %s", answersFile, i+1, a.step, waiting(out))
		}
		next, err := workflow.Answer(ctx, out.RunID, out.Pauses[n].ID, a.input, rt, &workflow.ResumeOptions{Workflow: wf})
		if e := next.Error(); e != nil && (e.Code == "answer.unfit" || e.Code == "resume.refused") {
			return legs, fmt.Sprintf("%s: answer %d: %v", answersFile, i+1, err)
		}
		out = next
		legs = append(legs, out)
	}
	return legs, ""
}

// waiting lists the steps that a run waits for.
func waiting(out *workflow.Outcome) string {
	steps := make([]string, len(out.Pauses))
	for i, p := range out.Pauses {
		steps[i] = p.Step
	}
	return strings.Join(steps, ", ")
}
