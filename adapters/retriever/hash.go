package retriever

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/braise-run/braise/runtime"
)

// DefaultDimensions are those of Hash.
const DefaultDimensions = 256

// Hash returns an embedder that needs no model: it counts the words of a text, and groups of three letters in them, in
// as many numbers as there are dimensions (feature hashing, Weinberger and others, 2009). Texts that share words, or
// parts of words, are close to each other; what they mean it does not know. The same text always gives the same
// vector. It is for tests, and for trying out. 0 is DefaultDimensions.
func Hash(dimensions int) runtime.Embedder {
	if dimensions <= 0 {
		dimensions = DefaultDimensions
	}
	return hashes(dimensions)
}

type hashes int

// Metadata implements runtime.Described.
func (h hashes) Metadata() runtime.Metadata {
	return runtime.Metadata{Provider: "braise", Model: fmt.Sprintf("hash-%d", int(h))}
}

// Embed implements runtime.Embedder. A token is four bytes.
func (h hashes) Embed(ctx context.Context, texts []string) (vectors [][]float32, used runtime.Usage, err error) {
	for _, text := range texts {
		if ctx.Err() != nil {
			return nil, used, ctx.Err()
		}
		v := make([]float32, h)
		for word := range strings.FieldsFuncSeq(strings.ToLower(text), outsideWords) {
			if smallWords[word] {
				continue
			}
			h.count(v, word, 1)
			letters := []rune("<" + word + ">")
			for i := range len(letters) - 2 {
				h.count(v, string(letters[i:i+3]), 0.3)
			}
		}
		used.InputTokens += (len(text) + 3) / 4
		vectors = append(vectors, v)
	}
	return vectors, used, nil
}

func (h hashes) count(v []float32, what string, weight float32) {
	sum := fnv.New64a()
	sum.Write([]byte(what))
	n := sum.Sum64()
	if n>>63 == 1 {
		weight = -weight
	}
	v[n%uint64(h)] += weight
}
