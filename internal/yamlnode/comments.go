package yamlnode

import (
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
)

// commentReader walks the nodes of a document and the text between them side by side. What stands
// between two nodes is punctuation, space and comments, so no "#" in a value is ever mistaken for
// a comment.
type commentReader struct {
	text   string
	cursor cursor
	at     int  // everything before it has been read
	inside bool // the line holds more than space before at
	breaks int  // line breaks since the last thing that is not space
	last   *entry
	wait   []comment // read, but it is not known yet where they belong
}

// comment is a comment on a line of its own; the zero comment is a blank line.
type comment struct {
	text   string
	column int // from 1
}

// readComments returns the document as one entry without a key. Its head is the top of the file.
func readComments(filename, text string, node *Node) *entry {
	r := &commentReader{text: text, cursor: newCursor(filename, []byte(text))}
	root := &entry{}
	root.value = r.value(node, root, 0, false)
	r.gap(len(text), 0)
	r.dropBlank()
	if v := root.value; v.collection && !v.flow {
		root.head, v.entries[0].head = v.entries[0].head, nil
		v.foot = r.place(v)
	} else {
		root.foot = r.take()
	}
	return root
}

// value reads the value n of the entry e. column is that of the collection that e is an entry of,
// from 1; 0 for the document.
func (r *commentReader) value(n *Node, e *entry, column int, inFlow bool) *item {
	v := &item{node: n, collection: n.Kind == List || n.Kind == Map}
	if n.Kind == Null && !n.Plain {
		v.empty, v.column = true, column+1 // comments further in than the key are its own
		return v
	}
	start := r.offset(n.Pos)
	first := r.text[start]
	v.flow = v.collection && (inFlow || first == '[' || first == '{')
	if v.collection && !v.flow {
		v.column = n.Pos.Column
		r.entries(v)
		return v
	}
	r.gap(start, 0)
	e.head = append(e.head, slices.DeleteFunc(r.take(), func(s string) bool { return s == "" })...)
	switch {
	case v.flow:
		r.flowEntries(v, e, first)
	case first == '|' || first == '>':
		r.blockScalar(v, e, column)
	default:
		r.at = scalarEnd(r.text, start, n.Value)
		v.text = r.text[start:r.at]
	}
	r.passed(e)
	return v
}

// entries reads a collection that is not in brackets.
func (r *commentReader) entries(v *item) {
	for _, n := range v.node.Items {
		r.gap(len(r.text), '-')
		e := &entry{head: r.place(v)}
		v.entries = append(v.entries, e)
		r.at++
		r.passed(e)
		e.value = r.value(n, e, v.column, false)
	}
	for _, f := range v.node.Fields {
		r.gap(r.offset(f.Pos), 0)
		e := &entry{head: r.place(v)}
		v.entries = append(v.entries, e)
		r.key(e, f, v.column)
		e.value = r.value(f.Value, e, v.column, false)
	}
}

// flowEntries reads a collection in brackets, or the single field in a list in brackets that needs
// none.
func (r *commentReader) flowEntries(v *item, e *entry, first byte) {
	closing := map[byte]byte{'[': ']', '{': '}'}[first]
	if closing != 0 {
		r.at++
		r.passed(e)
	}
	for _, n := range v.node.Items {
		child := &entry{}
		v.entries = append(v.entries, child)
		child.value = r.value(n, child, 0, true)
	}
	for _, f := range v.node.Fields {
		r.gap(r.offset(f.Pos), 0)
		child := &entry{head: r.take()}
		v.entries = append(v.entries, child)
		r.key(child, f, 0)
		child.value = r.value(f.Value, child, 0, true)
	}
	if closing == 0 {
		return
	}
	r.gap(len(r.text), closing)
	r.dropBlank()
	r.at++
	v.foot = r.take()
	if len(v.entries) == 0 {
		e.line = append(e.line, slices.DeleteFunc(v.foot, func(s string) bool { return s == "" })...)
		v.foot = nil
	}
}

// key reads the key of a field, at which the reader stands; column is that of the mapping.
func (r *commentReader) key(e *entry, f Field, column int) {
	e.name = f.Key
	start := r.at
	if c := r.text[start]; c != '|' && c != '>' {
		r.at = scalarEnd(r.text, start, f.Key)
	} else { // behind a "?"
		lines := blockLines(r.text, start, column)
		r.at++
		r.passed(e)
		r.gap(lineEnd(r.text, start), 0)
		if len(lines) > 0 {
			r.at = lines[len(lines)-1].end
		}
	}
	e.key = r.text[start:r.at]
	r.passed(e)
}

// blockScalar reads a block scalar, at whose "|" or ">" the reader stands.
func (r *commentReader) blockScalar(v *item, e *entry, column int) {
	v.block = r.text[r.at]
	lines := blockLines(r.text, r.at, column)
	used := len(lines)
	for used > 0 && lines[used-1].text == "" {
		used--
	}
	for _, l := range lines[:used] {
		v.lines = append(v.lines, l.text)
	}
	if used == 0 || v.trailingBreaks() > 1 { // the blank lines behind it are part of it
		used = len(lines)
	}
	r.passed(e)
	r.gap(lineEnd(r.text, r.at), 0) // a comment behind the "|"
	if used > 0 {
		r.at = lines[used-1].end
	}
}

// gap reads what stands between two values, up to an offset or to the first punctuation mark
// until, which 0 is not.
func (r *commentReader) gap(to int, until byte) {
	for ; r.at < to; r.at++ {
		c := r.text[r.at]
		switch {
		case c == '\n':
			r.inside = false
			r.breaks++
		case c == ' ' || c == '\t':
		case c == '#':
			r.comment()
		case r.last == nil && !r.inside && strings.HasPrefix(r.text[r.at:], "---"):
			r.at += len("---") - 1
			r.inside, r.breaks = true, 0
		case c == until:
			r.blank()
			return
		default:
			r.inside, r.breaks = true, 0
		}
	}
	r.blank()
}

