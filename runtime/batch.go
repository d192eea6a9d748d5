package runtime

import (
	"context"
	"fmt"
	"time"
)

// PolledModel is an optional second interface of a Model whose provider answers many requests together, within hours
// and for less. A run does not call Generate of it: a call waits in a pause of the kind external, with those of the run
// that wait at the same time, until they are sent as one batch; the run goes on when the batch is over. That takes a
// [Runtime.Store].
//
// Errors are as those of Generate, best of all a [retry.Failure]: that of Submit says whether the batch may have been
// sent nevertheless.
type PolledModel interface {
	Model

	// Submit sends a batch, and returns the id by which its provider knows it from then on. If requests cannot be sent,
	// the error is an [*UnfitRequests] and nothing was sent: Submit is called again with the others.
	Submit(ctx context.Context, b *Batch) (id string, err error)

	// Find returns the id of a batch that Submit was given before, by a process that has died, or lost the connection:
	// the provider may have the batch. "" says for sure that it has not. b has no Requests. While Find cannot tell, it
	// is an error, and Find is called again later.
	Find(ctx context.Context, b *Batch) (id string, err error)

	// Poll says how far a batch is. It may be called again when the batch is over.
	Poll(ctx context.Context, id string) (*BatchState, error)

	// Cancel tells the provider that nobody waits for a batch any more. What was answered is paid nevertheless.
	Cancel(ctx context.Context, id string) error
}

// Batch are requests that are sent together.
type Batch struct {
	Key      string     // tells the batch from all others of all runs: up to 64 letters and digits
	Begun    time.Time  // when it was about to be sent, by the clock of the run
	IDs      []string   // of the requests, each like Key; no other request has the same
	Requests []*Request // in the order of IDs
}

// UnfitRequests is the error of a batch with requests that cannot be sent.
type UnfitRequests struct {
	Errs map[string]error // why, by the ids of the requests
}

// Error says how many there are.
func (e *UnfitRequests) Error() string { return fmt.Sprintf("%d requests cannot be sent", len(e.Errs)) }

// BatchState is how far a batch is.
type BatchState struct {
	Over     bool // nothing more comes
	Requests int  // how many there are; 0: not known
	Answered int  // how many of them are over; 0: none, or not known
	// Answers are what came of the requests, by their ids; nil unless the batch is Over.
	Answers map[string]BatchAnswer
	// Err is what came of all other requests, as of Generate. nil: that is not known, and they may be sent again.
	Err error
}

// BatchAnswer reads what came of a request in a batch: as Generate, an answer or an error.
type BatchAnswer func(ctx context.Context, req *Request) (*Response, error)
