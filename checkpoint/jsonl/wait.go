package jsonl

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/regular"
)

// lockedFile is an open file with the lock that all who write to it take.
type lockedFile struct {
	*os.File
	unlock func()
	line   *line
}

// Close lets go of the lock, too.
func (f *lockedFile) Close() error {
	f.unlock()
	defer f.line.leave()
	return f.File.Close()
}

const (
	// lockWait is how long to wait for a lock that other processes have: they hold it for the time of one write, which
	// a loaded machine may need seconds for.
	lockWait = time.Minute
	// stoppedWait is how long to wait for a process that was stopped in the middle of a write.
	stoppedWait = 3 * time.Second
	// lookEvery is how often to see whether the process that has the lock is stopped.
	lookEvery = 200 * time.Millisecond
	// poll is how often a lock is asked for: one who writes without a pause lets go of it for moments only.
	poll = 50 * time.Microsecond
)

// openLocked opens a file and waits until it has its lock. ErrBusy when that takes too long. The callers of this
// process wait in line: one asks for the lock.
func openLocked(ctx context.Context, name string, flag int) (*lockedFile, error) {
	l, err := wait(ctx, name)
	if err != nil {
		return nil, err
	}
	for {
		file, err := regular.OpenFile(name, flag, 0o600)
		if err != nil {
			l.leave()
			return nil, err
		}
		unlock, err := l.lock(ctx, file)
		if err != nil {
			file.Close()
			l.leave()
			return nil, err
		}
		f := &lockedFile{file, unlock, l}
		if same, err := f.isAt(name); same && err == nil {
			return f, nil
		}
		unlock()
		file.Close() // it was removed before the lock was there
	}
}

// line is where the callers of this process wait for the lock of one file.
type line struct {
	name string
	turn chan struct{} // full while somebody has the lock, or asks for it; who does has the fields below
	n    int           // who waits or has the turn; lines.mu guards it

	since   time.Time // when other processes began to keep the lock from this one; zero: it had it last
	looked  time.Time // when somebody last looked which process has it
	stopped time.Time // since when that has been seen to be stopped; zero: it was not
	holder  int       // that process; 0: not known
}

// lines are the lines by the names of their files.
var lines = struct {
	mu  sync.Mutex
	all map[string]*line
}{all: map[string]*line{}}

// wait waits for the caller's turn to ask for a lock.
func wait(ctx context.Context, name string) (*line, error) {
	lines.mu.Lock()
	l := lines.all[name]
	if l == nil {
		l = &line{name: name, turn: make(chan struct{}, 1)}
		lines.all[name] = l
	}
	l.n++
	lines.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		return l, nil
	case <-ctx.Done():
		l.gone()
		return nil, ctx.Err()
	}
}

// leave ends the caller's turn.
func (l *line) leave() {
	<-l.turn
	l.gone()
}

func (l *line) gone() {
	lines.mu.Lock()
	defer lines.mu.Unlock()
	if l.n--; l.n == 0 {
		delete(lines.all, l.name)
	}
}

// lock waits for the lock. Of those in line all together wait for other processes as long as one does.
func (l *line) lock(ctx context.Context, file *os.File) (unlock func(), err error) {
	for pause := poll; ; pause = min(2*pause, 5*poll) {
		unlock, err := tryLock(file)
		if unlock != nil {
			l.since, l.stopped = time.Time{}, time.Time{}
		}
		if err != nil || unlock != nil {
			return unlock, err
		}
		if err := l.waited(file); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// waited returns an ErrBusy when other processes have kept the lock for too long.
func (l *line) waited(file *os.File) error {
	now := time.Now()
	if l.since.IsZero() {
		l.since, l.looked = now, now
	}
	if now.Sub(l.looked) >= lookEvery {
		l.looked = now
		pid, stopped := holder(file)
		if l.stopped.IsZero() || pid != l.holder {
			l.stopped = now
		}
		if l.holder = pid; !stopped {
			l.stopped = time.Time{}
		}
	}
	switch {
	case !l.stopped.IsZero() && now.Sub(l.stopped) >= stoppedWait:
		return fmt.Errorf("%w: %s is locked by process %d, which is stopped\n"+
			"  hint: wake it (kill -CONT %[3]d) or end it (kill -KILL %[3]d)", checkpoint.ErrBusy, l.name, l.holder)
	case now.Sub(l.since) < lockWait:
		return nil
	case l.holder > 0:
		return fmt.Errorf("%w: %s has been locked for %v, now by process %d",
			checkpoint.ErrBusy, l.name, lockWait, l.holder)
	}
	return fmt.Errorf("%w: %s has been locked for %v", checkpoint.ErrBusy, l.name, lockWait)
}
