package yamlnode

import (
	"bytes"
	"regexp"
)

var (
	yamlDirective = regexp.MustCompile(`^%YAML[ \t]+1\.[12][ \t]*([ \t]#.*)?\r?$`)
	documentStart = regexp.MustCompile(`^---(?:[ \t\r]|$)`)
)

// hideDirective makes a blank line of a directive that says YAML 1.1 or 1.2, where the beginning of the document
// follows: yaml.v3 refuses the latter, although it reads both alike. Nothing changes its place.
func hideDirective(text []byte) []byte {
	directive, end := -1, 0
	start := len(text) - len(bytes.TrimPrefix(text, []byte("\uFEFF")))
	for from := start; from < len(text); {
		line, _, _ := bytes.Cut(text[from:], []byte("\n"))
		switch blank := bytes.TrimSpace(line); {
		case len(blank) == 0 || blank[0] == '#':
		case directive < 0 && yamlDirective.Match(line):
			directive, end = from, from+len(bytes.TrimRight(line, "\r"))
		case directive >= 0 && documentStart.Match(line):
			hidden := bytes.Clone(text)
			copy(hidden[directive:end], bytes.Repeat([]byte(" "), end-directive))
			return hidden
		default:
			return text
		}
		from += len(line) + 1
	}
	return text
}
