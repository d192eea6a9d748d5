//go:build unix

package pages_test

import (
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	demoPage    = "../../docs/start/approval-and-crash.md"
	demoPicture = "../../docs/demo.svg"
	demoColumns = 104
)

// The picture in README.md is the session of the tutorial, which TestPages types: run, approve, kill -9, recover.
func TestDemo(t *testing.T) {
	text, err := os.ReadFile(demoPage)
	if err != nil {
		t.Fatal(err)
	}
	skip := []string{"echo $?", "braise runs list", "braise runs show order-4711"}
	var shown []session
	for _, b := range blocks(string(text)) {
		if b.file == "mail.sh" && b.language == "diff" {
			break // what comes then is about forks
		}
		if b.language == "console" {
			for _, c := range sessions(b) {
				if !slices.Contains(skip, c.command) {
					shown = append(shown, c)
				}
			}
		}
	}
	got := picture(t, shown)
	if *update {
		if err := os.WriteFile(demoPicture, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(demoPicture)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/demo.svg is out of date: run go generate ./internal/pages (-want +got)\n%s", diff)
	}
}

// likely has what stands in for what differs from run to run: the page has … there.
var likely = strings.NewReplacer("  …s", "  0.1s", " …s", " 0.1s", "order-4711.… ", "order-4711.yH34cO6NYtyS ", " --config …", "",
	"exec.run, …, by process … on …", "exec.run, 2026-03-02 10:15:04, by process 8212 on laptop")

// picture draws a terminal as SVG. Commands and what they print appear one after the other; where nothing may
// move, all is there at once.
func picture(t *testing.T, shown []session) string {
	t.Helper()
	const size, height, margin = 13, 18, 16
	var body strings.Builder
	row, at := 0, 0.5
	line := func(class, text string) {
		for text = strings.TrimRight(text, " "); ; {
			cut := min(len(text), demoColumns)
			if cut < len(text) {
				cut = 1 + strings.LastIndex(text[:cut], " ")
			}
			var escaped strings.Builder
			if err := xml.EscapeText(&escaped, []byte(text[:cut])); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&body, "<text class=\"%s\" style=\"animation-delay:%.1fs\" x=\"%d\" y=\"%d\">%s</text>\n",
				class, at, margin, 2*margin+size+row*height, &escaped)
			row++
			if text = text[cut:]; text == "" {
				return
			}
			text = "      " + text
		}
	}
	for _, c := range shown {
		line("command", "$ "+c.command)
		at += 1.2
		for text := range strings.Lines(c.shown) {
			if text = strings.TrimSuffix(text, "\n"); text == "…" {
				continue
			}
			if text = likely.Replace(text); strings.Contains(text, "…") {
				t.Errorf("the picture shows a placeholder: %s", text)
			}
			class := "output"
			switch {
			case strings.HasPrefix(text, "✓"):
				class = "good"
			case strings.Contains(text, "paused:"), strings.Contains(text, "waits"):
				class = "waits"
			}
			line(class, text)
			at += 0.1
		}
		at += 1.3
	}
	line("good", "# paid once, though the process that paid was killed")
	width := 2*margin + demoColumns*size*61/100
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">
<title>A terminal: a run pauses for an approval, its process is killed, and another one recovers it</title>
<style>
text { font: %[3]dpx ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: #c9d1d9 }
.command { fill: #ffffff; font-weight: bold } .good { fill: #7ee787 } .waits { fill: #f2cc60 }
@media (prefers-reduced-motion: no-preference) { text { animation: appear .2s both } }
@keyframes appear { from { opacity: 0 } }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
%[4]s</svg>
`, width, 3*margin+row*height, size, body.String())
}
