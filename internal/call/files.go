package call

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// look reads the local files of a request, and tells what is in them.
func (a *attempt) look() engine.Result {
	_, files, err := a.readFiles()
	return engine.Result{Files: files, Err: a.shown(err)}
}

// withFiles is the request of the call with its local files, in which must be what was in them before.
func (a *attempt) withFiles() (*runtime.Request, error) {
	if a.call.Files == nil {
		return a.call.Request, nil
	}
	req, files, err := a.readFiles()
	for _, f := range files {
		same := func(was journal.File) bool { return was.Path == f.Path && was.SHA256 == f.SHA256 }
		if err == nil && !slices.ContainsFunc(a.call.Files, same) {
			err = program.ConfigError("file.changed", "%s: the file %q has changed since the step began"+
				"\n  hint: put back what was in it, or begin a new run", a.call.Pos, f.Path)
		}
	}
	return req, a.shown(err)
}

// readFiles returns a copy of the request of the call with its local files as data URLs, and what is in each of them.
func (a *attempt) readFiles() (*runtime.Request, []journal.File, error) {
	if a.rt.Files == nil {
		return nil, nil, program.ConfigError(diagnostics.CodeNoFiles, "%s: no files may be read here\n  hint: %s",
			a.call.Pos, filesHint)
	}
	kind := a.call.Kind
	if a.call.Job != nil {
		kind = program.AgentCall
	}
	req, left := *a.call.Request, int64(runtime.MaxFileBytes)
	req.Messages = slices.Clone(req.Messages)
	var files []journal.File
	for i := range req.Messages {
		m := &req.Messages[i]
		m.Files = slices.Clone(m.Files)
		for k := range m.Files {
			f := &m.Files[k]
			if !value.IsPath(f.URL) {
				continue
			}
			name := f.URL
			data, err := a.rt.Files.Read(a.ctx, name, left)
			if err == nil && len(data) == 0 {
				err = errors.New("it is empty")
			}
			if err != nil {
				return nil, nil, program.ConfigError("file.unreadable", "%s: %s shows the file %q: %w",
					a.call.Pos, kind.Step(), name, err)
			}
			left -= int64(len(data))
			f.MediaType = value.ContentType(name, data)
			f.URL = "data:" + f.MediaType + ";base64," + base64.StdEncoding.EncodeToString(data)
			files = append(files, journal.File{Path: name, SHA256: fmt.Sprintf("%x", sha256.Sum256(data)),
				MediaType: f.MediaType, Bytes: int64(len(data))})
		}
	}
	return &req, files, nil
}
