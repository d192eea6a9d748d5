package checkpointtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
)

// other returns the harness of a second store on the same medium.
func (h *harness) other() *harness {
	h.Helper()
	if h.opts.Reopen == nil {
		h.Skip("the store is not shared")
	}
	o := *h
	o.s = h.opts.Reopen(h.T, h.s)
	return &o
}

func testReopen(h *harness) {
	h.history()
	l, err := h.s.Create(h.ctx, makeRun("last", 99), "me", long, opened("p"), minted("p", "one"))
	h.want("Create", err, nil)
	h.append(l, 3, note("a"))
	want, err := h.s.List(h.ctx, checkpoint.Filter{})
	h.want("List", err, nil)
	h.want("Close", h.s.Close(), nil)

	h = h.other()
	got, err := h.s.List(h.ctx, checkpoint.Filter{})
	h.want("List", err, nil)
	h.same("runs", got, want)
	h.shows("last", opened("p"), minted("p", "one"), note("a"))
	def, err := h.s.Definition(h.ctx, digest)
	h.want("Definition", err, nil)
	h.same("definition", string(def), definition)
	_, err = h.s.Claim(h.ctx, "last", "other", long)
	h.want("Claim", err, checkpoint.ErrBusy)
	h.want("AnswerPause", h.s.AnswerPause(h.ctx, l, 4, []byte("one"), answer("p", 0)), nil)
	h.want("Release", h.s.Release(h.ctx, l), nil)
}

func testTwoStores(h *harness) {
	b := h.other()
	first := h.create("run")
	h.append(first, 1, note("1"))
	second := b.claim("run", 0)
	h.fenced(first)
	b.fenced(first)
	b.append(second, 2, note("2"))
	h.shows("run", note("1"), note("2"))
	third := h.claim("run", long)
	_, err := b.s.Claim(h.ctx, "run", "other", long)
	h.want("Claim", err, checkpoint.ErrBusy)
	b.fenced(second)
	h.append(third, 3, note("3"))
	// One lease, used by way of both stores: neither trusts what it remembers.
	b.append(third, 4, note("4"))
	h.append(third, 5, note("5"))
	b.shows("run", note("1"), note("2"), note("3"), note("4"), note("5"))
	h.want("Release", b.s.Release(h.ctx, third), nil)

	stores := []checkpoint.Store{h.s, b.s}
	failed := atOnce(16, func(i int) error {
		_, err := stores[i%2].Claim(h.ctx, "run", checkpoint.NewOwner(), long)
		return err
	})
	h.oneWon(16, failed, checkpoint.ErrBusy)
	failed = atOnce(8, func(i int) error {
		_, err := stores[i%2].Create(h.ctx, makeRun("new", i), checkpoint.NewOwner(), 0, note("a"), note("b"))
		return err
	})
	h.oneWon(8, failed, checkpoint.ErrExists)
	h.shows("new", note("a"), note("b"))
	l := h.claim("new", long)
	failed = atOnce(8, func(i int) error { return stores[i%2].Append(h.ctx, l, 3, note("c"), note("d")) })
	h.oneWon(8, failed, checkpoint.ErrConflict)
	h.shows("new", note("a"), note("b"), note("c"), note("d"))
}

// flip changes one bit of a text.
func flip(text string, at int) string {
	b := []byte(text)
	b[at] ^= 1
	return string(b)
}

