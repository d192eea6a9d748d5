package command

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// docs/errors.md gives the exit code of every error code.
func TestDocsGiveExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-zA-Z._]+)` \\| ([a-z, ]+) \\| ([0-9]+) ").FindAllStringSubmatch(string(page), -1)
	if len(rows) == 0 {
		t.Fatal("no tables of codes in docs/errors.md")
	}
	for _, row := range rows {
		for category := range strings.SplitSeq(row[2], ", ") {
			out := &workflow.Outcome{Status: workflow.StatusError, Err: &runtime.Error{Category: runtime.Category(category), Code: row[1]}}
			if category == string(runtime.CategoryCancelled) {
				out.Status = workflow.StatusCancelled
			}
			if got := strconv.Itoa(exitCode(out, nil)); got != row[3] {
				t.Errorf("%s of category %s: the page says exit code %s, the command gives %s", row[1], category, row[3], got)
			}
		}
	}
}
