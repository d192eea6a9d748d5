package checkpointtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// ask returns a signal.
func ask(id, kind, data string) checkpoint.Signal {
	s := checkpoint.Signal{ID: id, Kind: kind, By: "ada", At: start.Add(time.Minute)}
	if data != "" {
		s.Data = json.RawMessage(data)
	}
	return s
}

// answerTo returns the signal that answers a pause.
func answerTo(pause string) checkpoint.Signal {
	return ask(checkpoint.Pause{ID: pause}.AnswerID(), checkpoint.SignalAnswer, `{"pause":"`+pause+`","value":true}`)
}

func cancelling(id string) checkpoint.Signal { return ask(id, checkpoint.SignalCancel, "") }

func (h *harness) signal(runID string, s checkpoint.Signal) {
	h.Helper()
	h.want("PutSignal", need[checkpoint.Signals](h).PutSignal(h.ctx, runID, s), nil)
}

// signalled stops the test unless a run has these signals, in this order: the ids of those that are done end in "!".
func (h *harness) signalled(runID string, want ...string) {
	h.Helper()
	var open []string
	for _, id := range want {
		if !strings.HasSuffix(id, "!") {
			open = append(open, id)
		}
	}
	h.same("signals", h.signalIDs(runID, false), want)
	h.same("open signals", h.signalIDs(runID, true), open)
	found := slices.Contains(h.ids(checkpoint.Filter{Signalled: true}), runID)
	h.same("in the list of the signalled", found, len(open) > 0)
}

func (h *harness) signalIDs(runID string, open bool) []string {
	h.Helper()
	all, err := need[checkpoint.Signals](h).Signals(h.ctx, runID, open)
	h.want("Signals", err, nil)
	var ids []string
	for _, s := range all {
		if s.Done {
			s.ID += "!"
		}
		ids = append(ids, s.ID)
	}
	return ids
}

func testSignals(h *harness) {
	signals := need[checkpoint.Signals](h)
	l := h.create("run")
	h.create("other")
	h.signalled("run")
	odd := ask(strings.Repeat("ü", 500), "kind \x00 \"x\"\n", "")
	odd.Data = rec(1, "x", "", "text", "\x00 % $1 ? ' \\ \u2028 🎉").Data
	odd.By, odd.At = "\x00 <a@b>", odd.At.Add(1).In(time.FixedZone("", 3600))
	bare := checkpoint.Signal{ID: "b", Kind: checkpoint.SignalTake, At: start, Done: true}
	for _, s := range []checkpoint.Signal{odd, bare, answerTo("p"), cancelling("a")} {
		h.signal("run", s)
	}
	odd.At, bare.Done = odd.At.UTC(), false
	all, err := signals.Signals(h.ctx, "run", true)
	h.want("Signals", err, nil)
	h.same("signals", all, []checkpoint.Signal{odd, bare, answerTo("p"), cancelling("a")})
	h.signalled("run", odd.ID, "b", "answer:p", "a")
	h.signalled("other")
	sum, _ := h.load("run")
	h.same("the journal's end", sum.Seq, int64(1))

	// Those that are done stay in their place, and their ids are used.
	h.want("EndSignals", signals.EndSignals(h.ctx, l, "b", "unknown", "a", "b", "\x00\xff"), nil)
	h.want("EndSignals again", signals.EndSignals(h.ctx, l, "b"), nil)
	h.want("EndSignals of none", signals.EndSignals(h.ctx, l), nil)
	h.signalled("run", odd.ID, "b!", "answer:p", "a!")
	for _, s := range []checkpoint.Signal{bare, answerTo("p"), ask("a", checkpoint.SignalTake, `{"x":1}`)} {
		h.want("a signal again", signals.PutSignal(h.ctx, "run", s), checkpoint.ErrExists)
	}
	h.signal("other", bare)
	h.signal("run", cancelling("c"))
	h.signalled("run", odd.ID, "b!", "answer:p", "a!", "c")

	// What is returned, and what was given, belongs to the caller.
	mine := ask("mine", checkpoint.SignalSend, `{"channel":"c","value":1}`)
	h.signal("other", mine)
	clear(mine.Data)
	all, err = signals.Signals(h.ctx, "other", false)
	h.want("Signals", err, nil)
	all[0].ID = "mine, too"
	h.signalled("other", "b", "mine")
	all, err = signals.Signals(h.ctx, "other", false)
	h.want("Signals", err, nil)
	h.same("data", string(all[1].Data), `{"channel":"c","value":1}`)

	// They outlive the end of the run, but not the run.
	h.append(l, 1, rec(9, checkpoint.RunEnded, "", "status", "ok"))
	h.want("EndSignals after the end", signals.EndSignals(h.ctx, l, "c"), nil)
	h.signalled("run", odd.ID, "b!", "answer:p", "a!", "c!")
	if h.opts.Reopen != nil {
		o := h.other()
		o.signalled("run", odd.ID, "b!", "answer:p", "a!", "c!")
		all, err = need[checkpoint.Signals](o).Signals(h.ctx, "run", true)
		h.want("Signals of another store", err, nil)
		h.same("signals of another store", all, []checkpoint.Signal{odd, answerTo("p")})
	}
	_, err = h.s.Prune(h.ctx, time.Now())
	h.want("Prune", err, nil)
	h.want("Delete", h.s.Delete(h.ctx, "other"), nil)
	h.same("signalled", h.ids(checkpoint.Filter{Signalled: true}), []string{})
	for _, id := range []string{"run", "other"} {
		_, err := signals.Signals(h.ctx, id, false)
		h.want("Signals of a run that is gone", err, checkpoint.ErrNotFound)
		h.create(id)
		h.signalled(id)
		h.signal(id, cancelling("c"))
		h.signalled(id, "c")
	}
}