func testDamage(h *harness) {
	if h.opts.Edit == nil {
		h.Skip("the medium is out of reach")
	}
	h.create("healthy")
	l := h.create("run")
	for i := range 4 {
		h.append(l, int64(i+1), note(fmt.Sprint(i)))
	}
	h.want("Release", h.s.Release(h.ctx, l), nil)
	type edit = func(lines []string) []string
	var good []string
	h.opts.Edit(h.T, h.s, "run", func(lines []string) []string { good = slices.Clone(lines); return lines })
	if len(good) != 5 {
		h.Fatalf("%d lines, want 5", len(good))
	}
	begin := func(change func(m map[string]any)) edit {
		m := map[string]any{"format": 1, "run": "run", "recipe": "greet", "digest": digest}
		change(m)
		r, _ := checkpoint.NewRecord(start, checkpoint.RunCreated, "", m)
		r.Seq = 1
		return func(lines []string) []string { lines[0] = string(r.AppendLine(nil)); return lines }
	}
	type damaged struct {
		edit edit
		want error
	}
	corrupt := func(change edit) damaged { return damaged{change, checkpoint.ErrCorrupt} }
	damage := map[string]damaged{
		"a record is missing":     corrupt(func(l []string) []string { return slices.Delete(l, 2, 3) }),
		"the first is missing":    corrupt(func(l []string) []string { return l[1:] }),
		"two have changed places": corrupt(func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }),
		"one is repeated":         corrupt(func(l []string) []string { return slices.Insert(l, 2, l[2]) }),
		"one is empty":            corrupt(func(l []string) []string { l[2] = ""; return l }),
		"one is cut short":        corrupt(func(l []string) []string { l[2] = l[2][:20]; return l }),
		"one is in another layout": corrupt(func(l []string) []string {
			l[2] = strings.Replace(l[2], ",", ", ", 1)
			return l
		}),
		"it is another run":        corrupt(begin(func(m map[string]any) { m["run"] = "healthy" })),
		"it is of a later version": {begin(func(m map[string]any) { m["format"] = 2 }), checkpoint.ErrVersion},
		"it is of no version":      {begin(func(m map[string]any) { delete(m, "format") }), checkpoint.ErrVersion},
	}
	for at := 0; at < len(good[2]); at += 5 {
		damage[fmt.Sprintf("byte %d has changed", at)] = corrupt(func(l []string) []string {
			l[2] = flip(l[2], at)
			return l
		})
	}
	for name, d := range damage {
		want := d.edit(slices.Clone(good))
		h.opts.Edit(h.T, h.s, "run", func([]string) []string { return slices.Clone(want) })
		for range 2 {
			_, _, err := h.s.Load(h.ctx, "run", 0)
			h.want(name, err, d.want)
			if errors.Is(err, checkpoint.ErrCorrupt) && errors.Is(err, checkpoint.ErrVersion) {
				h.Errorf("%s: %v is two errors", name, err)
			}
		}
		all, _ := h.s.List(h.ctx, checkpoint.Filter{})
		if !slices.ContainsFunc(all, func(s checkpoint.Summary) bool { return s.ID == "healthy" }) {
			h.Errorf("%s: the healthy run is not listed", name)
		}
		h.shows("healthy")
		h.opts.Edit(h.T, h.s, "run", func(lines []string) []string {
			h.same(name+": what is in the medium", lines, want)
			return slices.Clone(good)
		})
	}
	h.shows("run", note("0"), note("1"), note("2"), note("3"))
}

func testDamagedDefinition(h *harness) {
	if h.opts.EditDefinition == nil {
		h.Skip("the medium is out of reach")
	}
	h.create("run")
	for _, edit := range []func(string) string{
		func(line string) string { return flip(line, len(line)/2) },
		func(string) string { return "" },
		func(string) string { return definition },
		func(string) string { return string(note("").AppendLine(nil)) },
	} {
		var good string
		h.opts.EditDefinition(h.T, h.s, digest, func(line string) string { good = line; return edit(line) })
		_, err := h.s.Definition(h.ctx, digest)
		h.want("Definition", err, checkpoint.ErrCorrupt)
		h.opts.EditDefinition(h.T, h.s, digest, func(string) string { return good })
	}
	got, err := h.s.Definition(h.ctx, digest)
	h.want("Definition", err, nil)
	h.same("definition", string(got), definition)
}

