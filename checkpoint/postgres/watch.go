package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// news is what this process has changed and the watchers of others do not know yet. One goroutine at most passes it on:
// a notification in the transaction of each write would have all processes commit one after the other.
type news struct {
	mu      sync.Mutex
	runs    map[string]bool
	sending bool
	urgent  chan struct{} // has room for one
	senders sync.WaitGroup
}

const (
	newsTime   = 50 * time.Millisecond // that appends wait for others
	newsPause  = 5 * time.Millisecond  // between notifications
	maxPayload = 7900                  // of a notification; the server takes less than 8,000 bytes
	lastNews   = time.Second           // to pass on what there is when the store is closed
)

// tell tells those who watch that a run may have changed: in this process at once, in others soon, or when urgent
// without delay.
func (s *Store) tell(runID string, urgent bool) {
	s.watchers.Tell(runID)
	n := &s.news
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(runID)
	if urgent {
		select {
		case n.urgent <- struct{}{}:
		default:
		}
	}
	if !n.sending {
		n.sending = true
		n.senders.Go(s.sendNews)
	}
}

func (n *news) add(runID string) {
	if n.runs == nil {
		n.runs = map[string]bool{}
	}
	n.runs[runID] = true
}

// take returns the runs that have changed; none: there will be no sender until there are some.
func (n *news) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	runs := slices.Sorted(maps.Keys(n.runs))
	n.runs, n.sending = nil, len(runs) > 0
	return runs
}

// sendNews passes on news until there is none. When the store is closed, it tries that once more.
func (s *Store) sendNews() {
	wait := newPause()
	for {
		select {
		case <-s.news.urgent:
		case <-time.After(newsTime):
		case <-s.life.Done():
		}
		runs := s.news.take()
		if len(runs) == 0 {
			return
		}
		pause := newsPause
		if closed := s.life.Err() != nil; s.notify(runs) == nil {
			wait.Reset()
		} else if !closed {
			pause = wait.NextBackOff()
			s.news.mu.Lock()
			for _, id := range runs {
				s.news.add(id)
			}
			s.news.mu.Unlock()
		}
		sleep(s.life, pause)
	}
}

// sleep waits for some time, or the end of a context.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// The server cuts the name of a schema as it cuts that of a channel.
const notifySQL = "SELECT pg_catalog.pg_notify($1::text::name::text, p) FROM unnest($2::text[]) AS p"

// notify sends runs to the other processes. Each payload begins with a name of this store.
func (s *Store) notify(runs []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastNews)
	defer cancel()
	var all []string
	var b strings.Builder
	for _, id := range runs {
		if b.Len()+len(id)+1 > maxPayload {
			all = append(all, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(s.session.name)
		}
		b.WriteString("\n" + id)
	}
	return s.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, notifySQL, s.session.channel, append(all, b.String()))
		return err
	})
}

// Watch implements checkpoint.Watcher. It listens on a connection of its own and is told of changes by other
// processes within a tenth of a second. A process that is killed may not have told of its last changes, and no
// notification comes through a pooler in transaction mode. So Watch also looks whether any transaction has ended:
// every 5 seconds, or every half a second where no notifications come.
func (s *Store) Watch(ctx context.Context, changed func(runID string)) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	listening, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	defer context.AfterFunc(s.life, stop)()
	ready := make(chan struct{})
	listener.Go(func() { s.listen(listening, sync.OnceFunc(func() { close(ready) })) })
	select {
	case <-ready:
	case <-listening.Done():
	}
	if err := s.watchers.Watch(ctx, changed, 0, nil); err != nil {
		return fmt.Errorf("postgres store: %w", err)
	}
	return nil
}

const (
	lookTime = 5 * time.Second        // between looks where notifications come
	pollTime = 500 * time.Millisecond // where they do not
	testTime = 2 * time.Second        // that a notification takes at most
)

// errDeaf says that a connection gets no notifications.
var errDeaf = errors.New("no notification has come")

// listen tells the watchers of this store what others have changed, until ctx ends. It calls ready when it misses
// nothing any more.
func (s *Store) listen(ctx context.Context, ready func()) {
	wait := newPause()
	deaf := s.session.pooled
	for ctx.Err() == nil {
		up := func() {
			s.watchers.Tell("") // what there was before may have been missed
			wait.Reset()
			ready()
		}
		if deaf {
			s.poll(ctx, up)
		} else if err := s.hear(ctx, up); errors.Is(err, errDeaf) {
			deaf = true
			continue
		}
		sleep(ctx, wait.NextBackOff())
	}
}

// hear passes on the notifications that come by one connection, until that is lost.
func (s *Store) hear(ctx context.Context, up func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), lastNews)
		defer cancel()
		conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+s.session.schema); err != nil {
		return err
	}
	if err := s.test(ctx, conn); err != nil {
		return err
	}
	last, err := snapshot(ctx, conn)
	if err != nil {
		return err
	}
	up()
	for {
		text, err := hearOne(ctx, conn, lookTime)
		if errors.Is(err, errDeaf) {
			var now string
			if now, err = snapshot(ctx, conn); err == nil && now != last {
				s.watchers.Tell("")
				last = now
			}
		}
		if err != nil {
			return err
		}
		if from, runs, ok := strings.Cut(text, "\n"); ok && from != s.session.name {
			for id := range strings.SplitSeq(runs, "\n") {
				s.watchers.Tell(id)
			}
		}
	}
}

// test has another connection send something, and waits for it.
func (s *Store) test(ctx context.Context, conn *pgx.Conn) error {
	text := s.session.name + "\ntest " + rand.Text()
	err := s.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, notifySQL, s.session.channel, []string{text})
		return err
	})
	for err == nil {
		var got string
		if got, err = hearOne(ctx, conn, testTime); got == text {
			return nil
		}
	}
	return err
}

// hearOne waits for a notification; errDeaf when none has come in time.
func hearOne(ctx context.Context, conn *pgx.Conn, most time.Duration) (string, error) {
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		return n.Payload, nil
	case ctx.Err() == nil && waiting.Err() != nil && !conn.IsClosed():
		return "", errDeaf
	}
	return "", err
}

// snapshot says which transactions can be seen: while it stays as it is, nothing has changed.
func snapshot(ctx context.Context, conn *pgx.Conn) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_current_snapshot()::text").Scan(&text)
	return text, err
}

// poll tells the watchers whenever something may have changed, until the server cannot be asked.
func (s *Store) poll(ctx context.Context, up func()) {
	last := ""
	for {
		var now string
		err := s.reading(ctx, func(conn *pgx.Conn) (err error) {
			now, err = snapshot(ctx, conn)
			return err
		})
		switch {
		case err != nil:
			return
		case last == "":
			up()
		case now != last:
			s.watchers.Tell("")
		}
		last = now
		if sleep(ctx, pollTime); ctx.Err() != nil {
			return
		}
	}
}
