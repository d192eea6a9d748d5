package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
)

// write is one statement on its way to the server.
type write struct {
	key  string // the run's id; of a document, the names of collection and document with a NUL between
	sql  string
	args []any
	row  []any // where the row goes that it returns; nil: it returns none
	done chan error

	refused bool // it did nothing; known once the group is committed
}

// errRefused says that a statement found its run changed or gone, and did nothing.
var errRefused = errors.New("the run is not as it was")

const (
	groupSize  = 1000
	groupBytes = 8 << 20
)

// size is about how many bytes a write sends.
func (w *write) size() int {
	n := 0
	for _, arg := range w.args {
		if b, ok := arg.([]byte); ok {
			n += len(b)
		}
	}
	return n
}

// write is send for a run. It tells those who watch, also when it is not known whether the write happened.
func (s *Store) write(ctx context.Context, runID, sql string, row []any, args ...any) error {
	err := s.send(ctx, runID, sql, row, args...)
	if !errors.Is(err, errRefused) && sql != leaseSQL && sql != deleteSQL && sql != endSignalsSQL {
		s.tell(runID, sql != appendSQL)
	}
	if err != nil {
		return fmt.Errorf("run %q: %w", runID, err)
	}
	return nil
}

// send executes a statement and returns when it is durable. When ctx ends in between, send returns; row is not to be
// read then, as the server may yet answer.
func (s *Store) send(ctx context.Context, key, sql string, row []any, args ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &write{key: key, sql: sql, args: args, row: row, done: make(chan error, 1)}
	err := s.hand(ctx, w)
	// data exception: a NUL in an owner
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(pg.Code, "22") {
		err = fmt.Errorf("%w: %w", checkpoint.ErrInvalid, err)
	}
	return err
}

// hand has a write made: by serve, or at once if nobody writes and ctx ends soon enough.
func (s *Store) hand(ctx context.Context, w *write) error {
	queue := s.queue
	if w.sql == signalSQL { // it locks a run of another process, which may signal one of this one's
		queue = s.singles
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= guard.StoreTime {
		select {
		case s.turn <- struct{}{}:
			s.commit(ctx, []*write{w})
			<-s.turn
			err := <-w.done
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return err
		default:
		}
	}
	select {
	case queue <- w:
		return guard.Begun(ctx, w.done)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve makes the writes that are sent until Close, and with one of the queue all that have queued meanwhile.
func (s *Store) serve() {
	defer close(s.served)
	for {
		var group []*write
		select {
		case w, ok := <-s.queue:
			if !ok {
				return
			}
			s.turn <- struct{}{}
			group = s.group(w)
		case w := <-s.singles:
			s.turn <- struct{}{}
			group = []*write{w}
		}
		s.commit(s.patience.Context(context.Background()), group)
		<-s.turn
		runtime.Gosched() // to those who waited, for a large group next
	}
}

// group returns w and what has queued, in the order in which everyone locks runs and documents, so that no two
// wait for each other.
func (s *Store) group(w *write) []*write {
	group := []*write{w}
	for size := w.size(); len(group) < groupSize && size < groupBytes; {
		select {
		case w := <-s.queue:
			group = append(group, w)
			size += w.size()
			continue
		default:
		}
		break
	}
	slices.SortStableFunc(group, func(a, b *write) int { return cmp.Compare(a.key, b.key) })
	return group
}

// commit executes a group in one transaction, and tells each how it went. When the server does not
// like one, the transaction is undone and the halves of the group are on their own.
func (s *Store) commit(ctx context.Context, group []*write) {
	err := s.transact(ctx, group)
	a, gone := errors.AsType[*away](err)
	switch {
	case gone && a.sent:
		a.err = fmt.Errorf("the connection was lost, the write may have happened: %w", impatient(a.err))
	case err != nil && !gone && len(group) > 1:
		s.commit(ctx, group[:len(group)/2])
		s.commit(ctx, group[len(group)/2:])
		return
	}
	for _, w := range group {
		if err == nil && w.refused {
			w.done <- errRefused
		} else {
			w.done <- err
		}
	}
}

// impatient returns err; if a context has ended, it is none that a caller knows.
func impatient(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("no answer in time: %v", err)
	}
	return err
}

// transact makes the writes of a group in one transaction.
func (s *Store) transact(ctx context.Context, group []*write) (err error) {
	defer guard.Recovered(&err)
	return s.withOne(ctx, s.writer, func(conn *pgx.Conn) error {
		alone, together := split(group)
		var batch pgx.Batch
		if s.session.pooled {
			batch.Queue(localSQL, s.session.names, s.session.values)
		}
		if len(together) > 0 {
			batch.Queue(s.sql(allSQL), columns(together)...)
		}
		for _, w := range alone {
			batch.Queue(s.sql(w.sql), w.args...)
		}
		results := conn.SendBatch(ctx, &batch)
		if s.session.pooled {
			if _, err := results.Exec(); err != nil {
				return errors.Join(err, results.Close())
			}
		}
		if len(together) > 0 {
			if err := readAll(results, together); err != nil {
				return errors.Join(err, results.Close())
			}
		}
		for _, w := range alone {
			n, err := w.read(results)
			if err != nil {
				return errors.Join(err, results.Close())
			}
			w.refused = n == 0
		}
		return results.Close() // until here, nothing is durable
	})
}

// split takes a group apart: mere appends, one for each run, cost the server much less as one statement.
func split(group []*write) (alone, together []*write) {
	last := ""
	for _, w := range group {
		if w.sql == appendSQL && (len(together) == 0 || w.key != last) {
			together, last = append(together, w), w.key
		} else {
			alone = append(alone, w)
		}
	}
	if len(together) < 2 {
		return group, nil
	}
	return alone, together
}

// columns are the arguments of allSQL for what appendSQL would do.
func columns(group []*write) []any {
	return []any{column[int64](group, 0), column[int64](group, 1), column[string](group, 2), column[int64](group, 3),
		column[int64](group, 4), column[string](group, 5), column[[]byte](group, 6)}
}

func column[T any](group []*write, i int) []T {
	list := make([]T, len(group))
	for n, w := range group {
		list[n] = w.args[i].(T)
	}
	return list
}

// readAll takes the result of allSQL.
func readAll(results pgx.BatchResults, group []*write) error {
	rows, _ := results.Query()
	done := make(map[int64]bool, len(group))
	var run int64
	_, err := pgx.ForEachRow(rows, []any{&run}, func() error { done[run] = true; return nil })
	for _, w := range group {
		w.refused = !done[w.args[0].(int64)]
	}
	return err
}

// read takes the result of w, and returns how many rows it has or made.
func (w *write) read(results pgx.BatchResults) (int64, error) {
	if w.row == nil {
		tag, err := results.Exec()
		return tag.RowsAffected(), err
	}
	err := results.QueryRow().Scan(w.row...)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return 1, err
}
