package drawing_test

import (
	"fmt"
	"testing"

	"github.com/braise-run/braise/internal/drawing"
)

func BenchmarkDraw(b *testing.B) {
	for _, n := range []int{50, 500, 5000} {
		steps := likeRecipe(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				drawing.Draw(steps, nil)
			}
		})
	}
}
