package retriever

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math"
)

// dot is the product of a vector with one that is kept.
func dot(v []float32, kept []byte) float64 {
	n := min(len(v), len(kept)/4)
	var sum [4]float32
	i := 0
	for ; i+4 <= n; i += 4 { // four sums do not wait for each other
		b := kept[4*i : 4*i+16 : 4*i+16]
		a := v[i : i+4 : i+4]
		sum[0] += a[0] * math.Float32frombits(binary.LittleEndian.Uint32(b[0:]))
		sum[1] += a[1] * math.Float32frombits(binary.LittleEndian.Uint32(b[4:]))
		sum[2] += a[2] * math.Float32frombits(binary.LittleEndian.Uint32(b[8:]))
		sum[3] += a[3] * math.Float32frombits(binary.LittleEndian.Uint32(b[12:]))
	}
	for ; i < n; i++ {
		sum[0] += v[i] * math.Float32frombits(binary.LittleEndian.Uint32(kept[4*i:]))
	}
	return float64(sum[0] + sum[1] + sum[2] + sum[3])
}

// bestOf keeps the best hits of many.
type bestOf struct {
	most int
	hits worst
}

func (b *bestOf) add(h hit) {
	switch {
	case len(b.hits) < b.most:
		heap.Push(&b.hits, h)
	case b.most > 0 && byScore(h, b.hits[0]) < 0:
		b.hits[0] = h
		heap.Fix(&b.hits, 0)
	}
}

// worst is a heap of hits, the worst of them first.
type worst []hit

func (w worst) Len() int           { return len(w) }
func (w worst) Less(i, j int) bool { return byScore(w[i], w[j]) > 0 }
func (w worst) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *worst) Push(x any)        { *w = append(*w, x.(hit)) }
func (w *worst) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// byScore puts better hits first, and equal ones in the order of their ids.
func byScore(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) }
