package checkpointtest

import (
	"bytes"
	"sync"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
)

// testFiles keeps a large file of several runs, once, until the last of them is gone.
func testFiles(h *harness) {
	s, ok := h.s.(files.Store)
	if !ok {
		h.Skip("the store keeps no files")
	}
	content := bytes.Repeat([]byte("\x89PNG\xff\x00"), files.MaxBytes/6)
	sum := files.Sum(content)
	h.create("a")
	h.create("b")
	small := []byte("hi")
	var wg sync.WaitGroup
	for _, run := range []string{"a", "b", "a", "b"} {
		wg.Go(func() {
			if _, err := files.Put(h.ctx, s, run, small); err != nil {
				h.Errorf("Put: %v", err)
			}
		})
	}
	wg.Wait()
	for _, run := range []string{"a", "b"} {
		if got, err := files.Put(h.ctx, s, run, content); err != nil || got != sum {
			h.Fatalf("Put: %.10s, %v", got, err)
		}
	}
	once := func(want int) {
		h.Helper()
		others, err := s.Collections(h.ctx, "content/"+files.Sum(small)+"/")
		if err != nil || len(others) != 1 {
			h.Fatalf("the small file is kept %d times, %v", len(others), err)
		}
		places, err := s.Collections(h.ctx, "content/"+sum+"/")
		h.want("Collections", err, nil)
		if len(places) != want {
			h.Fatalf("the file is kept %d times, want %d", len(places), want)
		}
	}
	once(1)
	there := h.s
	if h.opts.Reopen != nil {
		there = h.other().s
	}
	got, err := files.Get(h.ctx, there.(files.Store), sum)
	if err != nil || !bytes.Equal(got, content) {
		h.Fatalf("Get: %d bytes, %v", len(got), err)
	}
	aged := func(runs ...string) { // as if they had been given the file long ago
		for _, run := range runs {
			h.put("files/"+sum, "run "+run, "2020-01-02T03:04:05Z")
		}
	}
	removed := func(want int) {
		h.Helper()
		n, err := files.DeleteUnused(h.ctx, s)
		h.want("DeleteUnused", err, nil)
		once(1 - n)
		if n != want {
			h.Fatalf("%d files went, want %d", n, want)
		}
	}
	aged("a", "b", "gone")
	removed(0)
	if _, ok, err := s.Document(h.ctx, "files/"+sum, "run gone"); ok || err != nil {
		h.Errorf("the file is still that of a run that is gone, %v", err)
	}
	h.want("Delete", h.s.Delete(h.ctx, "a"), nil)
	removed(0)
	h.want("Delete", h.s.Delete(h.ctx, "b"), nil)
	removed(1)
	_, err = files.Get(h.ctx, s, sum)
	h.want("Get", err, checkpoint.ErrNotFound)
	h.want("Share", files.Share(h.ctx, s, "c", sum), checkpoint.ErrNotFound)
}
