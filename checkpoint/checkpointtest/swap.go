package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/braise-run/braise/checkpoint"
)

// has stops the test unless a document of collection "c" has a text; nil: unless there is none.
func (h *harness) has(name string, want *string) {
	h.Helper()
	text, ok, err := h.documents().Document(h.ctx, "c", name)
	h.want("Document", err, nil)
	if ok != (want != nil) || ok && text != *want || !ok && text != "" {
		h.Fatalf("document %q is %.40q, %v", name, text, ok)
	}
}

func testSwap(h *harness) {
	one, two, empty := new("1"), new("2"), new("")
	h.has("a", nil)
	for i, step := range []struct {
		name      string
		old, text *string
		want      error
		now       *string
	}{
		{"a", one, two, checkpoint.ErrConflict, nil},
		{"a", empty, two, checkpoint.ErrConflict, nil},
		{"a", one, nil, checkpoint.ErrConflict, nil},
		{"a", nil, nil, nil, nil},
		{"a", nil, one, nil, one},
		{"a", nil, two, checkpoint.ErrConflict, one},
		{"a", nil, nil, checkpoint.ErrConflict, one},
		{"a", two, empty, checkpoint.ErrConflict, one},
		{"a", two, nil, checkpoint.ErrConflict, one},
		{"b", nil, empty, nil, empty},
		{"c", nil, two, nil, two},
		{"a", one, two, nil, two},
		{"a", two, two, nil, two},
		{"b", empty, nil, nil, nil},
		{"b", empty, nil, checkpoint.ErrConflict, nil},
		{"b", nil, one, nil, one},
	} {
		err := h.documents().SwapDocument(h.ctx, "c", step.name, step.old, step.text)
		h.want(fmt.Sprintf("swap %d", i), err, step.want)
		if err != nil && !strings.Contains(err.Error(), strconv.Quote(step.name)) {
			h.Errorf("%v does not say which", err)
		}
		h.has(step.name, step.now)
	}
	h.holds("c", "a", "2", "c", "2", "b", "1") // each keeps its place, as long as it is there
	h.put("c", "a", "3")
	h.has("a", new("3"))
	for _, name := range []string{"a", "b", "c"} {
		text, _, _ := h.documents().Document(h.ctx, "c", name)
		h.want("remove", h.documents().SwapDocument(h.ctx, "c", name, &text, nil), nil)
	}
	h.holds("c")
	if s, ok := h.s.(checkpoint.Collections); ok {
		names, err := s.Collections(h.ctx, "")
		h.want("Collections", err, nil)
		h.same("collections", len(names), 0)
	}
	for _, bad := range []string{"", "a\x00b", "a\xff", strings.Repeat("x", 1001)} {
		h.want("SwapDocument", h.documents().SwapDocument(h.ctx, "c", bad, nil, one), checkpoint.ErrInvalid)
		h.want("SwapDocument", h.documents().SwapDocument(h.ctx, bad, "a", nil, nil), checkpoint.ErrInvalid)
		_, _, err := h.documents().Document(h.ctx, "c", bad)
		h.want("Document", err, checkpoint.ErrInvalid)
	}
	h.want("SwapDocument", h.documents().SwapDocument(h.ctx, "c", "a", nil, new("a\xff")), checkpoint.ErrInvalid)
	h.holds("c")
}

// testSwapsAtOnce counts from several stores on one medium, or several goroutines of one: no count is lost.
func testSwapsAtOnce(h *harness) {
	stores := []checkpoint.Documents{h.documents()}
	if h.opts.Reopen != nil {
		stores = append(stores, h.opts.Reopen(h.T, h.s).(checkpoint.Documents))
	}
	const writers, counts = 6, 10
	failed := atOnce(writers, func(i int) error {
		for range counts {
			for _, name := range []string{"shared", fmt.Sprint(i % 2)} {
				if err := count(h.ctx, stores[i%len(stores)], name); err != nil {
					return err
				}
			}
		}
		return nil
	})
	h.same("failed calls", fmt.Sprint(failed), fmt.Sprint([]error(nil)))
	h.has("shared", new(strconv.Itoa(writers*counts)))
	h.has("0", new(strconv.Itoa(writers*counts/2)))
	h.has("1", new(strconv.Itoa(writers*counts/2)))
}

// count adds 1 to the number in a document.
func count(ctx context.Context, s checkpoint.Documents, name string) error {
	for {
		text, ok, err := s.Document(ctx, "c", name)
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(text)
		old := &text
		if !ok {
			old = nil
		}
		err = s.SwapDocument(ctx, "c", name, old, new(strconv.Itoa(n+1)))
		if !errors.Is(err, checkpoint.ErrConflict) {
			return err
		}
	}
}

// testSwapsCut swaps while the connection is lost: each swap happens once.
func testSwapsCut(h *harness) {
	if h.opts.Cut == nil {
		h.Skip("the store has no connection")
	}
	s := h.documents()
	for _, answer := range []bool{false, true} {
		var old *string
		for i, text := range []*string{new("1"), new("2"), nil} {
			h.opts.Cut(h.T, h.s, answer)
			h.want(fmt.Sprintf("swap %d, cut: %v", i, answer), s.SwapDocument(h.ctx, "c", "a", old, text), nil)
			h.has("a", text)
			old = text
		}
	}
}

// testSwapsRefused looks at what a document is after a swap that fails.
func testSwapsRefused(h *harness) {
	s := h.documents()
	h.put("c", "a", "1")
	done, cancel := context.WithCancel(h.ctx)
	cancel()
	h.want("SwapDocument", s.SwapDocument(done, "c", "a", new("1"), new("2")), context.Canceled)
	_, _, err := s.Document(done, "c", "a")
	h.want("Document", err, context.Canceled)
	h.has("a", new("1"))
	if h.opts.Break != nil {
		h.create("run")
		mend := h.opts.Break(h.T, h.s)
		err := s.SwapDocument(h.ctx, "c", "a", new("1"), new(strings.Repeat("x", 100_000)))
		if err == nil || errors.Is(err, checkpoint.ErrConflict) || errors.Is(err, checkpoint.ErrCorrupt) {
			h.Errorf("SwapDocument: %v", err)
		}
		mend()
		h.has("a", new("1"))
	}
	if h.opts.EditDocument != nil {
		h.opts.EditDocument(h.T, h.s, "c", "a", func(line string) string { return flip(line, len(line)/2) })
		h.want("SwapDocument", s.SwapDocument(h.ctx, "c", "a", new("1"), new("2")), checkpoint.ErrCorrupt)
		_, _, err := s.Document(h.ctx, "c", "a")
		h.want("Document", err, checkpoint.ErrCorrupt)
	}
	h.want("Close", h.s.Close(), nil)
	h.want("SwapDocument", s.SwapDocument(h.ctx, "c", "a", new("1"), new("2")), checkpoint.ErrClosed)
	_, _, err = s.Document(h.ctx, "c", "a")
	h.want("Document", err, checkpoint.ErrClosed)
}
