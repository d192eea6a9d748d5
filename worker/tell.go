package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/workflow"
)

// Tell tells of the pauses or the end of an execution, each target once, and returns when they have answered: it is for
// processes that do not Run. Pauses that were told of are not told of again, reminders are left to processes that Run,
// and of an interrupted run nothing is told. The error says which targets failed. Processes that Run then try again,
// if it was about a pause.
func (n *Notifier) Tell(ctx context.Context, out *workflow.Outcome) error {
	if err := n.Check(); err != nil {
		return err
	}
	store, _ := n.storage()
	s := &sender{Notifier: n, store: store, told: map[string]bool{}}
	n.telling.Lock()
	defer n.telling.Unlock()
	list, err := s.about(ctx, out)
	var sending sync.WaitGroup
	for _, m := range list {
		sending.Go(func() { m.err = n.deliver(ctx, m) })
	}
	sending.Wait()
	for _, m := range list {
		if m.err != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", m.target.name(), m.err))
		} else if m.pause != "" {
			s.mark(ctx, m)
		}
	}
	return err
}

// about are the messages about an execution.
func (s *sender) about(ctx context.Context, out *workflow.Outcome) (list []*message, err error) {
	if out.Status != workflow.StatusPaused {
		sum, _, err := s.store.Load(ctx, out.RunID, math.MaxInt64)
		switch {
		case errors.Is(err, checkpoint.ErrNotFound): // it never began
			return nil, nil
		case err != nil || !sum.Status.Ended():
			return nil, err
		}
		return s.endsOf(out), s.store.DeleteDocuments(ctx, marks(out.RunID))
	}
	for i := range s.Targets {
		t := &s.Targets[i]
		for _, p := range out.Pauses {
			if !t.wants("paused", out.Recipe) || onlyWaits(p.Kind, p.RetryAt, p.ExpiresAt) || p.InBatch() {
				continue
			}
			m := newMessage(t, paused, p.CreatedAt, pauseData(out.RunID, out.Recipe, p), out.RunID, p.ID)
			marked, markErr := s.marked(ctx, m)
			if err = errors.Join(err, markErr); !marked {
				list = append(list, m)
			}
		}
	}
	return list, err
}

// execTime is how long a program may take to tell somebody.
const execTime = 30 * time.Second

// exec has the program of the target read a message.
func (t *Target) exec(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, execTime, fmt.Errorf("it takes longer than %v", execTime))
	defer cancel()
	cmd := exec.Command(t.Exec[0], t.Exec[1:]...)
	said := &tail{most: 500}
	cmd.Dir, cmd.Stdin, cmd.Stderr = t.Dir, bytes.NewReader(message), said
	cmd.WaitDelay = time.Second // for what it has left, which holds its stderr
	g, err := procgroup.Start(cmd, nil)
	if err != nil {
		return err
	}
	defer g.Close()
	select {
	case <-g.Exited():
	case <-ctx.Done():
		g.Kill()
		<-g.Exited()
		return context.Cause(ctx)
	}
	if cmd.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%s: %s", cmd.ProcessState, bytes.TrimSpace(said.text))
}

// tail keeps the last bytes that are written.
type tail struct {
	most int
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(len(t.text)-t.most, 0):]
	return len(p), nil
}
