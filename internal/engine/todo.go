package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/machine"
)

// todo is what Next returns before it asks the machine.
type todo struct {
	commands []Command
	at       int               // index of the next command
	held     machine.Command   // waits for the time
	ticking  bool              // held is set
	over     bool              // the execution is over
	hold     bool              // no more calls start
	drains   bool              // and the execution ends when none is in progress
	kept     []machine.Command // calls that did not start because of hold
	timers
}

// timers are what is due later. They have numbers; those of the machine also have names.
type timers struct {
	last  int64
	due   map[int64]due
	names map[timerKey]int64
}

// due is what happens when a timer is due. It has one of the first three, or else the key.
type due struct {
	call  *pending      // has its next attempt
	late  bool          // or gets none, as its time is over then
	pause *Pause        // may be over
	wait  *machine.Task // has waited long enough
	key   timerKey      // is to be told to the machine
}

// timerKey names a timer of the machine.
type timerKey struct {
	task  *machine.Task
	timer machine.Timer
}

// next takes the next command; false: there is none.
func (s *todo) next() (c Command, there bool) {
	if s.at == len(s.commands) {
		return Command{}, false
	}
	c = s.commands[s.at]
	if s.at++; s.at == len(s.commands) {
		clear(s.commands)
		s.commands, s.at = s.commands[:0], 0
	}
	return c, true
}

// ask has the driver do something.
func (s *todo) ask(c Command) { s.commands = append(s.commands, c) }

// askTime has the driver say what time it is before a command of the machine is carried out.
func (s *todo) askTime(c machine.Command) {
	s.held, s.ticking = c, true
	s.ask(Command{Op: Time})
}

// arm lets something happen later.
func (s *todo) arm(wait time.Duration, then due) int64 {
	if s.due == nil {
		s.due = map[int64]due{}
	}
	s.last++
	s.due[s.last] = then
	s.ask(Command{Op: Arm, Timer: s.last, Wait: wait})
	return s.last
}

// armNamed is arm for a timer of the machine.
func (s *todo) armNamed(wait time.Duration, key timerKey) {
	if s.names == nil {
		s.names = map[timerKey]int64{}
	}
	s.names[key] = s.arm(wait, due{key: key})
}

// disarm forgets a timer; 0 is none.
func (s *todo) disarm(id int64) {
	if _, armed := s.due[id]; armed {
		delete(s.due, id)
		s.ask(Command{Op: Disarm, Timer: id})
	}
}

// disarmAll forgets all timers.
func (s *todo) disarmAll() {
	for _, id := range slices.Sorted(maps.Keys(s.due)) {
		s.disarm(id)
	}
	clear(s.names)
}

// take removes and returns the timer of a name; 0: there is none.
func (s *timers) take(key timerKey) int64 {
	id := s.names[key]
	delete(s.names, key)
	return id
}

// watch arms the timer for what is due of a pause while the run continues.
func (s *todo) watch(p *Pause, now time.Time) {
	at := p.ExpiresAt
	if at.IsZero() || !p.RetryAt.IsZero() && p.RetryAt.Before(at) {
		at = p.RetryAt
	}
	if !at.IsZero() {
		p.timer = s.arm(at.Sub(now), due{pause: p})
	}
}

// unkeep takes back a call that did not start because of hold; false: it is none of these.
func (s *todo) unkeep(t *machine.Task) (c machine.Command, kept bool) {
	i := slices.IndexFunc(s.kept, func(c machine.Command) bool { return c.Task == t })
	if i < 0 {
		return c, false
	}
	c = s.kept[i]
	s.kept = slices.Delete(s.kept, i, i+1)
	return c, true
}

// retryAfter has a call make one more attempt after a delay, unless its time is over before.
func (s *todo) retryAfter(p *pending, now time.Time, delay time.Duration) {
	p.stage, p.due = delayed, now.Add(delay)
	left := p.deadline.Sub(now)
	late := !p.deadline.IsZero() && left < delay
	if late {
		delay = left
	}
	p.timer = s.arm(delay, due{call: p, late: late})
}

// fired removes a timer that is due; false: it was disarmed.
func (s *timers) fired(id int64) (d due, armed bool) {
	d, armed = s.due[id]
	delete(s.due, id)
	return d, armed
}
