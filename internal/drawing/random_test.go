package drawing_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/braise-run/braise/internal/program"
)

// likeRecipe makes a plan of n steps that looks like those that people write: layers of a few steps, most of which need
// one or two of the layer before them.
func likeRecipe(n int) []program.PlanStep {
	chance := rand.New(rand.NewPCG(1, uint64(n)))
	uses := []string{"model", "agent", "set", "human", "kb.search"}
	steps := make([]program.PlanStep, n)
	layers := [][]int{{}}
	for i := range steps {
		last := len(layers) - 1
		if len(layers[last]) > chance.IntN(n/20+6) {
			layers, last = append(layers, nil), last+1
		}
		steps[i] = program.PlanStep{ID: fmt.Sprintf("step%d", i), Uses: uses[chance.IntN(len(uses))]}
		needs := map[int]bool{}
		for range 1 + chance.IntN(2) {
			from := last - 1
			if chance.IntN(10) == 0 {
				from -= chance.IntN(4)
			}
			if from < 0 {
				break
			}
			need := layers[from][chance.IntN(len(layers[from]))]
			if kind := []string{"data", "data", "order"}[chance.IntN(3)]; !needs[need] {
				steps[i].Needs = append(steps[i].Needs, program.Edge{Step: steps[need].ID, Kind: kind})
			}
			needs[need] = true
		}
		layers[last] = append(layers[last], i)
	}
	return steps
}
