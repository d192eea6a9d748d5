package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/braise-run/braise/checkpoint"
)

// documents returns the store as what keeps documents; a store that does not is not tested.
func (h *harness) documents() checkpoint.Documents {
	h.Helper()
	docs, ok := h.s.(checkpoint.Documents)
	if !ok {
		h.Skip("the store keeps no documents")
	}
	return docs
}

func (h *harness) put(collection, name, text string) {
	h.Helper()
	h.want("PutDocument", h.documents().PutDocument(h.ctx, collection,
		checkpoint.Document{Name: name, Text: text}), nil)
}

// holds stops the test unless a collection holds these names and texts, in this order.
func (h *harness) holds(collection string, want ...string) {
	h.Helper()
	all, err := h.documents().Documents(h.ctx, collection)
	h.want("Documents", err, nil)
	var got []string
	for _, d := range all {
		got = append(got, d.Name, d.Text)
	}
	h.same(fmt.Sprintf("collection %.40q", collection), got, want)
	if len(want) == 0 && all != nil {
		h.Fatal("no documents are not nil")
	}
}

func testDocuments(h *harness) {
	h.holds("c")
	h.put("c", "b", "1")
	h.put("c", "a", "2")
	h.put("other", "b", "3")
	h.put("c", "c", "")
	h.holds("c", "b", "1", "a", "2", "c", "")
	h.put("c", "b", "1, again") // it keeps its place
	h.put("c", "d", "4")
	h.holds("c", "b", "1, again", "a", "2", "c", "", "d", "4")
	h.holds("other", "b", "3")
	h.holds("C")

	// What is returned belongs to the caller.
	all, err := h.documents().Documents(h.ctx, "other")
	h.want("Documents", err, nil)
	all[0].Text = "changed"
	h.holds("other", "b", "3")

	h.want("DeleteDocuments", h.documents().DeleteDocuments(h.ctx, "c"), nil)
	h.want("DeleteDocuments again", h.documents().DeleteDocuments(h.ctx, "c"), nil)
	h.holds("c")
	h.holds("other", "b", "3")
	h.put("c", "a", "5")
	h.put("c", "b", "6")
	h.holds("c", "a", "5", "b", "6")
}

// A store that lists its collections lists those that have documents.
func testCollections(h *harness) {
	docs := h.documents()
	store, ok := docs.(checkpoint.Collections)
	if !ok {
		h.Skip("the store does not list collections")
	}
	list := func(prefix string, want ...string) {
		h.Helper()
		got, err := store.Collections(h.ctx, prefix)
		h.want("Collections", err, nil)
		h.same(fmt.Sprintf("collections that begin with %q", prefix), got, want)
	}
	list("")
	for _, name := range []string{`["b","x"]`, `["a","\u00e9"]`, `["b","%"]`, "é%_", "e", "B"} {
		h.put(name, "1", "one")
		h.put(name, "2", "two")
	}
	list("", "B", `["a","\u00e9"]`, `["b","%"]`, `["b","x"]`, "e", "é%_")
	list(`["b",`, `["b","%"]`, `["b","x"]`)
	list("%")
	list("é%", "é%_")
	list("b")
	h.want("DeleteDocuments", docs.DeleteDocuments(h.ctx, `["b","x"]`), nil)
	list(`["b",`, `["b","%"]`)
}

