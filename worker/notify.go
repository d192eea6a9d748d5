package worker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Target is whom a [Notifier] tells: a server, by webhooks as Standard Webhooks has them
// (https://www.standardwebhooks.com), or a program.
type Target struct {
	URL    string // of the server; "": it is a program
	Secret string // signs the webhooks: whsec_ and base64, or a text of at least 16 bytes
	// Exec is the program with its arguments, without a shell. It reads the message on stdin, has the environment of
	// this process, and is killed after 30 s. Another exit code than 0 is a failure. nil: the target is a server.
	Exec    []string
	Dir     string   // the working folder of the program; "": that of this process
	On      []string // of paused, ok, error and cancelled; nil: paused and error
	Recipes []string // whose runs are told of, by name; nil: of all
	// Remind has a pause told of once more, that long before it expires. 0: it is not.
	Remind time.Duration
	// Link returns a link by which the pause can be answered, usually with a token of [workflow.Mint]; it is made once
	// for each pause and process. nil: messages have none.
	Link func(ctx context.Context, runID, pause string) (string, error)
}

// Notifier tells others of pauses and ends of the runs of a store: with Run as long as a process works, or with Tell
// once, after an execution.
//
// A pause is told of at least once: any process with the Notifier tells of those that are pending and not marked as
// told. The id of the message depends on the run, the pause and the target only, so receivers can drop repetitions. If
// a target does not accept the message, it is sent again as long as the pause is pending, at intervals of up to 24
// hours. An end is told of by the process that saw it, for an hour.
type Notifier struct {
	// Store has the runs. It is a checkpoint.Querier, a checkpoint.Watcher and a checkpoint.Documents, as all stores of
	// this module are.
	Store   checkpoint.Store
	Targets []Target
	// Client sends the messages. It follows no redirect, whatever it says of them. nil: http.DefaultClient.
	Client   *http.Client
	Reporter runtime.Reporter // nil: slog.Default

	telling sync.Mutex // held by Tell

	mu     sync.Mutex
	failed int64
	ends   []*message // not yet taken by the sender
	over   []string   // runs that have ended: their marks are not needed any more
	wake   chan struct{}
}

// message is what a target is to be told.
type message struct {
	target  *Target
	id      string
	event   string
	at      time.Time // of the event
	data    map[string]any
	run     string
	pause   string    // "": it is of the end of the run
	until   time.Time // it is given up then; zero: never
	sending bool      // a goroutine has the message
	err     error     // of the last attempt
	tries   int       // that failed
	next    time.Time // when the next one is due
}

// Failed returns how many messages were not accepted, each attempt counted.
func (n *Notifier) Failed() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// Check returns what is wrong with the notifier; nil: nothing is.
func (n *Notifier) Check() error {
	if _, err := n.storage(); err != nil {
		return err
	}
	for i := range n.Targets {
		if err := n.Targets[i].check(); err != nil {
			return fmt.Errorf("notify: %w", err)
		}
	}
	return nil
}