func testSignalsRefused(h *harness) {
	signals := need[checkpoint.Signals](h)
	first := h.create("run")
	h.signal("run", cancelling("a"))
	bad := map[string]func(s *checkpoint.Signal){
		"no id":               func(s *checkpoint.Signal) { s.ID = "" },
		"a long id":           func(s *checkpoint.Signal) { s.ID = strings.Repeat("x", 1001) },
		"an id with NUL":      func(s *checkpoint.Signal) { s.ID = "a\x00" },
		"an id not in UTF-8":  func(s *checkpoint.Signal) { s.ID = "\xff" },
		"no kind":             func(s *checkpoint.Signal) { s.Kind = "" },
		"a kind not in UTF-8": func(s *checkpoint.Signal) { s.Kind = "\xff" },
		"a name not in UTF-8": func(s *checkpoint.Signal) { s.By = "\xff" },
		"no time":             func(s *checkpoint.Signal) { s.At = time.Time{} },
		"data is a list":      func(s *checkpoint.Signal) { s.Data = json.RawMessage(`[]`) },
		"data is empty":       func(s *checkpoint.Signal) { s.Data = json.RawMessage{} },
		"data with a space":   func(s *checkpoint.Signal) { s.Data = json.RawMessage(`{"a": 1}`) },
		"data that is cut":    func(s *checkpoint.Signal) { s.Data = json.RawMessage(`{"a":}`) },
		"no answer's id":      func(s *checkpoint.Signal) { s.Kind = checkpoint.SignalAnswer },
		"an answer's id":      func(s *checkpoint.Signal) { s.ID = "answer:p" },
	}
	for name, change := range bad {
		s := cancelling("b")
		change(&s)
		h.want(name, signals.PutSignal(h.ctx, "run", s), checkpoint.ErrInvalid)
	}
	for _, id := range []string{"other", "", "..", "a/b", "../run", "run\x00", "\xff", strings.Repeat("x", 300)} {
		h.want("PutSignal to no run", signals.PutSignal(h.ctx, id, checkpoint.Signal{}), checkpoint.ErrNotFound)
		_, err := signals.Signals(h.ctx, id, false)
		h.want("Signals of no run", err, checkpoint.ErrNotFound)
		err = signals.EndSignals(h.ctx, checkpoint.Lease{RunID: id}, "a")
		h.want("EndSignals of no run", err, checkpoint.ErrNotFound)
	}
	second := h.claim("run", long)
	future, forged := second, second
	future.Epoch++
	forged.Owner = "forger"
	for _, l := range []checkpoint.Lease{first, future, forged} {
		h.want("EndSignals with an old lease", signals.EndSignals(h.ctx, l, "a"), checkpoint.ErrFenced)
		h.want("EndSignals of none with it", signals.EndSignals(h.ctx, l), checkpoint.ErrFenced)
	}
	h.signalled("run", "a")

	h.append(second, 1, rec(9, checkpoint.RunEnded, "", "status", "ok"))
	h.want("PutSignal after the end", signals.PutSignal(h.ctx, "run", cancelling("b")), checkpoint.ErrConflict)
	h.want("a bad one after the end", signals.PutSignal(h.ctx, "run", cancelling("")), checkpoint.ErrConflict)
	h.want("one again after the end", signals.PutSignal(h.ctx, "run", cancelling("a")), checkpoint.ErrExists)
	h.signalled("run", "a")
}

