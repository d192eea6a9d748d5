package yamlnode

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxColumns is how long a line may be for the sake of a collection in brackets.
const maxColumns = 80

// maxSimpleKey is how many characters a key may have that has no "?" before it (YAML 1.2.2, section 7.4.2).
const maxSimpleKey = 1024

// printer writes entries in the canonical layout.
type printer struct {
	strings.Builder
	begun bool // the line is begun: "- " was written and its value comes next
	kept  bool // the last thing written is blank lines that are part of a value
}

func (p *printer) document(root *entry) {
	p.comments(trimBlank(root.head), 0)
	v := root.value
	if text, ok := v.oneLine(maxColumns); ok {
		p.WriteString(text)
		p.endLine(root.line)
	} else {
		p.comments(root.line, 0)
		p.entries(v, 0)
	}
	p.comments(root.foot, 0)
}

// entries writes a collection without brackets.
func (p *printer) entries(v *item, indent int) {
	for i, e := range v.entries {
		head := lead(e, indent)
		if i == 0 {
			head = trimBlank(head)
		} else if prev := v.entries[i-1]; v.spaced(prev, e) || len(prev.foot) > 0 {
			p.blank()
		}
		p.comments(head, indent)
		p.entry(e, indent)
		p.comments(e.foot, indent)
	}
	p.comments(v.foot, indent)
}

// lead returns the comments that go on lines of their own before e. An item of a list that is a
// collection begins on the line of its dash, so comments from there move before it.
func lead(e *entry, indent int) []string {
	head := e.head
	if v := e.value; e.key == "" && v.collection {
		if _, ok := v.oneLine(maxColumns - indent - 2); !ok {
			first := v.entries[0]
			head = append(append(head, e.line...), trimBlank(lead(first, indent+2))...)
			e.line, first.head = nil, nil
		}
	}
	if len(e.line) > 1 {
		head, e.line = append(head, e.line[1:]...), e.line[:1]
	}
	e.head = nil
	return head
}

func (p *printer) entry(e *entry, indent int) {
	p.indent(indent)
	label := "-"
	if e.key != "" {
		label = keyText(e.key, e.name, false) + ":"
		if utf8.RuneCountInString(label) > maxSimpleKey+1 {
			p.WriteString("? " + strings.TrimSuffix(label, ":") + "\n")
			p.indent(indent)
			label = ":"
		}
	}
	p.WriteString(label)
	v := e.value
	if v.empty {
		p.endLine(e.line)
		p.comments(v.foot, indent+2)
		return
	}
	text, ok := v.oneLine(maxColumns - indent - utf8.RuneCountInString(label) - 1)
	switch {
	case ok:
		p.WriteString(" " + text)
		p.endLine(e.line)
	case !v.collection:
		p.WriteString(" ")
		p.scalar(v, e.line, indent+2)
	case e.key == "":
		p.WriteString(" ")
		p.begun = true
		p.entries(v, indent+2)
	default:
		p.endLine(e.line)
		p.entries(v, indent+2)
	}
}