// check returns what is wrong with the target; nil: nothing is.
func (t *Target) check() error {
	switch req, err := http.NewRequest(http.MethodPost, t.URL, nil); {
	case t.Remind < 0:
		return fmt.Errorf("%s: Remind is %v", t.name(), t.Remind)
	case t.Exec != nil && (t.URL != "" || t.Secret != ""):
		return fmt.Errorf("%q is a program, or a server with a secret, not both", t.Exec)
	case t.Exec != nil && (len(t.Exec) == 0 || t.Exec[0] == ""):
		return fmt.Errorf("%q names no program", t.Exec)
	case t.Exec == nil && (err != nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https"):
		return fmt.Errorf("%q is not the URL of a server", t.URL)
	}
	for _, on := range t.On {
		if !slices.Contains(occasions, on) {
			return fmt.Errorf("%s: unknown occasion %q\n  hint: it is one of %q", t.name(), on, occasions)
		}
	}
	if _, err := decodeSecret(t.Secret); t.Exec == nil && (err != nil || len(t.Secret) < minSecret) {
		return errors.Join(fmt.Errorf("%s: its secret needs %d bytes at least", t.URL, minSecret), err)
	}
	return nil
}

// name names the target for people.
func (t *Target) name() string {
	if t.Exec != nil {
		return "program " + t.Exec[0]
	}
	return t.URL
}

// occasions are what a target may be told of, by the status of the outcome.
var occasions = []string{"paused", "ok", "error", "cancelled"}

// wants reports whether the target is told of a status of a recipe's runs.
func (t *Target) wants(on, recipe string) bool {
	if t.On == nil && on != "paused" && on != "error" || t.On != nil && !slices.Contains(t.On, on) {
		return false
	}
	return t.Recipes == nil || slices.Contains(t.Recipes, recipe)
}

// storage is what a notifier needs of a store.
type storage = guard.Noted

// storage returns the store, guarded.
func (n *Notifier) storage() (storage, error) {
	store, ok := n.Store.(storage)
	if !ok {
		return nil, fmt.Errorf("notify: a %T does not list pauses, or keeps no documents", n.Store)
	}
	return guard.NotedStore(store), nil
}

// Run tells of pauses and ends until ctx ends, which is no error. What is not sent by then, another process sends, or
// this one when it runs again; ends are lost.
func (n *Notifier) Run(ctx context.Context) error {
	if err := n.Check(); err != nil {
		return err
	}
	store, _ := n.storage()
	wake := make(chan struct{}, 1)
	n.mu.Lock()
	n.wake = wake
	n.mu.Unlock()
	s := &sender{Notifier: n, store: store, pending: map[string]*message{}, told: map[string]bool{},
		sent: make(chan *message), wake: wake}
	return s.work(ctx)
}

// Ended tells of the end of an execution; Worker.Ended may be this function.
func (n *Notifier) Ended(out *workflow.Outcome) {
	if out.Status == workflow.StatusPaused {
		n.nudge()
		return
	}
	ends := n.endsOf(out)
	for _, m := range ends {
		m.until = time.Now().Add(time.Hour)
	}
	n.mu.Lock()
	n.ends, n.over = append(n.ends, ends...), append(n.over, out.RunID)
	n.mu.Unlock()
	n.nudge()
}

// endsOf are the messages about the end of an execution.
func (n *Notifier) endsOf(out *workflow.Outcome) (ends []*message) {
	for i := range n.Targets {
		t := &n.Targets[i]
		if !t.wants(string(out.Status), out.Recipe) {
			continue
		}
		data := map[string]any{"runId": out.RunID, "recipe": out.Recipe, "status": string(out.Status),
			"startedAt": out.StartedAt, "endedAt": out.EndedAt}
		if e := out.Failure(); e != nil {
			data["error"] = map[string]any{"category": string(e.Category), "code": e.Code, "message": e.Err.Error(),
				"step": e.Step}
		}
		ends = append(ends, newMessage(t, "run."+string(out.Status), out.EndedAt, data, out.RunID, ""))
	}
	return ends
}

// nudge has the messages looked at.
func (n *Notifier) nudge() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *Notifier) warn(message string, err error) { report(n.Reporter, message, err) }

// newMessage makes the message of an event of a run; pause is "" for its end. The same event has the same id.
func newMessage(t *Target, event string, at time.Time, data map[string]any, runID, pause string) *message {
	who := cmp.Or(t.URL, strings.Join(t.Exec, "\x00"))
	sum := sha256.Sum256([]byte(who + "\x00" + event + "\x00" + runID + "\x00" + pause))
	return &message{target: t, id: "msg_" + hex.EncodeToString(sum[:16]), event: event, at: at, data: data, run: runID,
		pause: pause}
}

// body is the body of the message.
func (m *message) body(ctx context.Context) ([]byte, error) {
	if m.pause != "" && m.target.Link != nil && m.data["link"] == nil {
		link, err := m.target.Link(ctx, m.run, m.pause)
		if err != nil {
			return nil, fmt.Errorf("no link to pause %q of run %q: %w", m.pause, m.run, err)
		}
		m.data["link"] = link
	}
	return json.Marshal(map[string]any{"type": m.event, "timestamp": m.at.UTC().Format(time.RFC3339Nano),
		"data": m.data})
}

// deliver tells a target once.
func (n *Notifier) deliver(ctx context.Context, m *message) error {
	body, err := m.body(ctx)
	switch {
	case err != nil:
		return err
	case m.target.Exec != nil:
		return m.target.exec(ctx, body)
	}
	return n.post(ctx, m, body)
}

// post sends a webhook once.
func (n *Notifier) post(ctx context.Context, m *message, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second) // as Standard Webhooks proposes
	defer cancel()
	secret, err := decodeSecret(m.target.Secret)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.target.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	sign(secret, req.Header, m.id, execution.Now(ctx, n.Store), body)
	client := http.Client{}
	if n.Client != nil {
		client = *n.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // the connection can be used again
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answered %s", resp.Status)
	}
	return nil
}

// pauseData is what a message tells of a pause.
func pauseData(runID, recipe string, p resume.Pause) map[string]any {
	p.Token = ""
	return map[string]any{"runId": runID, "recipe": recipe, "status": "paused", "pause": p}
}