// Names and texts come from users.
func testOddDocuments(h *harness) {
	docs := h.documents()
	odd := []string{"a", "A", " ", "..", "../../x", `C:\x`, "a/b", "%", "'; DROP TABLE documents; --",
		"\n\t\x01\x7f", "é", "e\u0301", "日本", "\u2028", "\U0001F469\u200d\U0001F680", "\ufffd", "con",
		strings.Repeat("x", 1000), strings.Repeat("\x01", 1000)}
	for i, name := range odd {
		h.put(name, "n", fmt.Sprint(i))
		h.put("c", name, name+"\x00\"\\")
	}
	var want []string
	for i, name := range odd {
		h.holds(name, "n", fmt.Sprint(i))
		want = append(want, name, name+"\x00\"\\")
	}
	h.holds("c", want...)
	for _, bad := range []string{"", "\x00", "a\x00b", "a\xff", "\xed\xa0\x80",
		strings.Repeat("x", 1001), strings.Repeat("é", 501)} {
		h.want("PutDocument", docs.PutDocument(h.ctx, "c", checkpoint.Document{Name: bad}), checkpoint.ErrInvalid)
		h.want("PutDocument", docs.PutDocument(h.ctx, bad, checkpoint.Document{Name: "n"}), checkpoint.ErrInvalid)
		_, err := docs.Documents(h.ctx, bad)
		h.want("Documents", err, checkpoint.ErrInvalid)
		h.want("DeleteDocuments", docs.DeleteDocuments(h.ctx, bad), checkpoint.ErrInvalid)
	}
	h.want("PutDocument", docs.PutDocument(h.ctx, "c", checkpoint.Document{Name: "a", Text: "a\xff"}),
		checkpoint.ErrInvalid)
	h.holds("c", want...)

	large := strings.Repeat("large \u2028\"", 1<<18)
	h.put("large", "a", large)
	h.put("large", "b", "small")
	h.put("large", "a", large+"!")
	h.holds("large", "a", large+"!", "b", "small")
}

// testDocumentsAtOnce writes from several stores on one medium, or several goroutines of one.
func testDocumentsAtOnce(h *harness) {
	stores := []checkpoint.Documents{h.documents()}
	if h.opts.Reopen != nil {
		stores = append(stores, h.opts.Reopen(h.T, h.s).(checkpoint.Documents))
	}
	const writers, puts = 6, 10
	h.put("c", "first", "first")
	failed := atOnce(writers, func(i int) error {
		docs := stores[i%len(stores)]
		for j := range puts {
			for _, d := range []checkpoint.Document{
				{Name: "shared", Text: fmt.Sprint(i, j)},
				{Name: fmt.Sprint(i, ":", j), Text: "new"},
			} {
				if err := docs.PutDocument(h.ctx, "c", d); err != nil {
					return err
				}
			}
			d := checkpoint.Document{Name: "n", Text: fmt.Sprint(j)}
			if err := docs.PutDocument(h.ctx, fmt.Sprint("own ", i), d); err != nil {
				return err
			}
		}
		return nil
	})
	h.same("failed calls", len(failed), 0)
	for _, docs := range stores {
		all, err := docs.Documents(h.ctx, "c")
		h.want("Documents", err, nil)
		h.same("documents", len(all), 2+writers*puts)
		h.same("the first two", []string{all[0].Name, all[1].Name}, []string{"first", "shared"})
		for i := range writers { // each writer's are in its order
			var got, want []string
			for _, d := range all {
				if strings.HasPrefix(d.Name, fmt.Sprint(i, ":")) {
					got = append(got, d.Name)
				}
			}
			for j := range puts {
				want = append(want, fmt.Sprint(i, ":", j))
			}
			h.same("documents of one writer", got, want)
			h.holds(fmt.Sprint("own ", i), "n", fmt.Sprint(puts-1))
		}
	}
	atOnce(writers, func(i int) error { return stores[i%len(stores)].DeleteDocuments(h.ctx, "c") })
	h.holds("c")
}

// testDocumentsStay looks at what runs, and the end of the store, do to documents.
func testDocumentsStay(h *harness) {
	docs := h.documents()
	h.put("c", "a", "1")
	h.put("c", "b", "2")
	h.history()
	_, err := h.s.Prune(h.ctx, start.AddDate(1, 0, 0),
		checkpoint.OK, checkpoint.Failed, checkpoint.Cancelled, checkpoint.Running, checkpoint.Paused)
	h.want("Prune", err, nil)
	h.holds("c", "a", "1", "b", "2")

	calls := map[string]func(context.Context) error{
		"PutDocument": func(ctx context.Context) error {
			return docs.PutDocument(ctx, "c", checkpoint.Document{Name: "a"})
		},
		"Documents":       func(ctx context.Context) error { _, err := docs.Documents(ctx, "c"); return err },
		"DeleteDocuments": func(ctx context.Context) error { return docs.DeleteDocuments(ctx, "c") },
		"invalid":         func(ctx context.Context) error { return docs.DeleteDocuments(ctx, "") },
	}
	done, cancel := context.WithCancel(h.ctx)
	cancel()
	for name, call := range calls {
		h.want(name, call(done), context.Canceled)
	}
	h.holds("c", "a", "1", "b", "2")
	h.want("Close", h.s.Close(), nil)
	for name, call := range calls {
		h.want(name, call(h.ctx), checkpoint.ErrClosed)
	}
	if h.opts.Reopen != nil {
		h.other().holds("c", "a", "1", "b", "2")
	}
}

