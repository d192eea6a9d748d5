package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// The limits of what a server asks the user.
const (
	maxQuestions     = 100      // in one call
	maxQuestionBytes = 64 << 10 // of a message and its schema
)

// questionMark precedes what identifies a question in the reason of its pause.
const questionMark = "elicitation:"

// questionsInResults is the first version of the protocol in which a call ends with the questions of its server, and
// is made again with the answers. In earlier ones the server sends a request, and its call waits for the answer.
const questionsInResults = "2026-07-28"

// What a server is answered.
const (
	accept  = "accept"
	decline = "decline"
	later   = "cancel" // the answer comes when the call is made again
)

// asking is what a server asks during one call of a tool.
type asking struct {
	ctx  context.Context // of the call
	tool *tool
	left *session // in which the call has no answer and may still ask; nil: none

	mu    sync.Mutex
	asked map[string]int // how often, by the question
	count int            // of questions
	pause error          // a [*resume.Suspension] for the first question without an answer; nil: there is none
}

// mayAsk waits until no other call of the server is under way: a question does not say which call it belongs to. The
// result is nil if the server may not ask.
func (s *Server) mayAsk(ctx context.Context, t *tool) (*asking, error) {
	if !s.cfg.Elicit {
		return nil, nil
	}
	select {
	case s.turn <- struct{}{}:
		return &asking{ctx: ctx, tool: t, asked: map[string]int{}}, nil
	case <-s.closed:
		return nil, s.refuse("%w", errClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// over lets the next call begin. A session in which the call may still ask ends before that.
func (a *asking) over() {
	switch {
	case a == nil:
	case a.left == nil:
		<-a.tool.server.turn
	default:
		go func() {
			a.left.leave()
			<-a.tool.server.turn
		}()
	}
}

// asksAside reports whether a server sends its questions beside its results.
func (n *session) asksAside() bool { return n.InitializeResult().ProtocolVersion < questionsInResults }

// elicited answers a request of a server for input from the user.
func (s *Server) elicited(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	a := s.asks.Load()
	if a == nil { // nobody waits for what would come of it
		return &sdk.ElicitResult{Action: decline}, nil
	}
	answer, err := a.answer(req.Params)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return answer, nil
}

// answers are those to the questions in a result; nil: it has none.
func (a *asking) answers(got *sdk.CallToolResult) (sdk.InputResponseMap, error) {
	if a == nil || got == nil || len(got.InputRequests) == 0 {
		return nil, nil
	}
	answers := sdk.InputResponseMap{}
	for _, id := range value.SortedKeys(got.InputRequests) {
		q, ok := got.InputRequests[id].(*sdk.ElicitParams)
		if !ok {
			return nil, errors.New("it asks its client for something other than input from the user")
		}
		answer, err := a.answer(q)
		if err != nil {
			return nil, fmt.Errorf("it asks the user for input: %w", err)
		}
		answers[id] = answer
	}
	return answers, nil
}

// answer answers a question: as it was answered before; later, if a person has to answer it, or another one first; or
// decline outside of a run, where nobody can be asked. A question that is asked again in the same call is another one.
func (a *asking) answer(q *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	p, err := a.pauseFor(q)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count++; a.count > maxQuestions {
		return nil, fmt.Errorf("one call may ask %d times at most", maxQuestions)
	}
	if a.pause != nil {
		return &sdk.ElicitResult{Action: later}, nil
	}
	if runtime.IdempotencyKey(a.ctx) == "" {
		return &sdk.ElicitResult{Action: decline}, nil
	}
	question := p.Reason
	if a.asked[question]++; a.asked[question] > 1 {
		p.Reason = fmt.Sprintf("%s:%d", question, a.asked[question])
	}
	replies := resume.Replies(a.ctx)
	i := slices.IndexFunc(replies, func(r resume.Reply) bool { return r.To == p.Reason })
	if i < 0 {
		a.pause = resume.Suspend(p)
		return &sdk.ElicitResult{Action: later}, nil
	}
	given, _ := replies[i].Answer.(map[string]any)
	if given["decision"] != p.Default {
		return &sdk.ElicitResult{Action: decline}, nil
	}
	form, _ := given["form"].(map[string]any)
	return &sdk.ElicitResult{Action: accept, Content: form}, nil
}

// pauseFor is the pause that a question comes to.
func (a *asking) pauseFor(q *sdk.ElicitParams) (p resume.Pause, err error) {
	s := a.tool.server
	form, err := formOf(q)
	if err != nil {
		return p, err
	}
	message := s.hide.Text(q.Message)
	form = s.hide.Value(form)
	text, err := value.JSON([]any{message, form})
	if err != nil {
		return p, err
	}
	if len(text) > maxQuestionBytes {
		return p, fmt.Errorf("its question has %d bytes, more than %d", len(text), maxQuestionBytes)
	}
	digest := sha256.Sum256(text)
	return resume.Pause{
		Kind:      resume.Human,
		Prompt:    cmp.Or(message, "The tool asks for input."),
		Decisions: []string{"approve", "reject"},
		Default:   "approve",
		Schema:    form,
		Show:      map[string]any{"server": s.cfg.Name, "tool": a.tool.spec.Name},
		Reason:    fmt.Sprintf("%s%x", questionMark, digest[:8]),
	}, nil
}

// formOf is the schema of what a question asks for; nil: for no more than a yes.
func formOf(q *sdk.ElicitParams) (any, error) {
	if !slices.Contains([]string{"", "form"}, q.Mode) || q.URL != "" {
		return nil, errors.New("only forms are supported, not pages of the Web")
	}
	if q.RequestedSchema == nil {
		return nil, nil
	}
	text, err := json.Marshal(q.RequestedSchema)
	if err != nil {
		return nil, err
	}
	decoded, err := value.Decode(text)
	if err != nil {
		return nil, err
	}
	object := readable(decoded)
	if object == nil {
		return nil, errors.New("its requestedSchema is not a schema of an object that can be read")
	}
	return object, nil
}

// pending is the pause of a question without an answer; nil: there is none.
func (a *asking) pending() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pause
}
