package diagnostics_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/braise-run/braise/diagnostics"
)

// trust 6.10: of many diagnostics in one long line 100 are shown, and each costs its own part of the line.
func TestPrintMany(t *testing.T) {
	const count = 20_000
	line := strings.Repeat("é: x, ", 1<<20/len("é: x, "))
	var list diagnostics.List
	for i := range count {
		list = append(list, diagnostics.Diagnostic{Level: diagnostics.Warn, Code: "c.d", Message: fmt.Sprintf("no %d", i),
			Position: diagnostics.Position{File: "f", Line: 1, Column: 1 + 6*i}})
	}
	list[count-1].Level = diagnostics.ErrorLevel
	var out bytes.Buffer
	p := diagnostics.Printer{Sources: map[string][]byte{"f": []byte(line)}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := p.Print(&out, list); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used, most := after.TotalAlloc-before.TotalAlloc, uint64(100*2*len(line)); used > most {
		t.Errorf("took %d bytes, want at most %d", used, most)
	}
	text := out.String()
	if got := strings.Count(text, "[c.d]"); got != 100 {
		t.Errorf("%d diagnostics are shown, want 100", got)
	}
	if !strings.HasSuffix(text, "\n… and 19,900 more\n") || !strings.Contains(text, "error: no 19999") {
		t.Errorf("it ends in %q; the error must be among those shown", text[len(text)-300:])
	}
	for i := range list {
		list[i].Level = diagnostics.ErrorLevel
	}
	if text := list.Err().Error(); strings.Count(text, "\n") != 100 || !strings.HasSuffix(text, "\n… and 19,900 more") {
		t.Errorf("the error ends in %q", text[len(text)-60:])
	}
}

// A diagnostic stands on one line, whatever its message and its hint have.
func TestPrintMessagesOfSeveralLines(t *testing.T) {
	for message, want := range map[string]string{
		"it ended\n  stderr: no disk":       "it ended; stderr: no disk",
		"it ended:\r\n\tno disk.\r\nReally": "it ended: no disk. Really",
		"\n\nit ended\n \nnow\n":            "it ended; now",
		"it\x1bended":                       "it\ufffdended",
		"as\tbefore":                        "as before",
		"":                                  "",
	} {
		var out bytes.Buffer
		p := diagnostics.Printer{}
		list := diagnostics.List{{Level: diagnostics.Warn, Code: "c.d", Message: message, Hint: "do\n" + message + "\nso"}}
		if err := p.Print(&out, list); err != nil {
			t.Fatal(err)
		}
		first, hint, _ := strings.Cut(out.String(), "\n")
		if first != "warning: "+want+" [c.d]" {
			t.Errorf("%q is printed as %q", message, first)
		}
		if strings.Count(hint, "\n") != 1 || !strings.HasPrefix(hint, "  hint: do; ") && want != "" {
			t.Errorf("%q has the hint %q", message, hint)
		}
	}
}
