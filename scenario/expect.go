package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/tools/txtar"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/workflow"
)

// expect compares a run with everything that the scenario expects:
//
//  1. diagnostics, with the # want comments
//  2. the expectation files; with update those that do not hold are rewritten
//  3. what no expectation speaks of: there must be one, and the run must have ended well
//
// It reports whether a file of the archive was rewritten.
func (s *scenario) expect(a *attempt, update bool, fail func(format string, args ...any)) (updated bool) {
	for _, problem := range []string{a.problem, a.left} {
		if problem != "" {
			fail("%s", problem)
		}
	}
	left, missing := s.take(a.diagnostics)
	for _, w := range missing {
		fail("%s:%d: no diagnostic matches %q%s", w.file, w.line, w.regexp, onLine(w, left))
	}
	files := 0
	for _, e := range s.expectations(a, left) {
		f := s.file(e.file)
		if f == nil {
			continue
		}
		files++
		problem := e.compare(f.Data)
		switch {
		case problem == "":
		case update && e.renew != nil:
			f.Data, updated = []byte(e.renew(f.Data)), true
		default:
			fail("%s: %s", e.file, problem)
		}
	}
	switch {
	case s.file(outcomeFile) != nil:
	case files+len(s.wants) == 0 && update:
		s.archive.Files = append(s.archive.Files,
			txtar.File{Name: outcomeFile, Data: []byte(a.renewOutcome(nil, left))})
		return true
	case files+len(s.wants) == 0:
		fail("nothing is expected; --update writes an %s with\n%s", outcomeFile, a.renewOutcome(nil, left))
		return updated
	case !a.ok() && (a.plan != nil || len(missing) == len(s.wants) && s.file(diagnosticsFile) == nil):
		fail("the run did not end well; if it should not, say so in %s:\n%s",
			outcomeFile, indented(pick(a.outcome, "status", "error", "pauses")))
	}
	if s.file(diagnosticsFile) == nil && !s.listsDiagnostics() {
		for _, d := range left {
			if !d.Position.IsZero() {
				fail("unexpected diagnostic: %s", d)
			}
		}
	}
	return updated
}

// onLine lists the diagnostics beside a want that none matches.
func onLine(w want, left diagnostics.List) string {
	text := ""
	for _, d := range left {
		if d.Position.File == w.file && d.Position.Line == w.line {
			text += fmt.Sprintf("\n  there is: %s: %s", d.Code, d.Message)
		}
	}
	return text
}

// expectation is one kind of expectation file.
type expectation struct {
	file    string
	compare func(data []byte) (problem string)
	renew   func(old []byte) string // nil: there is nothing to write
}

func (s *scenario) expectations(a *attempt, left diagnostics.List) []expectation {
	list := []expectation{
		{outcomeFile, a.compareOutcome, func(old []byte) string { return a.renewOutcome(old, left) }},
		exactly(diagnosticsFile, listed(left)),
		exactly(traceFile, lines(a.trace)),
	}
	if a.plan == nil {
		refused := func([]byte) string { return "there is no plan: the recipe was refused" }
		return append(list,
			expectation{file: planFile, compare: refused},
			expectation{file: planJSONFile, compare: refused})
	}
	return append(list, exactly(planFile, a.plan.Mermaid()), expectation{
		planJSONFile,
		func(data []byte) string { return compareJSON(data, decoded(a.plan), match) },
		func([]byte) string {
			plan := decoded(a.plan)
			delete(plan, "digest")
			return indented(plan)
		},
	})
}

// exactly expects a text, white space at its end aside.
func exactly(file, got string) expectation {
	return expectation{
		file,
		func(data []byte) string {
			if d := difference(strings.TrimSpace(string(data)), strings.TrimSpace(got)); d != "" {
				return "it is not as expected (-want +got):\n" + d
			}
			return ""
		},
		func([]byte) string { return got },
	}
}

// listed prints diagnostics as diagnostics.txt has them.
func listed(list diagnostics.List) string {
	texts := make([]string, len(list))
	for i, d := range list {
		texts[i] = d.String()
	}
	return lines(texts)
}

// outcomeKeys are the members of an outcome that an expectation may have.
var outcomeKeys = []string{"status", "runId", "recipe", "output", "artefact", "pauses", "error", "usage",
	"diagnostics", "trace"}

