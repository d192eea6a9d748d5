package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/internal/guard"
)

// inbox groups reads of open signals, which every run asks for before it ends: while one query is under way, those that
// ask meanwhile wait for the next, which is for all of them.
type inbox struct {
	mu       sync.Mutex
	next     *looked // that has not begun; nil: nobody waits
	busy     bool    // work goes on
	work     sync.WaitGroup
	patience guard.Patience // of work, with a server that does not answer
}

// looked is a query for the open signals of some runs. What it found may be read once done is closed.
type looked struct {
	runs  []string
	found map[string][]signalRow // by run; of a run without signals, a row without an ID
	err   error
	done  chan struct{}
}

// open returns the open signals of a run. The query, which others may share, goes on when ctx ends.
func (s *Store) open(ctx context.Context, runID string) ([]signalRow, error) {
	i := &s.inbox
	i.mu.Lock()
	if i.next == nil {
		i.next = &looked{done: make(chan struct{})}
	}
	l := i.next
	l.runs = append(l.runs, runID)
	if !i.busy {
		i.busy = true
		i.work.Go(s.look)
	}
	i.mu.Unlock()
	select {
	case <-l.done:
		return l.found[runID], l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look makes one query after the other, until nobody waits for one.
func (s *Store) look() {
	i := &s.inbox
	for {
		i.mu.Lock()
		l := i.next
		i.next, i.busy = nil, l != nil
		i.mu.Unlock()
		if l == nil {
			return
		}
		l.err = impatient(s.find(i.patience.Context(context.Background()), l))
		close(l.done)
	}
}

func (s *Store) find(ctx context.Context, l *looked) (err error) {
	defer guard.Recovered(&err)
	return s.reading(ctx, func(conn *pgx.Conn) error {
		l.found = make(map[string][]signalRow, len(l.runs))
		rows, _ := conn.Query(ctx, s.sql(openSignalsSQL), l.runs)
		var id string
		var row signalRow
		_, err := pgx.ForEachRow(rows, []any{&id, &row.ID, &row.Line, &row.Call, &row.Done}, func() error {
			l.found[id] = append(l.found[id], row)
			return nil
		})
		return err
	})
}
