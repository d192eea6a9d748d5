package checkpoint

import (
	"context"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// Sampler is an optional interface of a Store that can tell a little of very many runs in less time than List takes.
type Sampler interface {
	// Sample calls use for each run that was started at from or later, and before to, in no order; zero: any time.
	// The Summary has the Recipe, Queue, Labels, StartedAt, EndedAt, Status, Usage and Models of the run, and if it is
	// running by its status Held; the rest may be missing. It is another run's once use returns. Runs that cannot be
	// read are left out, and the error joins what is wrong with them.
	Sample(ctx context.Context, from, to time.Time, use func(*Summary)) error
}

// Figures is what Sample tells of a run beside its Recipe, Queue and StartedAt, as a text that is shorter than a
// summary and quicker to read. It has no NUL.
//
//	error 1500000000 2,900,300,0,80,0,1200 @fast=2,900,300,0,80,0,1200 team=a%26b
//
// It is made of the status, how long the run took in nanoseconds, its usage, that of each model, and the labels.
func (s *Summary) Figures() string {
	text := []byte(s.Status)
	text = append(text, ' ')
	if !s.EndedAt.IsZero() {
		text = strconv.AppendInt(text, int64(s.EndedAt.Sub(s.StartedAt)), 10)
	}
	text = s.Usage.append(append(text, ' '))
	for _, name := range value.SortedKeys(s.Models) {
		text = append(append(text, " @"...), url.QueryEscape(name)...)
		text = s.Models[name].append(append(text, '='))
	}
	for _, key := range value.SortedKeys(s.Labels) {
		text = append(append(text, ' '), url.QueryEscape(key)...)
		text = append(append(text, '='), url.QueryEscape(s.Labels[key])...)
	}
	return string(text)
}

// SetFigures sets what a text of Figures tells; StartedAt is set already. It reports whether the text is one, of a run
// with this status.
func (s *Summary) SetFigures(status Status, text string) bool {
	text, ok := strings.CutPrefix(text, string(status)+" ")
	took, text, more := strings.Cut(text, " ")
	if !ok || !more {
		return false
	}
	s.EndedAt = time.Time{}
	clear(s.Models)
	clear(s.Labels)
	if s.Status = status; took != "" {
		n, err := strconv.ParseInt(took, 10, 64)
		if err != nil {
			return false
		}
		s.EndedAt = s.StartedAt.Add(time.Duration(n))
	}
	usage, text, more := strings.Cut(text, " ")
	if s.Usage, ok = parseUsage(usage); !ok {
		return false
	}
	for part := ""; more; {
		part, text, more = strings.Cut(text, " ")
		if !s.setFigure(part) {
			return false
		}
	}
	return true
}

// setFigure sets the usage of a model, or a label.
func (s *Summary) setFigure(part string) bool {
	name, text, ok := strings.Cut(part, "=")
	name, model := strings.CutPrefix(name, "@")
	name, err := url.QueryUnescape(name)
	if err != nil || !ok {
		return false
	}
	if model {
		if s.Models == nil {
			s.Models = map[string]Usage{}
		}
		s.Models[name], ok = parseUsage(text)
		return ok
	}
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Labels[name], err = url.QueryUnescape(text)
	return err == nil
}

// numbers are the figures of a usage, in the order in which texts have them.
func (u *Usage) numbers() [7]*int64 {
	return [7]*int64{&u.Calls, &u.InputTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.OutputTokens,
		&u.ReasoningTokens, &u.Micros}
}

// append appends the figures, with commas between; nothing when there are none.
func (u Usage) append(text []byte) []byte {
	if u == (Usage{}) {
		return text
	}
	for i, n := range u.numbers() {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, *n, 10)
	}
	return text
}

// parseUsage reads what append wrote.
func parseUsage(text string) (u Usage, ok bool) {
	if text == "" {
		return u, true
	}
	var err error
	more := true
	for _, n := range u.numbers() {
		var one string
		one, text, more = strings.Cut(text, ",")
		if *n, err = strconv.ParseInt(one, 10, 64); err != nil {
			return u, false
		}
	}
	return u, !more
}

// Add adds what other calls used, up to the largest number.
func (u *Usage) Add(other Usage) {
	sums := u.numbers()
	for i, n := range other.numbers() {
		if *sums[i] += *n; *sums[i] < *n && *n > 0 {
			*sums[i] = math.MaxInt64
		}
	}
}
