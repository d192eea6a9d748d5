package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/expr"
)

// channelGraph is one body of steps without edges, a word each: SEND!CHANNEL=VALUE, RECEIVE?CHANNEL, or the id
// of a call. The channels are v (value), q (queue) and t (topic).
func channelGraph(words string) *Graph {
	g := &Graph{Channels: []Channel{{"v", ValueChannel}, {"q", QueueChannel}, {"t", TopicChannel}}}
	for i, word := range strings.Fields(words) {
		node := Node{ID: word, Kind: Call}
		if id, rest, ok := strings.Cut(word, "!"); ok {
			channel, v, _ := strings.Cut(rest, "=")
			node = Node{ID: id, Kind: Send, Channel: strings.Index("vqt", channel), With: expr.Literal(v)}
		} else if id, channel, ok := strings.Cut(word, "?"); ok {
			node = Node{ID: id, Kind: Receive, Channel: strings.Index("vqt", channel)}
		}
		g.Nodes = append(g.Nodes, node)
		g.Succ, g.Preds = append(g.Succ, nil), append(g.Preds, 0)
		g.Order, g.Rank = append(g.Order, int32(i)), append(g.Rank, int32(i))
	}
	return g
}

var channelOptions = Options{MaxParallel: 1, MaxItems: 10, MaxTasks: 10_000, MaxOutput: 1000, MaxOutputs: 1_000_000}

// all executes commands until there is none, and returns the tasks of those with an op.
func all(m *Machine, op Op) (list []*Task) {
	for c := m.Next(); c.Op != None; c = m.Next() {
		if c.Op == op {
			list = append(list, c.Task)
		}
	}
	return list
}

func TestChannels(t *testing.T) {
	for _, tt := range []struct {
		name, words string
		want        string // the artefact of what ended
		opened      string // what is pending for values at the end
	}{
		{"a queue, sent first", "s!q=1 r?q", "map[r:1 s:1]", ""},
		{"a queue, received first", "r?q s!q=1", "map[r:1 s:1]", ""},
		{"first in, first out", "s1!q=1 s2!q=2 r1?q r2?q", "map[r1:1 r2:2 s1:1 s2:2]", ""},
		{"the one that waits longest", "r1?q r2?q s1!q=1 s2!q=2", "map[r1:1 r2:2 s1:1 s2:2]", ""},
		{"one value, two receivers", "r1?q r2?q s!q=1", "map[r1:1 s:1]", "r2"},
		{"a value stays", "s!v=1 r1?v r2?v", "map[r1:1 r2:1 s:1]", ""},
		{"the last value", "s1!v=1 s2!v=2 r?v", "map[r:2 s1:1 s2:2]", ""},
		{"all get the first value", "r1?v r2?v s1!v=1 s2!v=2 r3?v", "map[r1:1 r2:1 r3:2 s1:1 s2:2]", ""},
		{"a topic", "r1?t r2?t s!t=1 r3?t", "map[r1:1 r2:1 s:1]", "r3"},
		{"channels are apart", "s!q=1 r1?v r2?t", "map[s:1]", "r1 r2"},
	} {
		m := New(channelGraph(tt.words), nil, channelOptions)
		var opened []string
		for _, task := range all(m, Open) {
			opened = append(opened, task.Path())
		}
		if got := fmt.Sprint(m.Artefact()); got != tt.want || strings.Join(opened, " ") != tt.opened {
			t.Errorf("%s: %s, opened %q; want %s, %q", tt.name, got, opened, tt.want, tt.opened)
		}
		if waits := m.Result().Status == Waiting; waits != (tt.opened != "") {
			t.Errorf("%s: the run is %s", tt.name, m.Result().Status)
		}
	}
}

