package openai

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// responsesReply is what the adapter reads of an answer.
type responsesReply struct {
	Output     []outputItem `json:"output"`
	Status     word         `json:"status"`
	Incomplete *struct {
		Reason word `json:"reason"`
	} `json:"incomplete_details"`
	Error json.RawMessage  `json:"error"`
	Usage usageOfResponses `json:"usage"`
	Model any              `json:"model"` // a string, or no matter
}

// usageOfResponses has the counts of tokens. Whatever is no object has none.
type usageOfResponses struct{ runtime.Usage }

// UnmarshalJSON reads the counts.
func (u *usageOfResponses) UnmarshalJSON(data []byte) error {
	var counts struct {
		Input  endpoint.Count  `json:"input_tokens"`
		Output endpoint.Count  `json:"output_tokens"`
		Of     json.RawMessage `json:"input_tokens_details"`
		OfOut  json.RawMessage `json:"output_tokens_details"`
	}
	_ = json.Unmarshal(data, &counts) // what is none of these counts nothing
	in, out := detailsOf(counts.Of), detailsOf(counts.OfOut)
	u.Usage = runtime.Usage{InputTokens: int(counts.Input), CachedTokens: int(in.Cached),
		CacheWriteTokens: int(in.Written), OutputTokens: int(counts.Output),
		ReasoningTokens: int(out.Reasoning)}.Clamped()
	return nil
}

