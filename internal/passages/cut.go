package passages

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// cutter cuts a text into passages. Offsets are bytes of its text.
type cutter struct {
	text   string
	most   int // bytes of a passage
	list   []Passage
	levels [6]string // the headings that are open, by level; ""

	start, first int  // of the passage under way, and its line
	end, last    int  // behind its last line; end is start when it has none
	titles       int  // the headings that it begins with
	body         bool // it has more than headings

	blank    bool // the line before was blank
	cutEnd   int  // behind the last paragraph but the one under way
	cutLast  int
	cutStart int // of the paragraph under way
	cutFirst int
}

// cut cuts a text in UTF-8: at each heading if it is Markdown, and where a passage would get too long between
// paragraphs, else between lines, else between words.
func cut(text string, markdown bool, most int) []Passage {
	c, fence := cutter{text: text, most: most}, ""
	start, n := 0, 0
	for line := range strings.Lines(text) {
		n++
		body := strings.TrimRight(line, " \t\r\n")
		title := false
		if mark := fenceMark(body); markdown && mark != "" {
			switch {
			case fence == "":
				fence = mark
			case strings.HasPrefix(mark, fence) && strings.TrimLeft(body, " ") == mark:
				fence = ""
			}
		} else if m := heading.FindStringSubmatch(body); markdown && fence == "" && m != nil {
			c.heading(len(m[1]), m[2])
			title = true
		}
		if strings.TrimSpace(body) == "" {
			c.blank = true
		} else {
			c.add(start, start+len(body), n)
			c.blank, c.body = false, c.body || !title
		}
		start += len(line)
	}
	c.emit(c.end, c.last)
	return c.list
}

// heading matches a heading: its level and its title, without the marks behind it.
var heading = regexp.MustCompile(`^ {0,3}(#{1,6})[ \t]+(.*?[^# \t].*?)(?:[ \t]+#+)?$`)

// fenceMark is the mark that a block of code begins or ends with, if this line is one; else "".
func fenceMark(line string) string {
	line = strings.TrimLeft(line, " ")
	for _, mark := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, mark) {
			return line[:len(line)-len(strings.TrimLeft(line, mark[:1]))]
		}
	}
	return ""
}

// heading begins a passage, unless the one under way is the headings above this one and no more.
func (c *cutter) heading(level int, title string) {
	above := true
	for _, open := range c.levels[level-1:] {
		above = above && open == ""
	}
	if !above || c.body {
		c.emit(c.end, c.last)
	}
	clear(c.levels[level-1:])
	c.levels[level-1] = title
	c.titles++
}

// add adds a line that is not blank.
func (c *cutter) add(start, end, n int) {
	switch {
	case c.end == c.start:
		c.begin(start, n)
	case c.blank:
		c.cutEnd, c.cutLast, c.cutStart, c.cutFirst = c.end, c.last, start, n
	}
	for end-c.start > c.most {
		switch {
		case c.cutStart > c.start:
			c.emit(c.cutEnd, c.cutLast)
			c.begin(c.cutStart, c.cutFirst)
		case start > c.start:
			c.emit(c.end, c.last)
			c.begin(start, n)
		default:
			cut := start + c.cutLine(c.text[start:end])
			c.emit(cut, n)
			start = end - len(strings.TrimLeft(c.text[cut:end], " \t"))
			c.begin(start, n)
		}
	}
	c.end, c.last = end, n
}

// begin lets the passage under way begin at start, a place in the line n.
func (c *cutter) begin(start, n int) {
	c.start, c.first, c.end = start, n, max(c.end, start)
}

// emit adds the passage under way as far as end, a place in the line last, if it has anything.
func (c *cutter) emit(end, last int) {
	if end == c.start {
		return
	}
	k := Passage{Text: c.text[c.start:end], First: c.first, Last: last, titles: c.titles}
	for _, title := range c.levels {
		if title != "" {
			k.Headings = append(k.Headings, title)
		}
	}
	c.list = append(c.list, k)
	c.start, c.titles, c.body = c.end, 0, false
}

// cutLine says where to cut a line that is too long: behind a word, else between two characters.
func (c *cutter) cutLine(line string) int {
	if at := strings.LastIndexAny(line[:c.most], " \t"); at > 0 {
		return at
	}
	at := c.most
	for !utf8.RuneStart(line[at]) {
		at--
	}
	return at
}
