package call

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// look reads the local files of a request, keeps what is in them, and tells what that is.
func (a *attempt) look() engine.Result {
	_, found, err := a.readFiles()
	return engine.Result{Files: found, Err: a.shown(err)}
}

// withFiles is the request of the call with its local files: what was in them when the call, or its agent, began.
func (a *attempt) withFiles() (*runtime.Request, error) {
	if a.call.Files == nil {
		return a.call.Request, nil
	}
	req, _, err := a.readFiles()
	if about, ok := a.Caller.Model(a.call.Request.Model); ok && err == nil {
		if name := req.Refused(about.Options); name != "" {
			err = program.ConfigError(diagnostics.CodeModelOption, "%s: model %q does not take %s",
				a.call.Pos, req.Model, name)
		}
	}
	return req, a.shown(err)
}

// readFiles returns a copy of the request of the call with its local files as data URLs, and what is in each of them.
func (a *attempt) readFiles() (*runtime.Request, []journal.File, error) {
	req, left := *a.call.Request, int64(runtime.MaxFilesBytes)
	req.Messages = slices.Clone(req.Messages)
	var found []journal.File
	for i := range req.Messages {
		m := &req.Messages[i]
		m.Files = slices.Clone(m.Files)
		for k := range m.Files {
			f := &m.Files[k]
			if f.SHA256 != "" {
				if err := a.returned(f); err != nil {
					return nil, nil, err
				}
				continue
			}
			if !value.IsPath(f.URL) {
				continue
			}
			data, what, err := a.localFile(f.URL)
			if left -= what.Bytes; err == nil && left < 0 {
				err = program.ConfigError("file.unreadable", "%s: with the file %q, the files of the call have more "+
					"than %d bytes together", a.call.Pos, f.URL, runtime.MaxFilesBytes)
			}
			if err != nil {
				return nil, nil, err
			}
			*f = inBase64(what.MediaType, data)
			found = append(found, what)
		}
	}
	return &req, found, nil
}

// localFile returns a local file of the call: what was in it before, or, if the call looks at its files, what is.
func (a *attempt) localFile(name string) ([]byte, journal.File, error) {
	i := slices.IndexFunc(a.call.Files, func(was journal.File) bool { return was.Path == name })
	if i < 0 {
		data, err := a.readFile(name, "")
		if err != nil {
			return nil, journal.File{}, err
		}
		what := journal.File{Path: name, Bytes: int64(len(data))}
		if what.MediaType, err = value.ContentType(name, data); err != nil {
			return nil, what, program.ConfigError("file.type", "%s: %s shows the file %q: %w",
				a.call.Pos, a.asker(), name, err)
		}
		what.SHA256, err = a.Content.put(a.ctx, data, strings.HasPrefix(what.MediaType, "text/") && a.holdsSecret(data))
		return data, what, err
	}
	was := a.call.Files[i]
	data, err := a.Content.get(a.ctx, was.SHA256)
	switch {
	case errors.Is(err, checkpoint.ErrCorrupt):
		return nil, was, program.ConfigError("file.changed", "%s: what the store has of the file %q is damaged"+
			"\n  hint: begin a new run, or a fork at this step", a.call.Pos, name)
	case data != nil || err != nil:
		return data, was, err
	}
	// It is not kept: the run began in an earlier version, or there is no store.
	const unkept = "\n  hint: the store does not have what was in it when the step began"
	if data, err = a.readFile(name, unkept); err == nil && files.Sum(data) != was.SHA256 {
		err = program.ConfigError("file.changed", "%s: the file %q has changed since the step began"+
			"\n  hint: put back what was in it, or begin a new run", a.call.Pos, name)
	}
	return data, was, err
}

// holdsSecret reports whether there is a secret of the run in a text, which no store gets.
func (a *attempt) holdsSecret(text []byte) bool {
	return a.Redact != nil && a.Redact.Text(string(text)) != string(text)
}

// readFile reads a file below the base folder of the host. hint is a line for the error if it cannot be read.
func (a *attempt) readFile(name, hint string) ([]byte, error) {
	if a.rt.Files == nil {
		return nil, program.ConfigError(diagnostics.CodeNoFiles, "%s: no files may be read here\n  hint: %s",
			a.call.Pos, filesHint)
	}
	data, err := a.rt.Files.Read(a.ctx, name, runtime.MaxFileBytes)
	if err == nil && len(data) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		err = program.ConfigError("file.unreadable", "%s: %s shows the file %q: %w%s",
			a.call.Pos, a.asker(), name, err, hint)
	}
	return data, err
}

// asker is what makes the call, for messages.
func (a *attempt) asker() string {
	if a.call.Job != nil {
		return program.AgentCall.Step()
	}
	return a.call.Kind.Step()
}

func inBase64(media string, data []byte) runtime.File {
	return runtime.File{URL: "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(data), MediaType: media}
}

// returned puts into a file that a tool returned what is in it.
func (a *attempt) returned(f *runtime.File) error {
	data, err := a.Content.get(a.ctx, f.SHA256)
	if errors.Is(err, checkpoint.ErrCorrupt) || err == nil && data == nil {
		err = program.ConfigError("file.gone", "%s: the store no longer has the file %q that a tool returned, with "+
			"the SHA-256 %s\n  hint: begin a new run, or a fork at this step", a.call.Pos, f.URL, f.SHA256)
	}
	if err == nil {
		*f = inBase64(f.MediaType, data)
	}
	return err
}

// pictures are the types that models take, by the ends of their names.
var pictures = map[string]string{"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}

// keepPictures keeps the pictures in the result of a tool that an agent calls. What is none, or cannot be kept, is left
// to the text in its place.
func (a *attempt) keepPictures(res *engine.Result) {
	v := res.Output
	if res.Text != nil && bytes.Contains(res.Text, []byte(`"type":`)) {
		v, _ = value.Decode(res.Text)
	}
	for i, text := range agents.Pictures(v) {
		data, err := base64.StdEncoding.DecodeString(text)
		media := value.Sniff(data)
		ending, known := pictures[media]
		if err != nil || !known {
			continue
		}
		sum, err := a.Content.put(a.ctx, data, false)
		if err == nil {
			res.Pictures = append(res.Pictures, runtime.File{URL: fmt.Sprintf("%s-%d.%s", a.call.Name, i+1, ending),
				MediaType: media, SHA256: sum, Bytes: int64(len(data))})
		}
	}
}