func testDamagedDocument(h *harness) {
	if h.opts.EditDocument == nil {
		h.Skip("the medium is out of reach")
	}
	h.put("healthy", "a", "1")
	h.put("c", "a", "1")
	h.put("c", "b", "text of b")
	var other string
	h.opts.EditDocument(h.T, h.s, "healthy", "a", func(line string) string { other = line; return line })
	for _, edit := range []func(string) string{
		func(line string) string { return flip(line, len(line)/2) },
		func(line string) string { return line[:len(line)/2] },
		func(string) string { return "" },
		func(string) string { return string(note("").AppendLine(nil)) },
		func(string) string { return other }, // of another collection
	} {
		var good string
		h.opts.EditDocument(h.T, h.s, "c", "b", func(line string) string { good = line; return edit(line) })
		_, err := h.documents().Documents(h.ctx, "c")
		h.want("Documents", err, checkpoint.ErrCorrupt)
		if !strings.Contains(err.Error(), `"c"`) {
			h.Errorf("%v does not say where", err)
		}
		h.holds("healthy", "a", "1")
		h.opts.EditDocument(h.T, h.s, "c", "b", func(string) string { return good })
	}
	h.holds("c", "a", "1", "b", "text of b")
}

// What testBroken is for journals. A write that fails leaves the old document.
func testBrokenDocuments(h *harness) {
	if h.opts.Break == nil {
		h.Skip("the medium does not break")
	}
	docs := h.documents()
	h.create("run")
	h.put("c", "a", "1")
	mend := h.opts.Break(h.T, h.s)
	for _, name := range []string{"a", "b"} {
		err := docs.PutDocument(h.ctx, "c", checkpoint.Document{Name: name, Text: strings.Repeat("x", 100_000)})
		if err == nil || errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrInvalid) {
			h.Errorf("PutDocument: %v", err)
		}
	}
	mend()
	h.holds("c", "a", "1")
	h.put("c", "b", "2")
	h.holds("c", "a", "1", "b", "2")
}

// testDocumentsOfMany has processes put documents at the same time, one of which is killed while it does.
func testDocumentsOfMany(h *harness, place string) {
	h.put("c", "shared", whole("0"))
	h.put("c", "kept", whole("kept"))
	victim := startWorker(h.T, "replace", place)
	var workers []*worker
	for range 2 {
		workers = append(workers, startWorker(h.T, "put", place))
	}
	last := ""
	for range 5 {
		last = victim.next()
		h.wholes()
	}
	h.want("Kill", victim.Process.Kill(), nil)
	for line := victim.next(); line != ""; line = victim.next() {
		last = line
	}
	victim.Wait()
	var want []string
	for _, w := range workers {
		want = append(want, w.rest(h.T)...)
	}
	docs := h.wholes()
	h.same("the first", []string{docs[0].Name, docs[1].Name}, []string{"shared", "kept"})
	accepted, err := strconv.Atoi(last)
	h.want("number of the last", err, nil)
	if text := docs[0].Text; text != whole(last) && text != whole(strconv.Itoa(accepted+1)) {
		h.Errorf("the document that was being replaced is %.20q, the last that was accepted %q", text, last)
	}
	var got []string
	for _, d := range docs[2:] {
		got = append(got, d.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	h.same("documents", got, want)
	h.put("c", "shared", whole("new"))
	h.same("documents", len(h.wholes()), len(docs))
}

// whole returns a text that nobody takes for a part of another.
func whole(n string) string { return strings.Repeat(n+" ", 5_000) }

// wholes returns the collection "c", and stops the test when one in it is not what somebody put there.
func (h *harness) wholes() []checkpoint.Document {
	h.Helper()
	all, err := h.documents().Documents(h.ctx, "c")
	h.want("Documents", err, nil)
	for _, d := range all {
		n, _, _ := strings.Cut(d.Text, " ")
		if d.Text != whole(n) {
			h.Fatalf("document %q is %.20q… of %d bytes", d.Name, d.Text, len(d.Text))
		}
	}
	return all
}
