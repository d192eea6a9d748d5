package engine

import (
	"slices"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// A call of a model with local files, or of an agent that is given some, first looks at them, and records what is in
// them. Then each attempt of the call, or of the agent to ask its model, in whatever process, reads them again and must
// find the same.

// shown has all files that a call of a step shows a model; nil: it shows none.
func (p *pending) shown() *runtime.Request {
	if p.Kind != program.AgentCall {
		return p.Request
	}
	t := &p.agent.terms
	return &runtime.Request{Messages: append(asMessages(t.Before), runtime.Message{Files: t.Files})}
}

// showsLocal reports whether local files, or those that tools returned, go with a request.
func showsLocal(req *runtime.Request) bool {
	return req != nil && slices.ContainsFunc(req.Messages, func(m runtime.Message) bool {
		return slices.ContainsFunc(m.Files, func(f runtime.File) bool { return f.SHA256 != "" || value.IsPath(f.URL) })
	})
}

// knowsFiles reports whether it is known what is in the files of a call, and tells the call.
func (w *waits) knowsFiles(p *pending) bool {
	files, ok := w.files[p.task]
	p.Files = files
	return ok
}

// keepFiles notes what is in the files of a call that has not ended.
func (w *waits) keepFiles(t *machine.Task, files []journal.File) {
	if w.files == nil {
		w.files = map[*machine.Task][]journal.File{}
	}
	w.files[t] = files
}

// looked handles the result of a call that has looked at its files: now it is made.
func (p *pending) looked(r *Run, res *Result) {
	err := res.Err
	if r.ending.cutOff(p) {
		err = r.ending.errOf(p)
	}
	if err != nil {
		if p.Kind == program.AgentCall {
			p.agent.call = nil
		}
		p.fail(r, nil, err)
		return
	}
	p.leave(r)
	next := *p.Call
	p.Call, p.tries = &next, 0
	if p.Looks, p.Files = false, res.Files; p.Kind == program.AgentCall {
		p.Request = nil
	}
	r.record(p.task, p.Path, journal.CallFiles{Files: res.Files})
	if !r.unsaved.durable {
		p.launch(r)
		return
	}
	p.stage = blocked
	r.calls.blocked = append(r.calls.blocked, p)
}
