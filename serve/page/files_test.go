package page_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/npmtest"
	"github.com/braise-run/braise/serve/page"
)

// maxPage is how many bytes all files have, gzipped one by one, with the libraries. No browser loads them at once: see
// TestSizeOfScreens.
const maxPage = 97_000

// maxLines is how many lines a file has at most, as in Go.
const maxLines = 450

// each calls f with each file of the page, as it stands in the repository.
func each(t *testing.T, f func(name, text string)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(page.Files())) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f(name, string(text))
	}
}

func TestSizeOfThePage(t *testing.T) {
	all := 0
	each(t, func(name, text string) {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(page.Files()[name]); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		all += b.Len()
		if lines := strings.Count(text, "\n"); lines > maxLines {
			t.Errorf("%s has %d lines, at most %d are wanted", name, lines, maxLines)
		}
	})
	t.Logf("%d bytes", all)
	if all > maxPage {
		t.Errorf("the page has %d bytes gzipped, at most %d are wanted", all, maxPage)
	}
}

// What models, tools and people wrote never becomes markup or code, and nothing is loaded from elsewhere.
func TestNothingForeign(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|DOMParser|createContextualFragment|srcdoc|https?://`)
	imports := regexp.MustCompile(`^[^*]*(?:from |\bimport(?: |\())['"]([^'"]+)['"]`)
	names := map[string]bool{}
	each(t, func(name, _ string) { names[name] = true })
	each(t, func(name, text string) {
		for i, line := range strings.Split(text, "\n") {
			if m := imports.FindStringSubmatch(line); m != nil && path.Ext(name) == ".js" && (!strings.HasPrefix(m[1], ".") || !names[path.Join(path.Dir(name), m[1])]) {
				t.Errorf("%s:%d: it imports %s, which is not part of the page", name, i+1, m[1])
			}
			if found := forbidden.FindString(line); found != "" && path.Dir(name) != "vendor" && !strings.Contains(line, "http://www.w3.org/2000/svg") {
				t.Errorf("%s:%d: %s", name, i+1, found)
			}
		}
	})
}

// The libraries are those that vendor/update has fetched.
func TestVendored(t *testing.T) {
	sums, err := os.ReadFile("vendor/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		text, err := os.ReadFile("vendor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(text); hex.EncodeToString(got[:]) != want {
			t.Errorf("vendor/%s was changed; vendor/update fetches it again", name)
		}
		listed["vendor/"+name] = true
	}
	each(t, func(name, _ string) {
		if path.Dir(name) == "vendor" && !listed[name] {
			t.Errorf("%s is not in vendor/SHA256SUMS", name)
		}
	})
}

// Without comments, modules have the same lines.
func TestComments(t *testing.T) {
	each(t, func(name, text string) {
		sent := string(page.Files()[name])
		if strings.Count(sent, "\n") != strings.Count(text, "\n") {
			t.Errorf("%s has %d lines, and %d are sent", name, strings.Count(text, "\n"), strings.Count(sent, "\n"))
		}
		if strings.Contains(sent, "@param") || strings.Contains(sent, "@type") {
			t.Errorf("%s is sent with comments", name)
		}
	})
}

// The modules fit each other and the types of the API.
func TestTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("with npm, not in short tests")
	}
	out, err := exec.CommandContext(t.Context(), npmtest.Program(t, "typescript", "7.0.2", "tsc"), "-p", ".").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
