package bench

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// 4,000 pauses of a run are open, and one of them is answered: at most 50 ms (trust 8.14). Each answer opens a fresh token for
// each pause that is left.
func BenchmarkPauses(b *testing.B) {
	const open = 4000
	text := fmt.Appendf(nil, "apiVersion: braise/v1\nname: ask\nsteps:\n"+
		"  f: {uses: human, foreach: {in: \"${{ 1..%d }}\"}, with: {prompt: \"${{ item }}?\"}}\n", open)
	r, err := recipe.Parse("ask.yaml", text)
	if err != nil {
		b.Fatal(err)
	}
	wf := compile(b, r)
	disk, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "runs.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { disk.Close() })
	for name, store := range map[string]checkpoint.Store{"memory": &checkpoint.Memory{}, "sqlite": disk} {
		b.Run(name, func(b *testing.B) {
			rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}}
			for b.Loop() {
				b.StopTimer()
				out, _ := wf.Run(b.Context(), nil, rt)
				b.StartTimer()
				out, _ = workflow.Answer(b.Context(), out.RunID, "f[7]", map[string]any{"decision": "approve"}, rt, nil)
				if len(out.Pauses) != open-1 {
					b.Fatal(len(out.Pauses), out.Error())
				}
			}
		})
	}
}
