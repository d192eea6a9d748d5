package yamlnode

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// documents reads the documents of a text with yaml.v3, which follows YAML 1.1 in one point that matters: in a flow
// mapping a question mark ends a plain scalar. So those that cannot begin an explicit key are read as another
// character that the text does not contain.
type documents struct {
	*yaml.Decoder
	sign string // in place of question marks; "": none was replaced
}

func newDocuments(text []byte) *documents {
	text, sign := hideQuestionMarks(text)
	return &documents{yaml.NewDecoder(bytes.NewReader(text)), sign}
}

// next reads one document. yaml.v3 has been seen to panic on broken text; that is an error like any other.
func (d *documents) next() (document *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			document, err = nil, fmt.Errorf("yaml: not readable (%v)", p)
		}
	}()
	document = new(yaml.Node)
	switch err := d.Decode(document); {
	case err == io.EOF || err != nil && d.sign == "":
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s", d.shown(err.Error()))
	}
	if d.sign != "" {
		d.show(document)
	}
	return document, nil
}

func (d *documents) shown(text string) string { return strings.ReplaceAll(text, d.sign, "?") }

// show puts the question marks back.
func (d *documents) show(y *yaml.Node) {
	y.Value, y.Tag, y.Anchor = d.shown(y.Value), d.shown(y.Tag), d.shown(y.Anchor)
	for _, part := range y.Content {
		d.show(part)
	}
}

// hideQuestionMarks replaces every question mark that cannot begin a key and is not part of a tag, whether it is in a
// plain scalar or not: elsewhere it means nothing either.
func hideQuestionMarks(text []byte) (hidden []byte, sign string) {
	if bytes.IndexByte(text, '?') < 0 {
		return text, ""
	}
	if sign = unused(text); sign == "" {
		return text, ""
	}
	hidden = make([]byte, 0, len(text)+len(text)/16)
	if rest, ok := bytes.CutPrefix(text, []byte("\uFEFF")); ok { // what follows begins the first line
		hidden, text = append(hidden, "\uFEFF"...), rest
	}
	var last byte        // on the line, the last character that is not blank; 0: none
	gap, tag := 0, false // blanks since last; whether this is a tag, an anchor or an alias
	for _, b := range text {
		begins := last == 0 || strings.IndexByte("[{,", last) >= 0 || gap > 0 && (last == ':' || last == '-')
		switch {
		case b == '\n' || b == '\r':
			last, gap, tag = 0, 0, false
		case b == ' ' || b == '\t':
			gap, tag = gap+1, false
		case b == '?' && !begins && !tag && last != '?':
			hidden = append(hidden, sign...)
			last, gap = 'x', 0
			continue
		default:
			tag = tag || begins && (b == '!' || b == '&' || b == '*')
			last, gap = b, 0
		}
		hidden = append(hidden, b)
	}
	return hidden, sign
}

// unused returns a character of a private use area that the text has neither as such nor as an escape; "" if it has
// all of them.
func unused(text []byte) string {
	lower := bytes.ToLower(text)
	for r := rune(0xE000); r < 0xE100; r++ {
		if !bytes.Contains(text, []byte(string(r))) && !bytes.Contains(lower, fmt.Appendf(nil, "%x", r)) {
			return string(r)
		}
	}
	return ""
}
