package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// ExecOptions say what exec.run may do. The zero value refuses every call.
type ExecOptions struct {
	// Allow lists the programs that may run. An entry without a slash is a name: it allows exactly
	// that name, looked up in the host's PATH. Any other entry is a path, relative to Dir: it
	// allows exactly that spelling. nil: none. What an allowed program does with its arguments is
	// its own affair: allowing a shell or an interpreter allows everything.
	Allow []string
	// Timeout of a call that gives none. Defaults to 30 s.
	Timeout time.Duration
	// Dir is where programs start, and the folder that the argument dir may not leave. "": they
	// start in the working folder, and dir may be any folder. Those of an agent with a [runtime.CallInfo.Cwd] start in
	// that folder below it, which must exist, and dir may not leave it.
	Dir string
	// Working is the working folder where Dir is "". "": that of the process.
	Working string
	// Env lists the variables that a call may set by env, by exact name, beside those whose names begin with ARG_,
	// which no program looks at by itself. nil: none. Of the host's environment programs get PATH, HOME, LANG, TZ and
	// TERM.
	Env []string
	// MaxBytes limits stdout, and stderr; more is an error. Defaults to 4 MiB.
	MaxBytes int
	// Guard is the path of a program, and its arguments, that calls [Guard]. One is started with each program of a
	// call: should this process die, however it does, it kills that program and all of its process group. nil: on
	// Linux the program itself dies, what it has started may live on; on other systems all of them may.
	Guard []string
}

// Guard is the whole of a program that ExecOptions.Guard names, for a program that is its own guard: with a command
// line that has no other use, it calls Guard before it does anything else. Guard does not return.
func Guard() { procgroup.Guard() }

// drainDelay is how long the output of a program that has ended is waited for, when a process that
// left its group still holds the pipes.
const drainDelay = 2 * time.Second

type execArgs struct {
	Argv      []string          `json:"argv"`
	Stdin     string            `json:"stdin"`
	Env       map[string]string `json:"env"`
	Dir       string            `json:"dir"`
	Timeout   string            `json:"timeout"`
	AllowCode allowed           `json:"allow_code"`
	Effect    runtime.Effect    `json:"effect"`
}