// outputItem is a piece of an answer.
type outputItem struct {
	Type      string    `json:"type"`
	Phase     word      `json:"phase"`
	Content   []outPart `json:"content"`
	ID        word      `json:"call_id"`
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`

	raw   map[string]json.RawMessage
	index int // in a stream
}

type outPart struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// UnmarshalJSON reads an item, and keeps all of it that says something.
func (o *outputItem) UnmarshalJSON(data []byte) error {
	type plain outputItem
	if err := json.Unmarshal(data, (*plain)(o)); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &o.raw); err != nil {
		return err
	}
	maps.DeleteFunc(o.raw, func(name string, v json.RawMessage) bool { return name == "status" || string(v) == "null" })
	return nil
}

// asItCame is an item for the next request. nil: the provider could not read it, as it keeps nothing itself.
func (o *outputItem) asItCame() json.RawMessage {
	if sealed := o.raw["encrypted_content"]; sealed == nil || endpoint.IsEmpty(sealed) {
		return nil
	}
	text, err := json.Marshal(o.raw)
	if err != nil { // it was JSON
		return nil
	}
	return text
}

// name is the tool of a call, by the name that it was offered with.
func (o *outputItem) name(names map[string]string) string { return cmp.Or(names[o.Name], o.Name) }

// askResponses is ask for the Responses API.
func (m *Model) askResponses(
	ctx context.Context, req *runtime.Request, stream bool, emit func(runtime.Delta),
) (*runtime.Response, error) {
	body, names, err := m.encodeResponses(req, stream)
	if err != nil {
		return nil, endpoint.Refuse("model %q: %w", m.opts.Model, err)
	}
	var r responsesReply
	shown := m.client.Shows(emit, names)
	err = m.client.Ask(ctx, responsesPath, body,
		func(in *bufio.Reader) error { return m.client.ReadWhole(ctx, responsesPath, in, &r) },
		func(in *bufio.Reader) error { return m.readResponsesStream(ctx, in, &r, shown) })
	if err != nil {
		return nil, m.hinted(req, err)
	}
	resp, err := m.responsesResponse(ctx, &r, req, names)
	if err != nil {
		return nil, err
	}
	shown.End(resp)
	return resp, nil
}

// responsesEvent is an event of a stream.
type responsesEvent struct {
	Type         string          `json:"type"`
	Delta        text            `json:"delta"`
	SummaryIndex endpoint.Count  `json:"summary_index"`
	Index        endpoint.Count  `json:"output_index"`
	Item         *outputItem     `json:"item"`
	Response     *responsesReply `json:"response"`
}

// readResponsesStream hands on the answer while it comes. It consists of the items that are done, and of the event that
// ends it, which has them again at most providers.
func (m *Model) readResponsesStream(
	ctx context.Context, in *bufio.Reader, r *responsesReply, shown *endpoint.Shown,
) error {
	var done []outputItem
	var all assembly // of the text that is handed on
	var said text
	var pieces, items int
	over := func() bool { return r.Status != "" }
	return m.client.ReadEvents(ctx, responsesPath, in, over, func(data []byte) error {
		var e responsesEvent
		if err := m.client.Decode(ctx, responsesPath, data, &e); err != nil {
			return err
		}
		pieces += len(e.Delta)
		switch e.Type {
		case "error":
			return m.client.FaultIn(ctx, responsesPath, data)
		case "response.output_text.delta":
			said = withPiece(said, e.Delta)
			shown.Add(string(all.fresh(said)))
		case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
			shown.Think(string(withoutHalves(e.Delta)))
		case "response.reasoning_summary_part.added":
			if e.SummaryIndex > 0 {
				shown.Think("\n\n")
			}
		case "response.output_item.added":
			if e.Item != nil && e.Item.Type == "function_call" {
				shown.Call(e.Item.Name)
			}
		case "response.output_item.done":
			if e.Item != nil {
				e.Item.index = int(e.Index)
				done = append(done, *e.Item)
				items += len(data) + callBytes
			}
		case "response.completed", "response.incomplete", "response.failed":
			if e.Response == nil {
				return m.client.Broken(retry.Unknown, responsesPath,
					errors.New("the end of the answer has no response"))
			}
			*r = *e.Response
			slices.SortStableFunc(done, func(a, b outputItem) int { return cmp.Compare(a.index, b.index) })
			if len(done) >= len(r.Output) {
				r.Output = done
			}
			return io.EOF
		}
		if int64(max(pieces, items)) > m.client.MaxBytes() {
			return m.client.TooLarge(responsesPath)
		}
		return nil
	})
}

// responsesResponse is response for the Responses API.
func (m *Model) responsesResponse(
	ctx context.Context, r *responsesReply, req *runtime.Request, names map[string]string,
) (*runtime.Response, error) {
	status := normal(r.Status)
	switch {
	case endpoint.IsSet(r.Error):
		return nil, m.client.FaultIn(ctx, responsesPath, r.Error)
	case status == "" && r.Output == nil:
		return nil, m.client.Broken(retry.Unknown, responsesPath, errors.New("the answer has no output"))
	case status != "" && status != "completed" && status != "incomplete":
		return nil, m.client.Broken(retry.ServerError, responsesPath, fmt.Errorf("the answer broke off: status %s",
			m.client.Quote(ctx, string(r.Status))))
	}
	resp := &runtime.Response{Usage: r.Usage.Usage}
	resp.Model, _ = r.Model.(string)
	refusal := m.readOutput(r.Output, resp, req, names)
	if refusal != "" && resp.Text == "" && resp.ToolCalls == nil {
		return nil, m.client.Broken("", responsesPath,
			fmt.Errorf("the model refused: %s", m.client.Quote(ctx, refusal)))
	}
	resp.Finish = finish(r.Status, len(resp.ToolCalls) > 0, len(req.Tools) > 0)
	if status == "incomplete" {
		resp.Finish = runtime.FinishLength // of the answer, or of what else it may have
		if r.Incomplete != nil && finishes[normal(r.Incomplete.Reason)] == runtime.FinishFilter {
			resp.Finish = runtime.FinishFilter
		}
	}
	return resp, nil
}

// readOutput adds the items of an answer to the response, and returns why the model refuses; "": it does not.
func (m *Model) readOutput(
	output []outputItem, resp *runtime.Response, req *runtime.Request, names map[string]string,
) (refusal string) {
	var order []kept
	opaque := false // there is something that the text and the calls do not say
	for _, o := range output {
		switch o.Type {
		case "message":
			before := len(resp.Text)
			for _, part := range o.Content {
				resp.Text += part.Text
				refusal += part.Refusal
			}
			order = append(order, kept{Bytes: len(resp.Text) - before, Phase: string(o.Phase)})
			opaque = opaque || o.Phase != ""
		case "function_call":
			call := runtime.ToolCall{ID: string(o.ID), Name: o.name(names), Arguments: endpoint.Arguments(o.Arguments)}
			if call.ID == "" {
				call.ID = fmt.Sprintf("call_%d_%d", req.StepCall, len(resp.ToolCalls)+1)
			}
			resp.ToolCalls = append(resp.ToolCalls, call)
			order = append(order, kept{Call: true})
		default:
			if raw := o.asItCame(); raw != nil {
				order, opaque = append(order, kept{Item: raw}), true
			}
		}
	}
	if data, err := json.Marshal(order); opaque && err == nil {
		resp.Parts = []runtime.Part{{Of: m.self(), Name: orderPart, Data: data}}
	}
	return refusal
}
