package procgroup

import (
	"os"
	"os/exec"
	"runtime"
)

// Group is a program that has been started as the first of a process group, which its children join.
type Group struct {
	cmd    *exec.Cmd
	exited chan struct{}
	guard  *exec.Cmd // leads the group; nil: the program itself does
	life   *os.File  // the end of the pipe that the guard reads
}

// Start starts cmd in a group of its own. On Linux the program is killed when this process dies, however it does. guard
// is the path of a program, and its arguments, that sees to the rest of the group: it calls [Guard]. nil: nobody
// does. What Start sets of cmd is SysProcAttr. The group is closed in the end.
func Start(cmd *exec.Cmd, guard []string) (*Group, error) {
	g := &Group{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// On Linux a program dies with the thread that has started it: keep that.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := g.start(guard)
		started <- err
		if err == nil {
			_ = cmd.Wait() // its outcome is in cmd.ProcessState
			close(g.exited)
		}
	}()
	if err := <-started; err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Group) start(guard []string) error {
	leader := 0
	if len(guard) > 0 {
		alive, life, err := os.Pipe()
		if err != nil {
			return err
		}
		defer alive.Close()
		g.life = life
		c := &exec.Cmd{Path: guard[0], Args: append([]string{"braise"}, guard[1:]...), Dir: "/", Env: []string{},
			Stdin: alive, SysProcAttr: Own()}
		if err := c.Start(); err != nil {
			return err
		}
		g.guard, leader = c, c.Process.Pid
	}
	g.cmd.SysProcAttr = mortal(joining(leader))
	return g.cmd.Start()
}

// Exited is closed when the program has ended; others of the group may live on.
func (g *Group) Exited() <-chan struct{} { return g.exited }

// Kill kills all of the group.
func (g *Group) Kill() {
	if leader := g.leader(); leader != nil {
		Kill(leader)
	}
}

// Terminate asks all of the group to end.
func (g *Group) Terminate() {
	if leader := g.leader(); leader != nil {
		Terminate(leader)
	}
}

// leader is the process whose group it is; nil if none was started.
func (g *Group) leader() *os.Process {
	if g.guard != nil {
		return g.guard.Process
	}
	return g.cmd.Process
}

// Close kills what is left of the group. The program has ended, or could not start.
func (g *Group) Close() {
	g.Kill()
	if g.guard != nil {
		_ = g.guard.Wait() // killed
	}
	if g.life != nil {
		g.life.Close()
	}
}
