package temporal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

// shop is the world outside of the workers, which die: what their tools do, they do here, by HTTP.
type shop struct {
	*httptest.Server

	lock   sync.Mutex // guards the rest
	orders map[place]*order
}

// place is one call of a recipe: the run, as its inputs name it, and a text that the recipe has for the call.
type place struct{ run, at string }

// order is what has come in for a place.
type order struct {
	came    int             // requests
	waiting int             // requests under way
	effects int             // how often it had its effect
	keys    map[string]bool // the idempotency keys
}

// arrival is the body of a request.
type arrival struct {
	Run  string `json:"run"`
	At   string `json:"at"`
	Fail int    `json:"fail,omitempty"` // how many of the first requests are refused, without an effect
	Key  string `json:"key,omitempty"`
	Once bool   `json:"once,omitempty"` // one key has one effect
}

func newShop(t *testing.T) *shop {
	s := &shop{orders: map[place]*order{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP takes its time before the effect and after it, so that workers die on both sides of it.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a arrival
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o := s.order(a.Run, a.At)
	s.locked(func() {
		o.came++
		o.waiting++
	})
	defer s.locked(func() { o.waiting-- })
	if !takesTime(r.Context()) {
		return // the worker is dead, and the request with it
	}
	refused := false
	s.locked(func() {
		if refused = o.came <= a.Fail; refused {
			return
		}
		if !a.Once || !o.keys[a.Key] {
			o.effects++
		}
		o.keys[a.Key] = true
	})
	if refused {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	if takesTime(r.Context()) {
		fmt.Fprintf(w, `{"did": %q}`, a.At)
	}
}

func (s *shop) locked(f func()) {
	s.lock.Lock()
	defer s.lock.Unlock()
	f()
}

func (s *shop) order(run, at string) *order {
	s.lock.Lock()
	defer s.lock.Unlock()
	p := place{run, at}
	if s.orders[p] == nil {
		s.orders[p] = &order{keys: map[string]bool{}}
	}
	return s.orders[p]
}

// takesTime reports whether ctx outlives a moment.
func takesTime(ctx context.Context) bool {
	select {
	case <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// happened is what a person finds out in the shop about a call whose worker was lost: whether it had its effect. Nothing
// is under way any more then.
func (s *shop) happened(ctx context.Context, run, at string) (did bool, err error) {
	o := s.order(run, at)
	for {
		quiet := false
		s.locked(func() { quiet, did = o.waiting == 0, o.effects > 0 })
		if quiet {
			return did, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// check checks that each place of a run has had its effect once, under one key.
func (s *shop) check(t *testing.T, run string, places []string) {
	t.Helper()
	s.lock.Lock()
	defer s.lock.Unlock()
	seen := 0
	for p := range s.orders {
		if p.run == run {
			seen++
		}
	}
	if seen != len(places) {
		t.Errorf("run %s was at %d places, want %d", run, seen, len(places))
	}
	for _, at := range places {
		if o := s.orders[place{run, at}]; o == nil || o.effects != 1 || len(o.keys) != 1 {
			t.Errorf("run %s, %s: %+v, want one effect under one key", run, at, o)
		}
	}
}

// shopRuntime is the runtime of workers whose shop is at an address.
func shopRuntime(url string) *runtime.Runtime {
	tool := func(name string, effect runtime.Effect) runtime.Tool {
		return runtime.NewTool(runtime.ToolSpec{Name: name, Effect: effect},
			func(ctx context.Context, a arrival) (any, error) {
				a.Key, a.Once = resume.IdempotencyKey(ctx), effect != runtime.External
				return visit(ctx, url, a)
			})
	}
	return &runtime.Runtime{
		Resume: resume.PassThrough{},
		Models: map[string]runtime.Model{"clerk": clerk{}},
		Tools: []runtime.Tool{
			tool("shop.look", runtime.ReadOnly), tool("shop.note", runtime.Idempotent), tool("shop.pay", runtime.External),
		},
	}
}

// visit has an effect in the shop.
func visit(ctx context.Context, url string, a arrival) (out any, err error) {
	body, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &retry.Failure{Reason: retry.ServerError, Status: resp.StatusCode, Err: fmt.Errorf("the shop says %s", resp.Status)}
	}
	err = json.NewDecoder(resp.Body).Decode(&out)
	return out, err
}

// clerk is a model without memory: of the conversation it makes the next turn. It notes two things and says so.
type clerk struct{}

func (clerk) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	if len(req.Tools) == 0 {
		return &runtime.Response{Text: "Dear customer"}, nil
	}
	run, notes := "", 0
	for _, m := range req.Messages {
		switch m.Role {
		case runtime.User:
			run = m.Text[strings.LastIndexByte(m.Text, ' ')+1:]
		case runtime.ToolRole:
			notes++
		}
	}
	if notes == 2 {
		return &runtime.Response{Text: "two notes"}, nil
	}
	args, err := json.Marshal(map[string]any{"run": run, "at": fmt.Sprintf("clerk#%d", notes+1)})
	return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: fmt.Sprint("c", notes), Name: "shop.note", Arguments: args}}}, err
}

// chaosRecipe is one kind of run.
type chaosRecipe struct {
	name, text string
	places     []string
	err        string // the code of the error that it ends with; "": it ends well
}

const chaosHead = `apiVersion: braise/v1
name: %s
inputs: {run: string}
defaults: {model: clerk}
channels: {mail: queue}
agents:
  clerk: {instructions: You take notes., tools: [shop.note], subagents: false}
steps:
`

// visits is a call of a tool of the shop.
func visits(tool, at string) string {
	return fmt.Sprintf(`uses: shop.%s, with: {run: "${{ inputs.run }}", at: "%s"}`, tool, at)
}

var chaosRecipes = []chaosRecipe{
	{
		name: "sale",
		text: `  look: {` + visits("look", "look") + `}
  each: {needs: [look], foreach: {in: [1, 2, 3, 4, 5], as: n, max_parallel: 3}, ` + visits("note", "each[${{ n }}]") + `}
  busy: {needs: [look], retry: {max_attempts: 4, backoff: 50ms}, uses: shop.note, with: {run: "${{ inputs.run }}", at: busy, fail: 2}}
  nap: {uses: wait, with: {duration: 700ms}}
  post: {uses: send, needs: [look], with: {channel: mail, value: "${{ steps.look.output.did }}"}}
  mail: {uses: receive, with: {channel: mail}}
  clerk: {uses: agent, needs: [each], with: {agent: clerk, prompt: "Take two notes for ${{ inputs.run }}"}}
  both:
    uses: fork
    needs: [nap]
    with:
      branches:
        left: {steps: {l: {` + visits("note", "left") + `}}, output: "${{ steps.l.output.did }}"}
        right: {steps: {r: {` + visits("pay", "right") + `}}, output: "${{ steps.r.output.did }}"}
  rounds:
    uses: loop
    needs: [busy]
    with:
      steps: {make: {` + visits("note", "round ${{ iteration }}") + `}}
      output: ${{ steps.make.output.did }}
      max_iterations: 3
  letter: {uses: model, needs: [clerk, both, rounds], with: {prompt: Write a letter.}}
  approve: {uses: human, needs: [letter], with: {prompt: "Pay?"}}
  pay: {when: steps.approve.output.decision == "approve", ` + visits("pay", "pay") + `}
  ship: {needs: [pay], ` + visits("pay", "ship") + `}
output: ["${{ map(steps.each.output, .did) }}", "${{ steps.clerk.output.text }}", "${{ steps.both.output }}", "${{ steps.rounds.output.last }}", "${{ steps.letter.output.text }}", "${{ steps.mail.output }}", "${{ steps.ship.output.did }}"]
`,
		places: []string{"look", "each[1]", "each[2]", "each[3]", "each[4]", "each[5]", "busy", "clerk#1", "clerk#2", "left", "right",
			"round 1", "round 2", "round 3", "pay", "ship"},
	},
	{
		name: "undone",
		text: `  pay: {` + visits("pay", "pay") + `, rollback: {` + visits("note", "refund") + `}}
  ship: {needs: [pay], ` + visits("note", "ship") + `, rollback: {` + visits("note", "return") + `}}
  approve: {uses: human, needs: [ship], with: {prompt: "Keep it?"}}
  no: {uses: fail, needs: [approve], with: {message: nobody wants it, code: no}}
`,
		places: []string{"pay", "refund", "ship", "return"},
		err:    "no",
	},
}

func (r *chaosRecipe) compiled(t *testing.T) *flow.Workflow {
	t.Helper()
	return compiled(t, fmt.Sprintf(chaosHead, r.name)+r.text)
}
