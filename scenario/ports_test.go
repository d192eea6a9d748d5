package scenario_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/braise-run/braise/scenario/scenariotest"
)

var (
	portRow = regexp.MustCompile(`(?m)^\| ([a-z0-9]+)(-[a-z-]+) \| (\d+|–) \|[^|]*\| (\d+) \| (\d+) \|`)
	portSum = regexp.MustCompile("(?m)^\\| [^|]+ \\|(?: `([a-z0-9]+)-\\*`)? \\| (\\d+ \\| \\d+ \\| \\d+ \\| \\d+) \\|$")
)

// The workflows of other projects still do as their scenarios say, and are as long as their table says; docs/compare.md
// has the sums.
func TestPorts(t *testing.T) {
	const folder = "../testdata/ports"
	text, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	compare, err := os.ReadFile("../docs/compare.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	lines := map[string]string{}
	sums := map[string][4]int{} // by group; "": all
	for _, m := range portRow.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1]+m[2])
		lines[m[1]+m[2]] = m[5]
		if m[3] == "–" {
			continue
		}
		for _, group := range []string{m[1], ""} {
			sum := sums[group]
			for i, text := range []string{"1", m[3], m[4], m[5]} {
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Fatal(err)
				}
				sum[i] += n
			}
			sums[group] = sum
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("README.md does not have the ports by name: %q", names)
	}
	for _, m := range portSum.FindAllStringSubmatch(string(compare), -1) {
		if want := sums[m[1]]; m[2] != fmt.Sprintf("%d | %d | %d | %d", want[0], want[1], want[2], want[3]) {
			t.Errorf("docs/compare.md has the sums %s of %q, want %d", m[2], m[1], want)
		}
		delete(sums, m[1])
	}
	for group := range sums {
		t.Errorf("docs/compare.md has no sums of %q", group)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(names, e.Name()) {
			t.Errorf("README.md has no row for %s", e.Name())
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			port := filepath.Join(folder, name)
			if name == "sw-ctk" { // the scenarios of TestConformance
				port = "../testdata/conformance"
			} else {
				scenariotest.Run(t, port, nil)
			}
			if got := fmt.Sprint(portLines(t, port)); got != lines[name] {
				t.Errorf("the recipe has %s lines, README.md says %q", got, lines[name])
			}
		})
	}
}

// portLines counts the lines of the recipes in folder and in its scenarios, without blank lines and comments.
func portLines(t *testing.T, folder string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var recipes []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(file) == ".yaml" {
			recipes = append(recipes, string(text))
			continue
		}
		for _, f := range txtar.Parse(text).Files {
			if f.Name == "recipe.yaml" {
				recipes = append(recipes, string(f.Data))
			}
		}
	}
	n := 0
	for line := range strings.Lines(strings.Join(recipes, "\n")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}
