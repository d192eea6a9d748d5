package checkpointtest

import (
	"strings"

	"github.com/braise-run/braise/checkpoint"
)

func testLeases(h *harness) {
	l, err := h.s.Create(h.ctx, makeRun("run", 0), "me", long)
	h.want("Create", err, nil)
	busy := func() {
		h.Helper()
		for _, owner := range []string{"other", "me"} {
			_, err := h.s.Claim(h.ctx, "run", owner, long)
			h.want("Claim of a run that is held", err, checkpoint.ErrBusy)
		}
		if sum, _ := h.load("run"); !sum.Held {
			h.Error("Held is false")
		}
	}
	busy()
	// A lease that has run out holds until somebody takes it.
	l, err = h.s.Renew(h.ctx, l, 0)
	h.want("Renew", err, nil)
	if sum, _ := h.load("run"); sum.Held {
		h.Error("Held is true after the lease ran out")
	}
	h.append(l, 1, note("late"))
	l, err = h.s.Renew(h.ctx, l, long)
	h.want("Renew of a lease that ran out", err, nil)
	busy()
	h.append(l, 2, note("in time"))
	h.want("Release", h.s.Release(h.ctx, l), nil)
	if sum, _ := h.load("run"); sum.Held {
		h.Error("Held is true after Release")
	}

	second := h.claim("run", -long)
	if second.Epoch <= l.Epoch || second.RunID != "run" || second.Owner != "second" {
		h.Errorf("lease %+v after %+v", second, l)
	}
	third := h.claim("run", long)
	if third.Epoch <= second.Epoch {
		h.Errorf("lease %+v after %+v", third, second)
	}
	h.append(third, 3, note("third"))
	h.shows("run", note("late"), note("in time"), note("third"))
	_, err = h.s.Claim(h.ctx, "other", "me", long)
	h.want("Claim of no run", err, checkpoint.ErrNotFound)
}

// fenced stops the test unless a lease is good for nothing.
func (h *harness) fenced(l checkpoint.Lease) {
	h.Helper()
	sum, _ := h.load(l.RunID)
	h.want("Append", h.s.Append(h.ctx, l, sum.Seq, note("stale")), checkpoint.ErrFenced)
	h.want("Append of nothing", h.s.Append(h.ctx, l, sum.Seq), checkpoint.ErrFenced)
	h.want("Append with a gap", h.s.Append(h.ctx, l, sum.Seq+9, note("stale")), checkpoint.ErrFenced)
	h.want("AnswerPause", h.s.AnswerPause(h.ctx, l, sum.Seq, []byte("hash"), note("stale")), checkpoint.ErrFenced)
	_, err := h.s.Renew(h.ctx, l, long)
	h.want("Renew", err, checkpoint.ErrFenced)
	if err != nil && strings.Contains(err.Error(), `to ""`) {
		h.Errorf("lost to nobody: %v", err)
	}
	h.want("Release", h.s.Release(h.ctx, l), checkpoint.ErrFenced)
	if after, _ := h.load(l.RunID); after.Seq != sum.Seq {
		h.Errorf("the journal grew from %d to %d", sum.Seq, after.Seq)
	}
}

func testFences(h *harness) {
	first := h.create("run")
	second := h.claim("run", 0)
	h.fenced(first)
	h.append(second, 1, note("a"))
	h.want("Release", h.s.Release(h.ctx, second), nil)
	h.fenced(first)
	h.fenced(second)
	third := h.claim("run", long)
	h.fenced(second)
	future := third
	future.Epoch++
	h.fenced(future)
	forged := third
	forged.Owner = "forger"
	h.fenced(forged)
	h.append(third, 2, note("b"))
	h.shows("run", note("a"), note("b"))

	// An id that comes back does not bring its old owners back.
	old := h.create("again")
	h.want("Delete", h.s.Delete(h.ctx, "again"), nil)
	_, err := h.s.Create(h.ctx, makeRun("again", 0), "other", 0)
	h.want("Create after Delete", err, nil)
	h.fenced(old)
}

func testGoneOwner(h *harness) {
	parts := strings.Split(checkpoint.NewOwner(), "/")
	parts[4] = "1" // the first process of the machine, which this is not
	gone := strings.Join(parts, "/")
	if !checkpoint.OwnerGone(gone) {
		h.Skip("this system does not tell")
	}
	l, err := h.s.Create(h.ctx, makeRun("run", 0), gone, long)
	h.want("Create", err, nil)
	if sum, _ := h.load("run"); sum.Held {
		h.Error("held by an owner that is gone")
	}
	h.claim("run", long)
	h.fenced(l)
}

func testClaimsAtOnce(h *harness) {
	l := h.create("run")
	failed := atOnce(16, func(int) error {
		_, err := h.s.Claim(h.ctx, "run", checkpoint.NewOwner(), long)
		return err
	})
	h.oneWon(16, failed, checkpoint.ErrBusy)
	h.fenced(l)
	failed = atOnce(8, func(i int) error {
		_, err := h.s.Create(h.ctx, makeRun("new", i), checkpoint.NewOwner(), long)
		return err
	})
	h.oneWon(8, failed, checkpoint.ErrExists)
}