// testSignalsAtOnce has many who leave one signal, by way of two stores if there can be two: one of them does.
func testSignalsAtOnce(h *harness) {
	l := h.create("run")
	stores := []checkpoint.Signals{need[checkpoint.Signals](h)}
	if h.opts.Reopen != nil {
		stores = append(stores, need[checkpoint.Signals](h.other()))
	}
	for round := range 4 {
		s := answerTo(fmt.Sprint("p", round))
		failed := atOnce(16, func(i int) error { return stores[i%len(stores)].PutSignal(h.ctx, "run", s) })
		h.oneWon(16, failed, checkpoint.ErrExists)
	}
	h.signalled("run", "answer:p0", "answer:p1", "answer:p2", "answer:p3")
	h.want("EndSignals", stores[0].EndSignals(h.ctx, l, h.signalIDs("run", true)...), nil)

	// Of many signals and the end of the run, each that was taken is there, and none comes behind the end.
	taken := make([]bool, 16)
	failed := atOnce(16, func(i int) error {
		if i == 8 {
			return h.s.Append(h.ctx, l, 1, rec(9, checkpoint.RunEnded, "", "status", "ok"))
		}
		err := stores[i%len(stores)].PutSignal(h.ctx, "run", cancelling(fmt.Sprint("c", i)))
		taken[i] = err == nil
		return err
	})
	want := map[string]bool{}
	for i, ok := range taken {
		if ok {
			want[fmt.Sprint("c", i)] = true
		}
	}
	got := map[string]bool{}
	for _, id := range h.signalIDs("run", true) {
		got[id] = true
	}
	h.same("signals taken", got, want)
	for _, err := range failed {
		h.want("PutSignal or Append", err, checkpoint.ErrConflict)
	}
	sum, _ := h.load("run")
	h.same("status", sum.Status, checkpoint.OK)
}

// testDamagedSignal changes a signal behind the store's back.
func testDamagedSignal(h *harness) {
	signals := need[checkpoint.Signals](h)
	if h.opts.EditSignal == nil {
		h.Skip("the medium is out of reach")
	}
	h.create("healthy", asked("p", "human", 1, 1), minted("p", "one"))
	h.create("run", asked("p", "human", 1, 1), minted("p", "one"))
	h.signal("healthy", cancelling("a"))
	for _, id := range []string{"a", "b", "c"} {
		h.signal("run", cancelling(id))
	}
	var good string
	h.opts.EditSignal(h.T, h.s, "run", "b", func(line string) string { good = line; return line })
	other := note("")
	other.Seq = 1
	damage := map[string]string{"empty": "", "cut": good[:len(good)-4], "another kind": string(other.AppendLine(nil))}
	for at := 0; at < len(good); at += 7 {
		damage[fmt.Sprintf("byte %d has changed", at)] = flip(good, at)
	}
	for _, name := range slices.Sorted(maps.Keys(damage)) {
		h.opts.EditSignal(h.T, h.s, "run", "b", func(string) string { return damage[name] })
		for _, open := range []bool{true, false} {
			_, err := signals.Signals(h.ctx, "run", open)
			h.want(name, err, checkpoint.ErrCorrupt)
		}
		all, err := h.s.List(h.ctx, checkpoint.Filter{})
		if err != nil {
			h.want("List", err, checkpoint.ErrCorrupt)
		}
		if !slices.ContainsFunc(all, func(s checkpoint.Summary) bool { return s.ID == "healthy" }) {
			h.Errorf("%s: the healthy run is not listed", name)
		}
		if pauses := h.someInbox(); !slices.Contains(pauses, "healthy/p") {
			h.Errorf("%s: the pauses are %q", name, pauses)
		}
		h.load("run") // the journal is as it was
		h.same("signals of the healthy run", h.signalIDs("healthy", true), []string{"a"})
		h.opts.EditSignal(h.T, h.s, "run", "b", func(line string) string {
			h.same("what is in the medium", line, damage[name])
			return good
		})
	}
	h.signalled("run", "a", "b", "c")
}

// someInbox lists pauses of a store that may be damaged.
func (h *harness) someInbox() []string {
	h.Helper()
	all, err := need[checkpoint.Querier](h).Pauses(h.ctx, checkpoint.PauseFilter{})
	if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
		h.Fatalf("Pauses: %v", err)
	}
	return places(all)
}

// testSignalsOfMany has several processes leave the same signals: of each, one does.
func testSignalsOfMany(h *harness, place string) {
	var workers []*worker
	for range 3 {
		workers = append(workers, startWorker(h.T, "signal", place))
	}
	want := map[string]int{}
	for i := range 40 {
		want[fmt.Sprint(i)] = 1
	}
	left, kept := map[string]int{}, map[string]int{}
	for _, w := range workers {
		for _, id := range w.rest(h.T) {
			left[id]++
		}
	}
	for _, id := range h.signalIDs("run", true) {
		kept[id]++
	}
	h.same("signals left", left, want)
	h.same("signals kept", kept, want)
}
