package expr

import (
	"fmt"
	"testing"
)

// BenchmarkCompile compiles small expressions, as a recipe of many steps has them.
func BenchmarkCompile(b *testing.B) {
	scope := fakeScope()
	var sources []Source
	for i := range 100 {
		sources = append(sources,
			source(fmt.Sprintf("${{ steps.a.output.b.c%d }}", i)),
			source(fmt.Sprintf("n is ${{ inputs.n + %d }}", i)),
			source(fmt.Sprintf(`${{ steps.a.output.rows | filter(.score > 0.%d) | map(.id) }}`, i)),
			source(fmt.Sprintf(`${{ steps.skip.output?.x ?? "none %d" }}`, i)))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, list := scope.Text(sources[i%len(sources)]); list != nil {
			b.Fatal(list)
		}
		i++
	}
}

func benchmarkEval(b *testing.B, text string) {
	tmpl, list := fakeScope().Text(source(text))
	if err := list.Err(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.Eval(fakeEnv{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPath evaluates plain paths: no allocation.
func BenchmarkPath(b *testing.B) {
	for _, text := range []string{"steps.a.output.b.c", "inputs.n", "item.y?.z"} {
		b.Run(text, func(b *testing.B) { benchmarkEval(b, "${{ "+text+" }}") })
	}
}

// BenchmarkEval evaluates everything else.
func BenchmarkEval(b *testing.B) {
	for _, text := range []string{
		`${{ inputs.n > 2 && steps.a.status == "succeeded" }}`,
		`${{ steps.skip.output?.x ?? steps.a.output.b.c }}`,
		`${{ steps.a.output.rows | filter(.score > 0.8) | map(.id) }}`,
		`${{ reduce(1..1000, #acc + #, 0) }}`,
		`n is ${{ inputs.n }}, tags are ${{ steps.a.output.tags }}`,
	} {
		b.Run(text, func(b *testing.B) { benchmarkEval(b, text) })
	}
}

func TestPathsDoNotAllocate(t *testing.T) {
	tmpl, list := fakeScope().Text(source("${{ steps.a.output.b.c }}"))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = tmpl.Eval(fakeEnv{}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
