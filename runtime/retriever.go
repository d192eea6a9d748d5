package runtime

import (
	"context"
	"encoding/json"

	"github.com/braise-run/braise/internal/value"
)

// Retriever finds documents. Retrieve must be safe for concurrent use and should return soon after ctx
// is done. It only reads: a call may be made again after a crash. A failure that trying again could
// mend is, or wraps, a retry.Failure. A Retriever may also be [Described].
type Retriever interface {
	// Retrieve returns at most topK documents, the best first and always in the same order; none is no
	// error. topK is 1 or more. query is text in a human language, never in a query language, and may be
	// empty. The documents must not change once returned.
	Retrieve(ctx context.Context, query string, topK int) ([]Document, error)
}

// Document is something that a [Retriever] has found: a file, or a part of one.
type Document struct {
	ID     string `json:"id"` // the same whenever it is found
	Text   string `json:"text"`
	Source string `json:"source,omitempty"` // where it is from: a path or a URL; ""
	// how well it fits, the more the better; only comparable within one answer
	Score    float64        `json:"score,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"` // JSON; nil: none
}

// UnmarshalJSON reads a document. Integers in its metadata keep their digits.
func (d *Document) UnmarshalJSON(text []byte) error {
	type plain Document
	read := struct {
		*plain
		Metadata json.RawMessage `json:"metadata"`
	}{plain: (*plain)(d)}
	if err := json.Unmarshal(text, &read); err != nil || read.Metadata == nil {
		return err
	}
	v, err := value.Decode(read.Metadata)
	d.Metadata, _ = v.(map[string]any)
	return err
}