// A receive that waits holds no slot, and is not opened as long as something goes on.
func TestReceiveHoldsNothing(t *testing.T) {
	m := New(channelGraph("r?q call"), nil, channelOptions)
	if opened := all(m, Open); opened != nil || len(m.Calls()) != 1 {
		t.Fatalf("opened %v, %d calls", opened, len(m.Calls()))
	}
	m.Finish(m.Calls()[0], nil, unknown, nil)
	opened := all(m, Open)
	if len(opened) != 1 || m.Result() == nil || m.Result().Status != Waiting {
		t.Fatalf("opened %v, %+v", opened, m.Result())
	}
	m.Send(1, "x")
	if all(m, Open); m.Result().Status != Succeeded || opened[0].Output() != "x" {
		t.Errorf("%+v, %v", m.Result(), opened[0].Output())
	}
	m.Send(1, "late")
	if len(m.root.channels[1].values) > 0 {
		t.Error("a run that is over takes a value")
	}
}

// A queue holds so many values, and no more from outside either.
func TestFullQueue(t *testing.T) {
	var words []string
	for i := range QueueCapacity + 1 {
		words = append(words, fmt.Sprintf("s%d!q=%d", i, i))
	}
	g := channelGraph(strings.Join(words, " ") + " wait?t")
	m := New(g, nil, channelOptions)
	for i := range g.Nodes {
		g.Nodes[i].OnError.Continue = true
	}
	ended := all(m, Ended)
	last := ended[len(ended)-1]
	if last.Failure() == nil || last.Failure().Code != "channel.full" || last.Path() != "s1000" || ended[QueueCapacity-1].Failure() != nil {
		t.Errorf("%s: %v", last.Path(), last.Failure())
	}
	if failure := m.Refuses(1, "x"); failure == nil || failure.Code != "channel.full" {
		t.Errorf("from outside: %v", failure)
	}
	if failure := m.Refuses(0, strings.Repeat("x", 2000)); failure == nil || failure.Code != "output.tooLarge" {
		t.Errorf("a large one: %v", failure)
	}
	if failure := m.Refuses(0, "x"); failure != nil {
		t.Error(failure)
	}
	m.Send(1, "x")
	if c := &m.root.channels[1]; len(c.values) != QueueCapacity || slices.Contains(c.values, any("x")) {
		t.Errorf("%d values", len(c.values))
	}
}

// What does not become the output of its step is not sent.
func TestFailedSend(t *testing.T) {
	g := channelGraph("s!q=1 r?q")
	g.Nodes[0].Rules.Fits = func(any) error { return errStep }
	g.Nodes[0].OnError.Set = expr.Literal("instead")
	g.Nodes[1].OnEmpty.Set = expr.Literal("nothing")
	m := New(g, nil, channelOptions)
	all(m, Ended)
	if diff := cmp.Diff(map[string]any{"s": "instead", "r": "nothing"}, m.Artefact()); diff != "" {
		t.Error(diff)
	}
}

// A receive ends by its timer, by a failure beside it and by cancelling, and takes no value then.
func TestReceiveEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(m *Machine)
		want string
	}{
		{"timeout", func(m *Machine) { m.Due(m.Paused()[0], Timeout) }, "infra channel.timeout"},
		{"a failure", func(m *Machine) {
			m.Finish(m.Calls()[0], nil, unknown, &Failure{Category: "tool", Code: "x", Err: errStep})
		}, "cancelled step.cancelled"},
		{"cancelled", func(m *Machine) { m.Cancel(errStep) }, "cancelled step.cancelled"},
	} {
		g := channelGraph("r?q call")
		g.Nodes[0].Timeout = time.Minute
		m := New(g, nil, channelOptions)
		all(m, None)
		receiver := m.Paused()[0]
		tt.end(m)
		m.Send(1, "late")
		all(m, None)
		f := receiver.Failure()
		if f == nil || f.Category+" "+f.Code != tt.want || receiver.Output() != nil || len(m.root.channels[1].receivers) > 0 {
			t.Errorf("%s: %v, %v", tt.name, f, receiver.Output())
		}
	}
}
