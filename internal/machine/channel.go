package machine

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/internal/expr"
)

// Channel is what a file declares.
type Channel struct {
	Name string
	Kind ChannelKind
}

// ChannelKind says which receivers get a sent value.
type ChannelKind uint8

// The kinds of channels.
const (
	ValueChannel ChannelKind = iota // every receiver gets the last value
	QueueChannel                    // each value goes to one receiver, in the order of sending
	TopicChannel                    // each value goes only to the receivers that wait at that moment
)

// QueueCapacity is how many values a queue holds.
const QueueCapacity = 1000

// OnEmpty says what a Receive does if the channel is empty. The zero OnEmpty waits.
type OnEmpty struct {
	Fail bool
	Set  *expr.Template // nil: no replacement
}

// channel is the state of a channel in one execution of its file. None of values is one that a waiting
// receiver takes.
type channel struct {
	Channel
	values    []any   // of a queue, oldest first; of a value channel, the last value
	receivers []*Task // that wait, in the order in which they began to wait
}

// openChannels makes the channels of a frame. Each execution of a file has its own channels; steps in place
// use those of the file that contains them.
func (f *frame) openChannels() {
	if f.outside() != nil {
		f.channels = f.around().channels
	}
	if list := f.graph.Channels; len(list) > 0 {
		f.channels = make([]channel, len(list))
		for i := range list {
			f.channels[i].Channel = list[i]
		}
	}
}

// ChannelName returns the channel of a Send or a Receive.
func (t *Task) ChannelName() string { return t.channel().Name }

func (t *Task) channel() *channel { return &t.frame.channels[t.Node().Channel] }

// send executes a Send. A value that cannot become the step's own output is not sent.
func (m *Machine) send(t *Task, v any) {
	c := t.channel()
	if failure := c.full(); failure != nil {
		m.end(t, nil, unknown, failure)
		return
	}
	if m.end(t, v, unknown, nil) {
		m.put(c, v)
	}
}

// full refuses a value that nobody takes and that the channel has no room for.
func (c *channel) full() *Failure {
	if c.Kind != QueueChannel || len(c.values) < QueueCapacity {
		return nil
	}
	return &Failure{Category: "limit", Code: "channel.full",
		Err: fmt.Errorf("channel %q is full: it holds %d values that nobody has received", c.Name, QueueCapacity)}
}

// put gives a value to the waiting receivers, and keeps it if the channel does.
func (m *Machine) put(c *channel, v any) {
	receivers := c.next()
	switch {
	case c.Kind == ValueChannel:
		c.values = []any{v}
	case c.Kind == QueueChannel && len(receivers) == 0:
		c.values = append(c.values, v)
	}
	for _, t := range receivers {
		m.Answer(t, v, nil)
	}
}

// next returns the waiting receivers that get the next value: of a queue the first one.
func (c *channel) next() []*Task {
	if c.Kind == QueueChannel {
		return slices.Clone(c.receivers[:min(1, len(c.receivers))])
	}
	return slices.Clone(c.receivers)
}

// receive executes a Receive.
func (m *Machine) receive(t *Task) {
	c, n := t.channel(), t.Node()
	switch {
	case len(c.values) > 0:
		v := c.values[0]
		if c.Kind == QueueChannel {
			c.values = slices.Delete(c.values, 0, 1)
		}
		m.end(t, v, unknown, nil)
	case n.OnEmpty.Fail:
		m.end(t, nil, unknown, &Failure{Category: "tool", Code: "channel.empty",
			Err: fmt.Errorf("there is no value in channel %q", c.Name)})
	case n.OnEmpty.Set != nil:
		v, err := n.OnEmpty.Set.Eval(t)
		if err != nil {
			m.end(t, nil, unknown, exprFailure(err))
			return
		}
		m.end(t, v, unknown, nil)
	default:
		c.receivers = append(c.receivers, t)
		t.receiving = true
		if n.Timeout > 0 {
			m.arm(t, Timeout, n.Timeout)
		}
		m.wait(t)
	}
}

// leave takes a task from those that wait for a value.
func (c *channel) leave(t *Task) {
	c.receivers = slices.DeleteFunc(c.receivers, func(other *Task) bool { return other == t })
}

// openReceives asks the driver to open the pauses of tasks that wait for values, because nothing else can
// continue. It returns false if all are open already.
func (m *Machine) openReceives() (opened bool) {
	for _, t := range m.paused {
		if t.receiving && !t.opened {
			t.opened, opened = true, true
			m.emit(Open, t)
		}
	}
	return opened
}

// ReceiveTimeout is the failure of a task that has waited for a value for too long.
func (t *Task) ReceiveTimeout() *Failure {
	return &Failure{Category: "infra", Code: "channel.timeout",
		Err: fmt.Errorf("step %q received nothing from channel %q: its timeout is %v",
			t.Path(), t.channel().Name, t.Node().Timeout)}
}

// Receivers returns the tasks that would get a value from outside now. channel is the index of a channel
// of the run's own file, here and in Refuses and Send.
func (m *Machine) Receivers(channel int) []*Task { return m.root.channels[channel].next() }

// Refuses returns the error if Send cannot take a value; nil: it can.
func (m *Machine) Refuses(channel int, v any) *Failure {
	_, failure := m.measure("value", v, unknown, min(m.opts.MaxOutput, m.opts.MaxOutputs-m.size))
	if failure == nil {
		failure = m.root.channels[channel].full()
	}
	return failure
}

// Send reports a value from outside, which must not be modified afterwards. It drops a value that
// Refuses returns an error for.
func (m *Machine) Send(channel int, v any) {
	if m.Refuses(channel, v) == nil && (m.result == nil || m.result.Status == Waiting) {
		_ = m.weigh("value", v, unknown) // Refuses has done that
		m.put(&m.root.channels[channel], v)
	}
}