func testTorn(h *harness) {
	if h.opts.Tear == nil {
		h.Skip("the medium does not tear")
	}
	repairer, ok := h.s.(checkpoint.Repairer)
	if !ok {
		h.Fatal("the store is no Repairer")
	}
	repair := func(wantErr error, want bool) {
		h.Helper()
		n, err := repairer.Repair(h.ctx, "run")
		h.want("Repair", err, wantErr)
		if (n > 0) != want {
			h.Fatalf("Repair cut off %d bytes", n)
		}
	}
	l := h.create("run", note("a"), note("b"))
	repair(nil, false)
	for _, last := range [][]checkpoint.Record{{note("c")}, {note("c"), note("d"), note("e")}} {
		h.append(l, 3, last...)
		h.opts.Tear(h.T, h.s, "run")
		_, _, err := h.s.Load(h.ctx, "run", 0)
		h.want("Load", err, checkpoint.ErrCorrupt)
		h.want("Append", h.s.Append(h.ctx, l, 3, note("x")), checkpoint.ErrCorrupt)
		l = h.claim("run", long)
		repair(checkpoint.ErrBusy, false)
		_, err = h.s.Renew(h.ctx, l, 0)
		h.want("Renew", err, nil)
		repair(nil, true)
		h.shows("run", note("a"), note("b"))
		repair(nil, false)
	}
	h.append(l, 3, note("again"))
	h.shows("run", note("a"), note("b"), note("again"))
	_, err := repairer.Repair(h.ctx, "other")
	h.want("Repair of no run", err, checkpoint.ErrNotFound)
}

func testBroken(h *harness) {
	if h.opts.Break == nil {
		h.Skip("the medium does not break")
	}
	l := h.create("run", opened("p"), minted("p", "one"))
	mend := h.opts.Break(h.T, h.s)
	for name, call := range calls(h.s, l, 3) {
		switch name {
		case "Create", "Append", "AnswerPause", "PutSignal":
			err := call(h.ctx)
			if err == nil {
				h.Errorf("%s: no error", name)
			}
			for _, not := range []error{
				checkpoint.ErrExists, checkpoint.ErrNotFound, checkpoint.ErrBusy, checkpoint.ErrFenced,
				checkpoint.ErrConflict, checkpoint.ErrToken, checkpoint.ErrInvalid, checkpoint.ErrCorrupt,
			} {
				if errors.Is(err, not) {
					h.Errorf("%s: %v is misleading", name, err)
				}
			}
		}
	}
	mend()
	h.same("runs", h.ids(checkpoint.Filter{}), []string{"run"})
	h.shows("run", opened("p"), minted("p", "one"))
	after := calls(h.s, l, 3)
	for _, name := range []string{"Append", "Create", "PutSignal"} {
		h.want(name, after[name](h.ctx), nil)
	}
	h.shows("run", opened("p"), minted("p", "one"), note("new"))
}

func testGrowth(h *harness) {
	if h.opts.Size == nil {
		h.Skip("the size of the medium is unknown")
	}
	const appends, slack = 200, 128 << 10 // the medium may grow by pages
	data := strings.Repeat("x", 1000)
	l, err := h.s.Create(h.ctx, makeRun("run", 0), "me", long)
	h.want("Create", err, nil)
	var sizes []int64
	for i := range 3 * appends {
		if i%appends == 0 {
			sizes = append(sizes, h.opts.Size(h.T, h.s))
		}
		h.append(l, int64(i+1), note(data))
	}
	sizes = append(sizes, h.opts.Size(h.T, h.s))
	for i := range 3 {
		if grown := sizes[i+1] - sizes[i]; grown > appends*1400+slack {
			h.Errorf("%d records of 1000 bytes took %d bytes; sizes %d", appends, grown, sizes)
		}
	}

	before := h.opts.Size(h.T, h.s)
	for i := range 20 {
		run := makeRun(fmt.Sprintf("run-%d", i), i)
		run.Digest, run.Definition = "long", []byte(`{"text":"`+strings.Repeat("x", 64<<10)+`"}`)
		_, err := h.s.Create(h.ctx, run, "me", 0)
		h.want("Create", err, nil)
	}
	if grown := h.opts.Size(h.T, h.s) - before; grown > 2*64<<10+slack {
		h.Errorf("20 runs of one definition of 64 KiB took %d bytes", grown)
	}
}
