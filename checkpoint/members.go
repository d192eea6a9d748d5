package checkpoint

import (
	"cmp"
	"fmt"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// members are the data of a record; err is the first thing that was wrong with what was asked for.
type members struct {
	m   map[string]any
	err error
}

func decodeData(rec Record) (*members, error) {
	if rec.Data == nil {
		return &members{}, nil
	}
	v, err := value.DecodeStrict(rec.Data)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("data is %s, not an object", value.TypeName(v))
	}
	return &members{m: m}, nil
}

func (d *members) optional(name string) string {
	v, ok := d.m[name]
	s, isText := v.(string)
	if ok && !isText && d.err == nil {
		d.err = fmt.Errorf("%s is %s, not a string", name, value.TypeName(v))
	}
	return s
}

// texts returns an object of strings; nil: there is none.
func (d *members) texts(name string) map[string]string {
	v, given := d.m[name]
	m, ok := v.(map[string]any)
	if given && !ok && d.err == nil {
		d.err = fmt.Errorf("%s is %s, not an object", name, value.TypeName(v))
	}
	if len(m) == 0 {
		return nil
	}
	texts, inner := make(map[string]string, len(m)), &members{m: m}
	for key := range m {
		texts[key] = inner.optional(key)
	}
	d.err = cmp.Or(d.err, inner.err)
	return texts
}

// usage sets what the run used of models, if the record tells it.
func (d *members) usage(s *Summary) {
	m, ok := d.m["usage"].(map[string]any)
	if !ok {
		return
	}
	s.Usage, s.Models = usageIn(m), nil
	models, _ := d.m["models"].(map[string]any)
	for name, v := range models {
		if m, ok := v.(map[string]any); ok {
			if s.Models == nil {
				s.Models = make(map[string]Usage, len(models))
			}
			s.Models[name] = usageIn(m)
		}
	}
}

func usageIn(m map[string]any) Usage {
	number := func(name string) int64 { n, _ := m[name].(int64); return n }
	return Usage{Calls: number("calls"), InputTokens: number("inputTokens"), CachedTokens: number("cachedTokens"),
		CacheWriteTokens: number("cacheWriteTokens"), OutputTokens: number("outputTokens"),
		ReasoningTokens: number("reasoningTokens"), Micros: number("micros")}
}

func (d *members) text(name string) string {
	s := d.optional(name)
	if s == "" && d.err == nil {
		d.err = fmt.Errorf("no %s", name)
	}
	return s
}

func (d *members) time(name string, needed bool) time.Time {
	s := d.optional(name)
	if s == "" && !needed {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%s: %w", name, err)
	}
	return t.UTC()
}
