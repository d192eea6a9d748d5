package host

import (
	"context"
	"strings"
	"sync"

	"github.com/braise-run/braise/internal/guard"
)

// Close ends the servers, and meanwhile sends what telemetry has and closes the store. It is called once nothing runs
// any more; calls again do nothing. The error is the store's; that of telemetry is a warning.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	store, exporter, servers, children := h.store, h.exporter, h.servers, h.children
	h.mu.Unlock()

	var closing sync.WaitGroup
	for _, s := range servers {
		if s.opened != nil { // it is not set any more
			closing.Go(s.opened.Close)
		}
	}
	for _, child := range children {
		child.store = nil // it is ours
		child.Close()
	}

	if exporter != nil {
		if err := exporter.Shutdown(context.Background()); err != nil {
			text := []rune(strings.Join(strings.Fields(err.Error()), " ")) // the collector's words may be in it
			if len(text) > maxWarning {
				text = append(text[:maxWarning], '…')
			}
			h.warn("telemetry: " + string(text))
		}
	}
	var err error
	if store != nil {
		err = guard.Stored(store).Close()
	}
	closing.Wait()
	return err
}