// passed notes that a part of e has been read.
func (r *commentReader) passed(e *entry) {
	r.last, r.inside, r.breaks = e, true, 0
}

// comment reads a comment and stops at its last character.
func (r *commentReader) comment() {
	end := lineEnd(r.text, r.at)
	text := strings.TrimRight(r.text[r.at:end], " \t")
	if r.inside && r.last != nil {
		r.last.line = append(r.last.line, text)
	} else {
		r.blank()
		column := r.at - strings.LastIndexByte(r.text[:r.at], '\n')
		r.wait = append(r.wait, comment{text, column})
	}
	r.at, r.breaks = end-1, 0
}

// blank notes a blank line, if there is one before the place that the reader has reached.
func (r *commentReader) blank() {
	if r.breaks > 1 {
		r.wait = append(r.wait, comment{})
		r.breaks = 1
	}
}

// dropBlank forgets a blank line that was read last.
func (r *commentReader) dropBlank() {
	if last := len(r.wait) - 1; last >= 0 && r.wait[last].text == "" {
		r.wait = r.wait[:last]
	}
}

// take returns the comments that wait for a place.
func (r *commentReader) take() []string {
	var lines []string
	for _, c := range r.wait {
		lines = append(lines, c.text)
	}
	r.wait = nil
	return lines
}

// place finds a place for the comments before the next entry of v, or behind its last one:
//
//  1. Those that stand further in than v's entries end a collection inside the previous entry.
//  2. Those between the previous entry and a blank line are about the previous entry.
//  3. The rest, which it returns, is about the next entry.
func (r *commentReader) place(v *item) []string {
	if len(v.entries) == 0 {
		return r.take()
	}
	prev := v.entries[len(v.entries)-1]
	var open []*item // the collections that end here, from the outside in
	for in := prev.value; in.empty || in.collection && !in.flow; in = in.entries[len(in.entries)-1].value {
		open = append(open, in)
		if in.empty {
			break
		}
	}
	done := 0
	for i, c := range r.wait {
		if c.text == "" {
			continue
		}
		for len(open) > 0 && (open[len(open)-1].column > c.column || c.column <= v.column) {
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			break
		}
		in := open[len(open)-1]
		for _, c := range r.wait[done : i+1] {
			in.foot = append(in.foot, c.text)
		}
		done = i + 1
	}
	r.wait = r.wait[done:]
	rest := r.take()
	if i := slices.Index(rest, ""); done == 0 && i > 0 {
		prev.foot, rest = rest[:i], rest[i:]
	}
	return rest
}

// offset returns where in the text a node begins. Positions must not go backwards.
func (r *commentReader) offset(pos diagnostics.Position) int {
	c := &r.cursor
	for c.at < len(c.text) && (c.lines < pos.Line || c.lines == pos.Line && c.chars < pos.Column) {
		c.step()
	}
	return c.at
}

// lineEnd returns the offset of the line break behind at, or of the end of the text.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}

// scalarEnd returns the end of the scalar that begins at start and is no block scalar. value is
// what it says; it is looked at for plain strings only.
func scalarEnd(text string, start int, value any) int {
	at := start + 1
	switch text[start] {
	case '"':
		for text[at] != '"' {
			if text[at] == '\\' {
				at++
			}
			at++
		}
		return at + 1
	case '\'':
		for text[at] != '\'' || strings.HasPrefix(text[at+1:], "'") {
			if text[at] == '\'' {
				at++
			}
			at++
		}
		return at + 1
	}
	if s, ok := value.(string); ok {
		return plainEnd(text, start, s)
	}
	if i := strings.IndexAny(text[start:], " \t\n,]}#"); i >= 0 {
		return start + i
	}
	return len(text)
}

// plainEnd finds the end of a plain string by what it says: a line break stands for a space, n+1
// of them for n line breaks.
func plainEnd(text string, at int, value string) int {
	for value != "" {
		rest := strings.TrimLeft(text[at:], " \t\n")
		space := text[at : len(text)-len(rest)]
		if breaks := strings.Count(space, "\n"); breaks > 0 {
			at += len(space)
			value = value[max(1, breaks-1):]
			continue
		}
		at++
		value = value[1:]
	}
	return at
}

// blockLine is a line of a block scalar without its indentation, and where it ends.
type blockLine struct {
	text string
	end  int
}

// blockLines reads the lines of the block scalar whose "|" or ">" stands at start, inside a
// collection at column (from 1; 0 for none). Lines of spaces only at the end are included.
func blockLines(text string, start, column int) []blockLine {
	end := lineEnd(text, start)
	header, _, _ := strings.Cut(text[start:end], "#")
	var lines []blockLine
	indent := 0
	if i := strings.IndexAny(header, "123456789"); i >= 0 {
		indent = max(column-1, 0) + int(header[i]-'0')
	} else { // that of the first line with text, or of a longer line of spaces before it
		for at := end + 1; at < len(text); {
			stop := lineEnd(text, at)
			line := text[at:stop]
			spaces := len(line) - len(strings.TrimLeft(line, " "))
			indent = max(indent, spaces)
			if spaces < len(line) {
				break
			}
			at = stop + 1
		}
		indent = max(indent, column, 1)
	}
	for at := end + 1; at <= len(text); {
		stop := lineEnd(text, at)
		line := text[at:stop]
		spaces := len(line) - len(strings.TrimLeft(line, " "))
		if spaces < indent && spaces < len(line) {
			break
		}
		lines = append(lines, blockLine{line[min(spaces, indent):], stop})
		at = stop + 1
	}
	return lines
}