// compareOutcome looks for the expected members in the outcome; those of trace, in their order,
// among the events.
func (a *attempt) compareOutcome(data []byte) string {
	return compareJSON(data, a.outcome, func(path string, want, got any) []string {
		object, ok := want.(map[string]any)
		if !ok {
			return []string{"it must hold an object"}
		}
		var problems []string
		for _, key := range slices.Sorted(maps.Keys(object)) {
			switch {
			case !slices.Contains(outcomeKeys, key):
				problems = append(problems, fmt.Sprintf("an outcome has no %q; %s",
					key, diagnostics.DidYouMean(key, outcomeKeys)))
			case key == "trace":
				problems = append(problems, matchTrace(object[key], a.outcome[key].([]any))...)
			default:
				problems = append(problems, match(key, object[key], a.outcome[key])...)
			}
		}
		if e := a.outcome["error"]; problems != nil && e != nil && object["status"] != a.outcome["status"] {
			problems = append(problems, "the run ended with "+short(e))
		}
		return problems
	})
}

// matchTrace looks for the expected events in the trace: in their order, others may be between.
func matchTrace(want any, got []any) []string {
	list, ok := want.([]any)
	if !ok {
		return []string{"trace must be a list of events"}
	}
	next := 0
	for i, w := range list {
		for next < len(got) && match("", w, got[next]) != nil {
			next++
		}
		if next == len(got) {
			return []string{fmt.Sprintf("trace[%d]: no event, after those before it in the list, is %s", i, short(w))}
		}
		next++
	}
	return nil
}

// match compares a value with what is expected of it: objects may have more members, lists have
// as many elements, null also stands for a missing member.
func match(path string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		var problems []string
		for _, key := range slices.Sorted(maps.Keys(w)) {
			problems = append(problems, match(strings.TrimPrefix(path+"."+key, "."), w[key], g[key])...)
		}
		return problems
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		var problems []string
		for i := range min(len(w), len(g)) {
			problems = append(problems, match(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		if len(w) != len(g) {
			problems = append(problems, fmt.Sprintf("%s has %d elements, want %d: %s",
				path, len(g), len(w), short(got)))
		}
		return problems
	default:
		if value.Equal(want, got) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %s, want %s", path, short(got), short(want))}
}

// compareJSON compares an expectation in JSON by a function that lists what is wrong.
func compareJSON(data []byte, got any, compare func(path string, want, got any) []string) string {
	want, err := value.DecodeStrict(data)
	if err != nil {
		return err.Error()
	}
	return strings.Join(compare("", want, got), "\n  ")
}

// listsDiagnostics reports whether outcome.json speaks of the diagnostics.
func (s *scenario) listsDiagnostics() bool {
	f := s.file(outcomeFile)
	if f == nil {
		return false
	}
	v, _ := value.Decode(f.Data)
	object, _ := v.(map[string]any)
	return object["diagnostics"] != nil
}

// renewOutcome is an outcome.json for what happened: status, output, error and pauses, diagnostics that
// nothing else expects, and what else the old one speaks of. Ids and times are left out.
func (a *attempt) renewOutcome(old []byte, left diagnostics.List) string {
	v, _ := value.Decode(old)
	before, _ := v.(map[string]any)
	keys := []string{"status", "output", "error", "pauses"}
	for _, key := range []string{"artefact", "diagnostics", "trace"} {
		if before[key] != nil {
			keys = append(keys, key)
		}
	}
	positioned := func(d diagnostics.Diagnostic) bool { return !d.Position.IsZero() }
	if old == nil && slices.ContainsFunc(left, positioned) {
		keys = append(keys, "diagnostics")
	}
	renewed := pick(a.outcome, keys...)
	if events, ok := renewed["trace"].([]any); ok {
		brief := make([]any, len(events))
		for i, e := range events {
			brief[i] = pick(e.(map[string]any), "kind", "step")
		}
		renewed["trace"] = brief
	}
	return indented(renewed)
}

// indented prints what was decoded from JSON, for people.
func indented(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return b.String()
}

// short prints a value on a line that is not too long.
func short(v any) string {
	const most = 400
	text, err := value.JSON(v)
	if err != nil {
		return err.Error()
	}
	if chars := []rune(string(text)); len(chars) > most {
		return string(chars[:most]) + "…"
	}
	return string(text)
}

func decoded(p *workflow.Plan) map[string]any {
	text, _ := p.JSON() // strings and numbers
	v, _ := value.Decode(text)
	return v.(map[string]any)
}

func lines(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\n") + "\n"
}

// difference shows where two texts differ, as the hunks of a unified diff; "" when they are the same.
func difference(before, after string) string {
	whole := diff.Diff("want", []byte(before+"\n"), "got", []byte(after+"\n"))
	if _, hunks, ok := bytes.Cut(whole, []byte("\n@@ ")); ok { // the names of files mean nothing here
		return "@@ " + strings.TrimSuffix(string(hunks), "\n")
	}
	return ""
}
