package temporal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/internal/value"
)

// parts are values on their way to a run, each in more than one update: the answers to all updates that the server gives to
// one task must fit into one message. A run that continues in another execution leaves them behind, and the clients send
// them again.
type parts []*upload

// upload is what has come of a value.
type upload struct {
	id   string // see said.ID
	text []byte
	last time.Time // when the last part came
}

// of is the upload of a value; nil: nothing of it is here.
func (p parts) of(id string) *upload {
	if i := slices.IndexFunc(p, func(u *upload) bool { return u.id == id }); i >= 0 {
		return p[i]
	}
	return nil
}

// fits reports whether a part which begins at an offset is the first one, or continues what is here.
func (p parts) fits(id string, at int) bool {
	u := p.of(id)
	return at == 0 || u != nil && at == len(u.text)
}

// admits reports whether a part fits, and if it is the first of its value, whether few others are on their way: values that
// push each other out are never whole.
func (p parts) admits(id string, at int, now time.Time) bool {
	if at > 0 || p.of(id) != nil {
		return p.fits(id, at)
	}
	n := 0
	for _, u := range p {
		if u.coming(now) {
			n++
		}
	}
	return n < maxAtOnce
}

// coming reports whether the next part may still come.
func (u *upload) coming(now time.Time) bool { return now.Sub(u.last) < uploadTime }

// add takes a part that fits. The first one replaces what is here. The oldest values make room for it.
func (p *parts) add(id string, at int, text []byte, now time.Time) {
	if at == 0 {
		p.drop(id)
		*p = append(*p, &upload{id: id})
	}
	u := p.of(id)
	u.text, u.last = append(u.text, text...), now
	size := 0
	for _, u := range *p {
		size += len(u.text)
	}
	for size > maxUploads {
		size -= len((*p)[0].text)
		*p = (*p)[1:]
	}
}

func (p *parts) drop(id string) {
	*p = slices.DeleteFunc(*p, func(u *upload) bool { return u.id == id })
}

// whole puts the value of what was said together, if it came in parts. The error has the client send them again.
func (p parts) whole(s *said) error {
	if s.Size == 0 {
		return nil
	}
	u := p.of(s.ID)
	if u == nil || len(u.text) != s.Size {
		return again()
	}
	v, err := value.Decode(u.text)
	s.Value.V = v
	return err
}

// again is the error of an update that the client repeats: the next execution takes it, has to be sent all parts, or other
// values have to come first.
func again() error { return temporal.NewApplicationError("it must be sent again", moved) }

// takeParts lets clients send large values.
func (r *run) takeParts(ctx workflow.Context) error {
	take := func(_ workflow.Context, id string, at int, text []byte) error {
		if !r.parts.fits(id, at) {
			return again()
		}
		r.parts.add(id, at, text, r.now())
		return nil
	}
	check := func(id string, at int, _ []byte) error {
		if !r.parts.admits(id, at, r.now()) {
			return again()
		}
		return nil
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, partUpdate, take, workflow.UpdateHandlerOptions{Validator: check})
}

// uploading reports whether a value is on its way, which another execution would not have. A history that grows large does
// not wait for it.
func (r *run) uploading() bool {
	return workflow.GetInfo(r.free).GetCurrentHistorySize() < maxWaiting && slices.ContainsFunc(r.parts,
		func(u *upload) bool { return u.coming(r.now()) })
}

// upload sends the value of what has an id, part by part. try counts how often.
func (e *Engine) upload(ctx context.Context, run, id string, text []byte, try int) error {
	for at := 0; at < len(text); at += maxSaid {
		part := text[at:min(at+maxSaid, len(text))]
		if err := e.update(ctx, run, partUpdate, fmt.Sprintf("%s-%d-%d", id, try, at), id, at, part); err != nil {
			return err
		}
	}
	return nil
}