type execResult struct {
	Code   int    `json:"code"` // -1: killed by a signal
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

var execParameters = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["argv"],
  "properties": {
    "argv": {"type": "array", "minItems": 1, "items": {"type": "string"},
      "description": "the program and its arguments; no shell"},
    "stdin": {"type": "string", "description": "what the program reads; nothing if not given"},
    "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "further variables"},
    "dir": {"type": "string", "description": "defaults to the working folder"},
    "timeout": {"type": "string", "description": "a duration like 30s"},
    "allow_code": {
      "description": "exit codes other than 0 that are no failure: a list, or true for all",
      "anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "integer"}}]
    },
    "effect": {"enum": ["read_only", "idempotent", "external"], "default": "external",
      "description": "what a second call would do"}
  }
}`)

// ExecRun returns the tool exec.run, which runs a program without a shell. Its result is
// {code, stdout, stderr}. A code other than 0 is a *retry.Failure with that Status unless
// allow_code has it.
//
// The program's whole process group is killed when the call ends, however it ends: by itself, by
// its timeout or by ctx. On Windows only the program itself is. For the death of this process see ExecOptions.Guard.
func ExecRun(opts ExecOptions) runtime.Tool {
	return tool[execArgs]{
		spec: runtime.ToolSpec{
			Name:        "exec.run",
			Description: "Run a program, without a shell, and return its exit code and output.",
			Parameters:  execParameters,
			Result:      "{code, stdout, stderr}",
			Effect:      runtime.External,
			EffectOf:    effectOf(func(in execArgs) runtime.Effect { return in.Effect }),
		},
		call: opts.run,
	}
}

// run runs one program:
//  1. refuse what is not allowed;
//  2. start it, with pipes of our own;
//  3. wait for its end, killing it early when ctx is done or it prints too much;
//  4. kill what is left of its group, take in the rest of the output;
//  5. say how it ended.
func (opts ExecOptions) run(ctx context.Context, in execArgs) (any, error) {
	cmd, err := opts.command(in, cwdOf(ctx), runtime.IdempotencyKey(ctx))
	if err != nil {
		return nil, refuse("%w", err)
	}
	timeout, err := timeoutOf(in.Timeout, opts.Timeout)
	if err != nil {
		return nil, err
	}
	ctx, cancelTimer := context.WithTimeoutCause(ctx, timeout, timedOut(timeout))
	defer cancelTimer()
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)

	limit := or(opts.MaxBytes, DefaultMaxBytes)
	stdout := &output{limit: limit, over: kill}
	stderr := &output{limit: limit, over: kill}
	pipes, err := opts.start(cmd, in.Stdin, stdout, stderr)
	if err != nil {
		return nil, &retry.Failure{Reason: retry.Unknown, Err: fmt.Errorf("%q could not start: %w", in.Argv[0], err)}
	}

	killed := false
	select {
	case <-pipes.group.Exited():
	case <-ctx.Done():
		killed = true
		pipes.group.Kill()
		<-pipes.group.Exited()
	}
	pipes.group.Close() // and the children that outlived it
	pipes.drain()

	code := cmd.ProcessState.ExitCode()
	failure := &retry.Failure{Sent: true}
	switch {
	case stdout.full() || stderr.full():
		failure.Err = fmt.Errorf("%q printed more than %d bytes", in.Argv[0], limit)
	case killed:
		err := ended(ctx)
		failure.Reason = retry.ReasonOf(err)
		failure.Err = fmt.Errorf("%q was killed: %w", in.Argv[0], err)
	case code != 0 && !in.AllowCode.has(code):
		failure.Reason, failure.Status = retry.Unknown, code
		failure.Err = exitError(in.Argv[0], cmd.ProcessState, runtime.Redact(ctx, string(stderr.text())))
	case !utf8.Valid(stdout.text()):
		failure.Err = fmt.Errorf("the output of %q is not UTF-8 text\n  hint: let it print base64", in.Argv[0])
	default:
		return execResult{Code: code, Stdout: string(stdout.text()),
			Stderr: strings.ToValidUTF8(string(stderr.text()), "\uFFFD")}, nil
	}
	return nil, failure
}

// command is the program of a call, checked against what the host allows.
func (opts ExecOptions) command(in execArgs, cwd, key string) (*exec.Cmd, error) {
	if len(in.Argv) == 0 {
		return nil, errors.New("argv is empty")
	}
	base, err := filepath.Abs(cmp.Or(opts.Dir, opts.Working)) // of "": the working folder
	if err != nil {
		return nil, err
	}
	path, err := opts.program(in.Argv[0], base)
	if err != nil {
		return nil, err
	}
	held := opts.Dir != ""
	if cwd != "" {
		if base, err = folderIn(cwd, base, true); err != nil {
			return nil, fmt.Errorf("the agent's folder: %w", err)
		}
		held = true
	}
	dir, err := folderIn(in.Dir, base, held)
	if err != nil {
		return nil, err
	}
	env, err := opts.environ(in.Env, key)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: in.Argv, Dir: dir, Env: env}, nil
}

// program finds the file of an allowed program. The recipe's env and dir have no say in it.
func (opts ExecOptions) program(name, base string) (string, error) {
	const hint = "\n  hint: a host allows one by tools.exec.allow in braise.yaml"
	if len(opts.Allow) == 0 {
		return "", errors.New("no program is allowed here" + hint)
	}
	if !slices.Contains(opts.Allow, name) {
		return "", fmt.Errorf("program %q is not allowed here, only %q are"+hint, name, opts.Allow)
	}
	switch {
	case name == filepath.Base(name):
		return exec.LookPath(name) // refuses what a relative entry of PATH would find
	case filepath.IsAbs(name):
		return name, nil
	}
	return filepath.Join(base, name), nil
}

// folderIn finds a folder by its path, which may be relative to base: if it is held, inside base, links followed.
func folderIn(dir, base string, held bool) (string, error) {
	path := dir
	if !filepath.IsAbs(dir) {
		path = filepath.Join(base, dir)
	}
	if held {
		var err error
		if base, err = filepath.EvalSymlinks(base); err != nil {
			return "", err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
		if rel, err := filepath.Rel(base, path); err != nil || !filepath.IsLocal(rel) {
			return "", fmt.Errorf("dir %q is outside of the folder that the host allows", dir)
		}
	}
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("dir %q is not a folder", dir)
	}
	return path, nil
}

// exitError says how a program failed, with the end of what it printed to stderr, secrets out.
func exitError(name string, state *os.ProcessState, stderr string) error {
	how := fmt.Sprintf("exited with code %d", state.ExitCode())
	if state.ExitCode() < 0 {
		how = "ended by " + state.String() // signal: …
	}
	cut := ""
	if len(stderr) > quotedBytes {
		cut, stderr = "…", stderr[len(stderr)-quotedBytes:]
	}
	if text := oneLine(stderr); text != "" {
		how += ": " + cut + text
	}
	return fmt.Errorf("%q %s", name, how)
}

// pipes are our ends of a running program's stdin, stdout and stderr. exec.Cmd's own would have
// Wait wait for every process that holds them, before we could kill those.
type pipes struct {
	group  *procgroup.Group
	ours   []*os.File
	copied chan struct{} // closed once nothing is left to copy
}

// start starts cmd in a group of its own, with its input and output connected.
func (opts ExecOptions) start(cmd *exec.Cmd, stdin string, stdout, stderr *output) (*pipes, error) {
	p := &pipes{copied: make(chan struct{})}
	var theirs []*os.File
	defer func() { closeAll(theirs) }()
	var copies []func()

	if stdin != "" {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		cmd.Stdin, theirs, p.ours = r, append(theirs, r), append(p.ours, w)
		copies = append(copies, func() {
			_, _ = io.WriteString(w, stdin) // a program need not read its input
			w.Close()
		})
	}
	for _, to := range []*output{stdout, stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(p.ours)
			return nil, err
		}
		if to == stdout {
			cmd.Stdout = w
		} else {
			cmd.Stderr = w
		}
		theirs, p.ours = append(theirs, w), append(p.ours, r)
		copies = append(copies, func() { _, _ = io.Copy(to, r) }) // ends at the end, or when drain closes r
	}
	var err error
	if p.group, err = procgroup.Start(cmd, opts.Guard); err != nil {
		closeAll(p.ours)
		return nil, err
	}

	var wait sync.WaitGroup
	for _, c := range copies {
		wait.Go(c)
	}
	go func() {
		wait.Wait()
		close(p.copied)
	}()
	return p, nil
}

// drain waits until the output of a program that has ended is read. Only a process that left the
// group can still hold the pipes, and it is not waited for.
func (p *pipes) drain() {
	late := time.NewTimer(drainDelay)
	defer late.Stop()
	select {
	case <-p.copied:
	case <-late.C:
	}
	closeAll(p.ours)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// output collects what a program prints, and calls over once it is more than limit bytes.
type output struct {
	limit int
	over  context.CancelCauseFunc

	mu      sync.Mutex // guards the rest: a process that is not waited for may still print
	buf     []byte
	tooMuch bool
}

var errTooMuch = errors.New("too much output")

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf)+len(b) > o.limit {
		o.tooMuch = true
		o.over(errTooMuch)
		return 0, errTooMuch
	}
	o.buf = append(o.buf, b...)
	return len(b), nil
}

func (o *output) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf
}

func (o *output) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tooMuch
}
