package recipe_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/recipe"
)

// FuzzParse: never a panic; what is wrong comes sorted and with places; what is right has a digest
// and keeps it when it is parsed again.
func FuzzParse(target *testing.F) {
	f := seedtest.Fuzz(target)
	seeds, err := filepath.Glob("testdata/triage/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range seeds {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, tt := range rejected {
		f.Add([]byte(head + tt.text))
	}
	f.Add([]byte(durable))
	for _, tt := range rejectedDurable {
		f.Add([]byte(head + tt.text))
	}
	f.Add([]byte(control))
	for _, tt := range rejectedControl {
		f.Add([]byte(head + tt.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := recipe.Parse("f", bytes.Clone(data))
		if err == nil {
			again, err := recipe.Parse("f", data)
			if err != nil || again.Digest != r.Digest || len(r.Digest) != 71 || len(r.Steps) == 0 {
				t.Errorf("got %v and digests %q, %q", err, r.Digest, again.Digest)
			}
			if steps, err := r.StepDigests(); err != nil || len(steps) < len(r.Steps) {
				t.Errorf("got %d digests of %d steps, %v", len(steps), len(r.Steps), err)
			}
			return
		}
		var found *diagnostics.Error
		if !errors.As(err, &found) {
			t.Fatalf("got a %T", err)
		}
		if !slices.IsSortedFunc(found.List, func(a, b diagnostics.Diagnostic) int { return a.Position.Compare(b.Position) }) {
			t.Errorf("not sorted: %v", err)
		}
		for _, d := range found.List {
			if d.Position.File != "f" || d.Position.Line < 1 || d.Message == "" || strings.ContainsAny(d.Message+d.Hint, "\r\n") {
				t.Errorf("bad diagnostic: %+v", d)
			}
		}
	})
}

// hostile holds recipes of a quarter of the cap, for the sake of the race detector; at 1 MiB they
// cost a careless reader minutes. A test that does not end is how they fail.
func hostile() map[string]string {
	const size = 1 << 18
	fill := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	return map[string]string{
		"unknown keys at the top":  head + fill("when%d:\n"),
		"unknown keys of a step":   head + "steps:\n  a:\n    uses: set\n" + fill("    outputt%d: 1\n"),
		"unknown kinds":            head + "steps:\n" + fill("  a%d: {uses: modell, with: 1}\n"),
		"bad ids":                  head + "steps:\n" + fill("  A%d: {uses: a.b}\n"),
		"empty steps":              head + "steps:\n" + fill("  a%d: {}\n"),
		"ids of outer steps":       head + "steps:\n" + fill("  a%[1]d: {uses: recipe, with: {steps: {a%[1]d: {uses: a.b}}}}\n"),
		"inputs":                   head + "inputs:\n" + fill("  a%d: string\n"),
		"schemas":                  head + "inputs:\n" + fill("  a%d: {type: string}\n"),
		"one schema with much":     head + "inputs: {a: {properties: {\n" + fill("   a%d: {type: string},\n") + "}}}\n",
		"output schemas":           head + "steps:\n" + fill("  a%[1]d: {uses: a.b, output: {schema: {const: %[1]d}}}\n"),
		"schemas of patterns":      head + "inputs:\n" + fill("  a%[1]d: {pattern: 'a{1000}', const: %[1]d}\n"),
		"schemas that are wrong":   head + "inputs:\n" + fill("  a%d: {type: x%[1]d}\n"),
		"defaults that are wrong":  head + "inputs: {a: {items: {type: string}, default: [\n" + fill("   %d,\n") + "]}}\n",
		"agents":                   head + "agents:\n" + fill("  a%d: {tool: 1}\n"),
		"a deep body":              nested(84)[:size/16] + fill("# %d\n"),
		"a long id":                head + "steps:\n  " + strings.Repeat("a", size/2) + ": 1\n",
		"long keys":                head + fill("a234567890123456789012345678901234567890%d: 1\n"),
		"needs":                    head + "steps: {a: {uses: a.b, needs: [" + fill("b%d, ") + "]}}\n",
		"bodies in a foreach each": head + "steps:\n" + fill("  a%d: {uses: recipe, foreach: {in: []}, with: {steps: {b: {uses: set, with: 1}}}}\n"),
	}
}

func TestParseHostile(t *testing.T) {
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			if _, err := recipe.Parse("f", []byte(text)); err != nil && len(findings(t, err)) > 1001 {
				t.Errorf("got %d diagnostics", len(findings(t, err)))
			}
		})
	}
}

// large returns a recipe of n steps, each with an expression.
func large(n int) []byte {
	var b bytes.Buffer
	b.WriteString(head + "steps:\n")
	for i := range n {
		fmt.Fprintf(&b, "  s%d:\n    uses: set\n    with: {v: \"${{ steps.s%d.output.v + 1 }}\"}\n", i, max(0, i-1))
	}
	return b.Bytes()
}

func TestParseLarge(t *testing.T) {
	r, err := recipe.Parse("f", large(10_000))
	if err != nil || len(r.Steps) != 10_000 {
		t.Errorf("got %v, want 10,000 steps", err)
	}
}

// BenchmarkParse shows that the time is linear in the steps.
func BenchmarkParse(b *testing.B) {
	for _, steps := range []int{1000, 10_000} {
		data := large(steps)
		b.Run(fmt.Sprint(steps), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := recipe.Parse("f", data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
