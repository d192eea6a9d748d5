package retriever

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/runtime"
)

// maxChunk is the most bytes of a passage.
const maxChunk = 2000

// chunk is a passage of a file.
type chunk struct {
	source      string
	number      int // in the file, from 1
	text        string
	first, last int      // lines, from 1
	headings    []string // titles that it stands under, the outermost first
	titles      int      // how many of them, the last ones, are in the text
}

func (c chunk) document(score float64) runtime.Document {
	metadata := map[string]any{"first_line": int64(c.first), "last_line": int64(c.last)}
	if c.headings != nil {
		list := make([]any, len(c.headings))
		for i, h := range c.headings {
			list[i] = h
		}
		metadata["headings"] = list
	}
	return runtime.Document{ID: fmt.Sprintf("%s#%d", c.source, c.number), Text: c.text,
		Source: c.source, Score: score, Metadata: metadata}
}

// words is what is searched: the text, and the headings that are not in it.
func (c chunk) words() string {
	return strings.Join(c.headings[:len(c.headings)-c.titles], "\n") + "\n" + c.text
}

// cutter cuts a file into chunks. Offsets are bytes of its text.
type cutter struct {
	source, text string
	chunks       []chunk
	levels       [6]string // the headings that are open, by level; ""

	start, first int  // of the chunk under way, and its line
	end, last    int  // behind its last line; end is start when it has none
	titles       int  // the headings that it begins with
	body         bool // it has more than headings

	blank    bool // the line before was blank
	cutEnd   int  // behind the last paragraph but the one under way
	cutLast  int
	cutStart int // of the paragraph under way
	cutFirst int
}

// chunksOf cuts a text in UTF-8: at each heading if it is Markdown, and where a chunk would get too
// long between paragraphs, else between lines, else between words.
func chunksOf(source, text string) []chunk {
	c := cutter{source: source, text: text}
	ext := strings.ToLower(path.Ext(source))
	markdown, fence := ext == ".md" || ext == ".markdown", ""
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
	return c.chunks
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

// heading begins a chunk, unless the one under way is the headings above this one and no more.
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
	for end-c.start > maxChunk {
		switch {
		case c.cutStart > c.start:
			c.emit(c.cutEnd, c.cutLast)
			c.begin(c.cutStart, c.cutFirst)
		case start > c.start:
			c.emit(c.end, c.last)
			c.begin(start, n)
		default:
			cut := start + cutLine(c.text[start:end])
			c.emit(cut, n)
			start = end - len(strings.TrimLeft(c.text[cut:end], " \t"))
			c.begin(start, n)
		}
	}
	c.end, c.last = end, n
}

// begin lets the chunk under way begin at start, a place in the line n.
func (c *cutter) begin(start, n int) {
	c.start, c.first, c.end = start, n, max(c.end, start)
}

// emit adds the chunk under way as far as end, a place in the line last, if it has anything.
func (c *cutter) emit(end, last int) {
	if end == c.start {
		return
	}
	k := chunk{source: c.source, number: len(c.chunks) + 1, text: c.text[c.start:end],
		first: c.first, last: last, titles: c.titles}
	for _, title := range c.levels {
		if title != "" {
			k.headings = append(k.headings, title)
		}
	}
	c.chunks = append(c.chunks, k)
	c.start, c.titles, c.body = c.end, 0, false
}

// cutLine says where to cut a line that is too long: behind a word, else between two characters.
func cutLine(line string) int {
	if at := strings.LastIndexAny(line[:maxChunk], " \t"); at > 0 {
		return at
	}
	at := maxChunk
	for !utf8.RuneStart(line[at]) {
		at--
	}
	return at
}
