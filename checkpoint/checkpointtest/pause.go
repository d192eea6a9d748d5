package checkpointtest

import (
	"encoding/hex"
	"math"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

func opened(pause string, data ...any) checkpoint.Record {
	return rec(1, checkpoint.PauseOpened, "ask",
		append([]any{"pause", pause, "kind", "human", "prompt", "go on?"}, data...)...)
}

func minted(pause, token string, data ...any) checkpoint.Record {
	return rec(1, checkpoint.TokenMinted, "",
		append([]any{"pause", pause, "hash", hex.EncodeToString([]byte(token))}, data...)...)
}

// answer returns an answer that is given some minutes after start.
func answer(pause string, minutes int) checkpoint.Record {
	return rec(60*minutes, checkpoint.PauseAnswered, "ask",
		"pause", pause, "answer", map[string]any{"decision": "approve"})
}

func testPauses(h *harness) {
	due, expires := start.Add(2*time.Hour), start.Add(3*time.Hour)
	l := h.create("run", opened("p1", "expiresAt", expires), opened("p2", "kind", "system", "dueAt", due),
		minted("p1", "one"),
		rec(2, checkpoint.RunPaused, ""))
	sum, _ := h.load("run")
	want := checkpoint.Summary{
		Run: checkpoint.Run{ID: "run", Recipe: "greet", Digest: digest, StartedAt: start},
		Seq: 5, UpdatedAt: start.Add(2 * time.Second), Status: checkpoint.Paused,
		Pauses: []checkpoint.Pause{
			{ID: "p1", Kind: "human", Step: "ask", Seq: 2, ExpiresAt: expires,
				Tokens: []checkpoint.Token{{Hash: "6f6e65"}}},
			{ID: "p2", Kind: "system", Step: "ask", Seq: 3, DueAt: due}},
	}
	h.same("summary", sum, want)
	all, err := h.s.List(h.ctx, checkpoint.Filter{})
	h.want("List", err, nil)
	h.same("list", all, []checkpoint.Summary{want})
	info, err := h.s.FindPause(h.ctx, "run", []byte("one"))
	h.want("FindPause", err, nil)
	h.same("summary of the pause", info.Summary, want)
	h.same("pause", info.Pause, want.Pauses[0])
	h.same("record of the pause", line(info.Opened),
		`2 2026-01-31T12:00:01Z pause.opened ask `+
			`{"expiresAt":"2026-01-31T15:00:00Z","kind":"human","pause":"p1","prompt":"go on?"}`)

	execution := rec(59, checkpoint.RunExecution, "", "owner", "me")
	h.want("an execution without an answer",
		h.s.AnswerPause(h.ctx, l, 5, []byte("one"), execution), checkpoint.ErrInvalid)
	h.want("AnswerPause", h.s.AnswerPause(h.ctx, l, 5, []byte("one"), execution, answer("p1", 1)), nil)
	if sum, _ := h.load("run"); sum.Status != checkpoint.Running {
		h.Errorf("status %q after an answer", sum.Status)
	}
	h.append(l, 7, rec(90, checkpoint.PauseClosed, "", "pause", "p2"))
	sum, _ = h.load("run")
	want.Seq, want.UpdatedAt, want.Status, want.Pauses = 8, start.Add(90*time.Second), checkpoint.Running, nil
	h.same("summary", sum, want)
}

func testTokens(h *harness) {
	l := h.create("run", opened("p1"), opened("p2"), opened("p3"), opened("p4"),
		minted("p1", "one"), minted("p1", "uno"), minted("p2", "two"), minted("p4", "four"),
		minted("p2", "old", "expiresAt", start.Add(time.Minute)),
		minted("p2", "new", "expiresAt", time.Now().Add(long)),
		rec(1, checkpoint.PauseClosed, "", "pause", "p4"))
	seq := int64(12)
	none := func(tokens ...string) {
		h.Helper()
		for _, token := range tokens {
			_, err := h.s.FindPause(h.ctx, "run", []byte(token))
			h.want("FindPause of "+token, err, checkpoint.ErrToken)
			for _, p := range []string{"p1", "p2", "p3", "p4"} {
				err := h.s.AnswerPause(h.ctx, l, seq, []byte(token), answer(p, 2))
				h.want("AnswerPause of "+p+" with "+token, err, checkpoint.ErrToken)
			}
		}
		if sum, _ := h.load("run"); sum.Seq != seq {
			h.Fatalf("the journal grew to %d", sum.Seq)
		}
	}
	none("", "unknown", "ONE", "four", "old")
	_, err := h.s.FindPause(h.ctx, "other", []byte("one"))
	h.want("FindPause of no run", err, checkpoint.ErrToken)
	h.want("answer of another pause", h.s.AnswerPause(h.ctx, l, seq, []byte("one"), answer("p2", 0)),
		checkpoint.ErrToken)
	h.want("answer that is none", h.s.AnswerPause(h.ctx, l, seq, []byte("one"), note("")), checkpoint.ErrInvalid)
	h.want("answer before the end", h.s.AnswerPause(h.ctx, l, seq-1, []byte("one"), answer("p1", 0)),
		checkpoint.ErrConflict)
	h.want("answer with a bad record", h.s.AnswerPause(h.ctx, l, seq, []byte("one"), answer("p1", 0), rec(1, "", "")),
		checkpoint.ErrInvalid)

	// All of that used nothing up. One token kills its brothers.
	h.want("AnswerPause", h.s.AnswerPause(h.ctx, l, seq, []byte("uno"), answer("p1", 2)), nil)
	seq++
	none("one", "uno")
	// The time of the answer counts, not that of the write.
	h.want("AnswerPause in time", h.s.AnswerPause(h.ctx, l, seq, []byte("old"), answer("p2", 0)), nil)
	seq++
	none("two", "new")
	// Without a token, by who owns the store.
	h.append(l, seq, answer("p3", 2), opened("p5"), minted("p5", "five"))
	seq += 3
	_, err = h.s.FindPause(h.ctx, "run", []byte("five"))
	h.want("FindPause", err, nil)
	h.append(l, seq, rec(1, checkpoint.RunEnded, "", "status", "error"))
	_, err = h.s.FindPause(h.ctx, "run", []byte("five"))
	h.want("FindPause after the end", err, checkpoint.ErrToken)
	h.want("answer after the end", h.s.AnswerPause(h.ctx, l, seq+1, []byte("five"), answer("p5", 2)),
		checkpoint.ErrConflict)
}

func testAnswersAtOnce(h *harness) {
	l := h.create("run", opened("p1"), minted("p1", "one"))
	failed := atOnce(8, func(int) error { return h.s.AnswerPause(h.ctx, l, 3, []byte("one"), answer("p1", 1)) })
	h.oneWon(8, failed, checkpoint.ErrConflict)
	h.shows("run", opened("p1"), minted("p1", "one"), answer("p1", 1))
}

// testAnswersByMany has owners that take the run from each other and answer with one token.
func testAnswersByMany(h *harness) {
	h.create("run", opened("p1"), minted("p1", "one"))
	try := func(int) error {
		l, err := h.s.Claim(h.ctx, "run", checkpoint.NewOwner(), 0)
		if err != nil {
			return err
		}
		sum, _, err := h.s.Load(h.ctx, "run", math.MaxInt64)
		if err != nil {
			return err
		}
		return h.s.AnswerPause(h.ctx, l, sum.Seq, []byte("one"), answer("p1", 1))
	}
	failed := atOnce(8, try)
	if len(failed) == 8 { // each lost the run before it could answer
		h.want("AnswerPause", try(0), nil)
		failed = failed[1:]
	}
	h.oneWon(8, failed, checkpoint.ErrFenced, checkpoint.ErrToken, checkpoint.ErrConflict)
	h.want("AnswerPause afterwards", try(0), checkpoint.ErrToken)
	h.shows("run", opened("p1"), minted("p1", "one"), answer("p1", 1))
}
