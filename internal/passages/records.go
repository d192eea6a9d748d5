package passages

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// maxMetadata is the most bytes of a field that is metadata of its record, too.
const maxMetadata = 200

// record makes passages of one record: a row, or an item of a list. The fields that are short are metadata.
type record struct {
	text  strings.Builder
	about map[string]any
}

func (r *record) field(name string, v any) {
	text, err := value.Text(v)
	if err != nil || text == "" {
		return
	}
	fmt.Fprintf(&r.text, "%s: %s\n", name, text)
	if len(text) <= maxMetadata {
		r.about[name] = v
	}
}

func (r *record) passages(o Options) []Passage {
	list := cut(r.text.String(), false, o.MaxBytes)
	for i := range list {
		list[i].First, list[i].Last, list[i].Metadata = 0, 0, r.about
	}
	return list
}

// ofCSV makes a record of each row. The first row has the names of the fields.
func ofCSV(text string, tabs bool, o Options) (list []Passage, err error) {
	rows := csv.NewReader(strings.NewReader(text))
	rows.FieldsPerRecord, rows.LazyQuotes = -1, true
	if tabs {
		rows.Comma = '\t'
	}
	var names []string
	for {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("it is not CSV: %w", err)
		case names == nil:
			names = row
			continue
		}
		line, _ := rows.FieldPos(0)
		r := record{about: map[string]any{"line": int64(line)}}
		for i, field := range row {
			name := fmt.Sprintf("column %d", i+1)
			if i < len(names) && strings.TrimSpace(names[i]) != "" {
				name = strings.TrimSpace(names[i])
			}
			r.field(name, strings.TrimSpace(field))
		}
		list = append(list, r.passages(o)...)
	}
}

// ofJSON makes a record of each item of a list, of each of several values behind each other, or of the one value.
func ofJSON(text string, o Options) (list []Passage, err error) {
	in := json.NewDecoder(strings.NewReader(text))
	for {
		var raw json.RawMessage
		if err := in.Decode(&raw); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		v, err := value.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		items, many := v.([]any)
		if !many {
			items = []any{v}
		}
		for _, item := range items {
			r := record{about: map[string]any{}}
			if text, ok := item.(string); ok {
				r.text.WriteString(text)
			} else {
				r.members("", item)
			}
			list = append(list, r.passages(o)...)
		}
	}
}

// members adds the fields of a value, by their paths. A member "text" of the record itself has no name: it is what the
// record is about.
func (r *record) members(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["text"].(string); ok && path == "" {
			r.text.WriteString(text + "\n\n")
		}
		for _, name := range value.SortedKeys(v) {
			if _, text := v[name].(string); path == "" && name == "text" && text {
				continue
			}
			below := name
			if path != "" {
				below = path + "." + name
			}
			r.members(below, v[name])
		}
	case []any:
		words := make([]string, 0, len(v))
		for _, item := range v {
			text, err := value.Text(item)
			if err != nil {
				continue
			}
			words = append(words, text)
		}
		joined := strings.Join(words, ", ")
		fmt.Fprintf(&r.text, "%s: %s\n", path, joined)
		if len(joined) <= maxMetadata {
			r.about[path] = v
		}
	case nil:
	default:
		r.field(path, v)
	}
}