// scalar writes a scalar of several lines; indent is that of its second line.
func (p *printer) scalar(v *item, line []string, indent int) {
	if v.block == 0 {
		for i, l := range strings.Split(v.text, "\n") {
			if i > 0 {
				p.WriteString("\n")
				l = strings.TrimLeft(l, " \t")
			}
			trimmed := strings.TrimRight(l, " \t")
			if strings.HasSuffix(trimmed, `\`) && trimmed != l {
				trimmed = l[:len(trimmed)+1] // an escaped space
			}
			if i > 0 && trimmed != "" {
				p.indent(indent)
			}
			p.WriteString(trimmed)
		}
		p.endLine(line)
		return
	}
	p.WriteByte(v.block)
	first := strings.Join(v.lines, "\n")
	if first = strings.TrimLeft(first, "\n"); first[0] == ' ' || first[0] == '\t' {
		p.WriteString("2")
	}
	breaks := v.trailingBreaks()
	switch breaks {
	case 0:
		p.WriteString("-")
	case 1:
	default:
		p.WriteString("+")
	}
	p.endLine(line)
	for _, l := range v.lines {
		if l != "" {
			p.indent(indent)
		}
		p.WriteString(l + "\n")
	}
	if breaks > 1 {
		p.WriteString(strings.Repeat("\n", breaks-1))
		p.kept = true
	}
}

func trimBlank(lines []string) []string {
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	return lines
}

// comments writes comments on lines of their own, and the blank lines between and before them.
func (p *printer) comments(lines []string, indent int) {
	blank := false
	for _, l := range lines {
		if l == "" {
			blank = true
			continue
		}
		if blank {
			p.blank()
		}
		p.indent(indent)
		p.WriteString(l + "\n")
		blank = false
	}
	if blank {
		p.blank()
	}
}

// blank writes a blank line, unless that would become part of the value before it.
func (p *printer) blank() {
	if s := p.String(); !p.kept && s != "" && !strings.HasSuffix(s, "\n\n") {
		p.WriteString("\n")
	}
}

func (p *printer) indent(n int) {
	if !p.begun {
		p.WriteString(strings.Repeat(" ", n))
	}
	p.begun, p.kept = false, false
}

// endLine ends the line, with at most one comment on it.
func (p *printer) endLine(comments []string) {
	if len(comments) > 0 {
		p.WriteString(" " + strings.Join(comments, " "))
	}
	p.WriteString("\n")
}

// oneLine returns v as it is written behind its key; false when it needs lines of its own. room
// is for collections; scalars and empty collections are not broken for want of it.
func (v *item) oneLine(room int) (string, bool) {
	switch {
	case v.empty:
		return "", true
	case v.block != 0:
		if len(v.lines) == 0 { // nothing but line breaks
			return quote(v.node.Value.(string)), true
		}
		return "", false
	case !v.collection:
		text := v.scalarText(false)
		return text, !strings.Contains(text, "\n")
	case !v.flow || v.commented:
		return "", false
	}
	text, ok := v.flowText(room)
	return text, ok && (len(v.entries) == 0 || utf8.RuneCountInString(text) <= room)
}

// flowText writes a collection in brackets; false once it is longer than room.
func (v *item) flowText(room int) (string, bool) {
	if !v.collection {
		text := v.scalarText(true)
		return text, !strings.Contains(text, "\n")
	}
	var b strings.Builder
	brackets := "[]"
	if v.node.Kind == Map {
		brackets = "{}"
	}
	b.WriteByte(brackets[0])
	for i, e := range v.entries {
		if i > 0 {
			b.WriteString(", ")
		}
		if e.key != "" {
			b.WriteString(keyText(e.key, e.name, true))
			if e.value.empty {
				continue
			}
			b.WriteString(": ")
		}
		text, ok := e.value.flowText(room - b.Len()/utf8.UTFMax)
		b.WriteString(text)
		if !ok || b.Len() > utf8.UTFMax*(room+1) {
			return "", false
		}
	}
	b.WriteByte(brackets[1])
	return b.String(), true
}

func (v *item) scalarText(inFlow bool) string {
	if s, ok := v.node.Value.(string); ok {
		return scalarText(v.text, s, inFlow)
	}
	return v.text
}

// keyText is like scalarText, for keys: these stand on one line.
func keyText(text, value string, inFlow bool) string {
	if keyMark.MatchString(text) {
		text = quote(value)
	}
	return scalarText(text, value, inFlow)
}

// scalarText returns a string as it is written: plain stays plain, quotes that do nothing go, and
// those that do are double where no escape is needed for that.
func scalarText(text, value string, inFlow bool) string {
	if text[0] != '"' && text[0] != '\'' {
		if !inFlow && (strings.HasSuffix(text, ":") || text == "-" || text == "?") { // in brackets it meant nothing
			return quote(value)
		}
		return text
	}
	asItReads := text[1:len(text)-1] == value || text[0] == '\'' && !strings.Contains(text, "\n")
	if asItReads && plainIsSafe(value, inFlow) {
		return value
	}
	if text[0] == '\'' && asItReads && !strings.ContainsAny(value, "\"\\") {
		return `"` + value + `"`
	}
	return text
}

var (
	// legacy matches what other readers of YAML take for a boolean, a number or a date.
	legacy = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|[.+0-9][-+.:_0-9a-fotxz]*)$`)
	// indicator matches what cannot begin or be part of a plain string, or more than that if unsure.
	indicator = regexp.MustCompile("^\\.\\.\\.|^[-?:,\\[\\]{}#&*!|>'\"%@`=<\\s]|[:\\s]$|:\\s|\\s#|[\\t\\n\uFEFF]")
	// keyMark matches what a key can be only behind a "?".
	keyMark       = regexp.MustCompile(`^(---|\.\.\.|[|>\x{FEFF}])|\n`)
	flowIndicator = regexp.MustCompile(`[,\[\]{}:?]`)
)

// plainIsSafe reports whether value is read as the same string without quotes.
func plainIsSafe(value string, inFlow bool) bool {
	kind, _ := resolve(value)
	return kind == String && !legacy.MatchString(value) && !indicator.MatchString(value) &&
		!(inFlow && flowIndicator.MatchString(value))
}

// quote returns value in double quotes. The escapes of JSON are YAML's too.
func quote(value string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
