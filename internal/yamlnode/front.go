package yamlnode

import "bytes"

// CutFrontMatter splits a Markdown file into the YAML between its first line, which is "---", and the next
// such line, and what is below. The front matter begins with a line break in place of the first
// line, so that its lines keep their numbers; it is nil when there is none. ok is false when it has no
// end; then everything is body. A byte order mark is in neither.
func CutFrontMatter(data []byte) (front, body []byte, ok bool) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	first, rest, more := bytes.Cut(data, []byte("\n"))
	if string(bytes.TrimRight(first, " \t\r")) != "---" {
		return nil, data, true
	}
	for at := 0; more; {
		var line []byte
		line, _, more = bytes.Cut(rest[at:], []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			return append([]byte("\n"), rest[:at]...), rest[at+len(line):], true
		}
		at += len(line) + 1
	}
	return nil, data, false
}
