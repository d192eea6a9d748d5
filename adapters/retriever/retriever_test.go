package retriever_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder makes a folder with files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ids asks for 10 documents, and returns their ids in order.
func ids(t testing.TB, x *retriever.Index, query string) string {
	t.Helper()
	found, err := x.Retrieve(t.Context(), query, 10)
	if err != nil {
		t.Fatalf("%q: %v", query, err)
	}
	var list []string
	for _, d := range found {
		list = append(list, d.ID)
	}
	return strings.Join(list, " ")
}

var fruit = map[string]string{
	"a.txt": "apple",
	"b.txt": "apple apple pear",
	"c.txt": "pear plum",
	"d.txt": "fig",
	"e.txt": "kiwi",
}

// weight is the share of a word that n of the five passages have, f times in one of d words. The mean
// length is 8/5 words.
func weight(n, f, d float64) float64 {
	return math.Log((5-n+0.5)/(n+0.5)) * f * 2.2 / (f + 1.2*(0.25+0.75*d/1.6))
}

func TestOrder(t *testing.T) {
	x := retriever.New(folder(t, fruit), retriever.Options{})
	for _, tt := range []struct {
		query string
		want  string
		score float64 // of the first
	}{
		{"apple", "a.txt#1 b.txt#1", weight(2, 1, 1)},                                // 0.397 before 0.371: the shorter one
		{"pear", "c.txt#1 b.txt#1", weight(2, 1, 2)},                                 // 0.305 before 0.248
		{"apple pear", "b.txt#1 a.txt#1 c.txt#1", weight(2, 2, 3) + weight(2, 1, 3)}, // 0.619, 0.397, 0.305
		{"plum apple", "c.txt#1 a.txt#1 b.txt#1", weight(1, 1, 2)},                   // 0.997: the rarer word
		{"kiwi fig", "d.txt#1 e.txt#1", weight(1, 1, 1)},                             // equal: by path
		{"APPLES?", "a.txt#1 b.txt#1", weight(2, 1, 1)},                              // by stem, without case
		{"apple Apple apple", "a.txt#1 b.txt#1", weight(2, 1, 1)},                    // once is enough
		{"cherry", "", 0},
	} {
		if got := ids(t, x, tt.query); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.query, got, tt.want)
		}
		if found, _ := x.Retrieve(t.Context(), tt.query, 1); len(found) > 0 && math.Abs(found[0].Score-tt.score) > 1e-9 {
			t.Errorf("%q: score %v, want %v", tt.query, found[0].Score, tt.score)
		}
	}
}

func TestDocument(t *testing.T) {
	x := retriever.New(folder(t, map[string]string{
		"guide/Refunds.md": "# Money\n\n## Refunds\n\nWithin *five* days.\n\n## Größe\n\nCafé au lait.\n",
	}), retriever.Options{})
	for _, tt := range []struct {
		query string
		want  runtime.Document
	}{
		{"refunds", runtime.Document{ID: "guide/Refunds.md#1", Source: "guide/Refunds.md", Text: "# Money\n\n## Refunds\n\nWithin *five* days.",
			Metadata: map[string]any{"first_line": int64(1), "last_line": int64(5), "headings": []any{"Money", "Refunds"}}}},
		{"cafe", runtime.Document{ID: "guide/Refunds.md#2", Source: "guide/Refunds.md", Text: "## Größe\n\nCafé au lait.",
			Metadata: map[string]any{"first_line": int64(7), "last_line": int64(9), "headings": []any{"Money", "Größe"}}}},
	} {
		found, err := x.Retrieve(t.Context(), tt.query, 5)
		if err != nil || len(found) != 1 {
			t.Fatalf("%q: %v, %v", tt.query, found, err)
		}
		found[0].Score = 0
		if diff := cmp.Diff(tt.want, found[0]); diff != "" {
			t.Errorf("%q (-want +got)\n%s", tt.query, diff)
		}
	}
	if got := ids(t, x, "money"); len(strings.Fields(got)) != 2 { // a heading counts for what stands below
		t.Errorf("got %s", got)
	}
}

// Words that say nothing do not count beside others, however rare they are.
func TestSmallWords(t *testing.T) {
	x := retriever.New(folder(t, map[string]string{
		"a.txt": "the who and the what", "b.txt": "refund of money within days", "c.txt": "price", "d.txt": "parcel", "e.txt": "letter",
	}), retriever.Options{})
	for _, tt := range []struct{ query, want string }{
		{"What is the refund?", "b.txt#1"},
		{"THE WHO", "a.txt#1"},
	} {
		if got := ids(t, x, tt.query); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.query, got, tt.want)
		}
	}
}

// A query has no syntax, and any text is one.
func TestQueriesAreWords(t *testing.T) {
	x := retriever.New(folder(t, fruit), retriever.Options{})
	huge := strings.Repeat("nothing ", 1<<18) + "apple"
	var many strings.Builder
	for i := range 2 * retriever.MaxWords {
		fmt.Fprintf(&many, "word%d ", i)
	}
	for _, tt := range []struct{ query, want string }{
		{"", ""},
		{" \n\t", ""},
		{"\x00", ""},
		{"?!*\"'()[]{}^~:-+", ""},
		{"app*", ""},
		{"text:apple", "a.txt#1 b.txt#1"},
		{"NOT apple", "a.txt#1 b.txt#1"},
		{"apple AND kiwi", "e.txt#1 a.txt#1 b.txt#1"},
		{`"pear plum" OR`, "c.txt#1 b.txt#1"},
		{`fig"; DROP TABLE chunks; --`, "d.txt#1"},
		{"NEAR(kiwi fig, 1)", "d.txt#1 e.txt#1"},
		{"^kiwi", "e.txt#1"},
		{"fig\x00kiwi", "d.txt#1 e.txt#1"},
		{"\xff\xfefig\xff", "d.txt#1"},
		{"figge\u0301 fig", "d.txt#1"},
		{huge, "a.txt#1 b.txt#1"},
		{"fig " + many.String() + "kiwi", "d.txt#1"}, // beyond the first words nothing counts
	} {
		if got := ids(t, x, tt.query); got != tt.want {
			t.Errorf("%.40q: got %q, want %q", tt.query, got, tt.want)
		}
	}
	for _, k := range []int{-1, 0, 1, math.MaxInt} {
		found, err := x.Retrieve(t.Context(), "apple", k)
		if want := min(max(k, 0), 2); err != nil || len(found) != want {
			t.Errorf("top %d: %d documents, %v", k, len(found), err)
		}
	}
}

func FuzzRetrieve(target *testing.F) {
	f := seedtest.Fuzz(target)
	x := retriever.New(folder(f, fruit), retriever.Options{})
	f.Add("apple AND (")
	f.Add("\"\x00* é\u0301 \U000f0000 日本")
	f.Fuzz(func(t *testing.T, query string) {
		if _, err := x.Retrieve(t.Context(), query, 3); err != nil {
			t.Errorf("%q: %v", query, err)
		}
	})
}

func TestWhatIsLeftOut(t *testing.T) {
	dir := folder(t, map[string]string{
		"plain": "word", "empty.md": "", "blank.md": " \n\n", "sub/deep/x.md": "word", "bom.txt": "\uFEFFword",
		".hidden.md": "word", ".git/config": "word",
		"nul.txt": "word\x00", "latin.txt": "word \xe9", "late.bin": strings.Repeat("word ", 4000) + "\xff",
		"long.txt": strings.Repeat("é", 8<<10) + " word", // the first 8 KiB end with a whole character
		"odd.txt":  "." + strings.Repeat("é", 8<<10) + " word",
	})
	if err := os.Symlink("plain", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("sub", filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	found, err := retriever.New(dir, retriever.Options{}).Retrieve(t.Context(), "word", 100)
	for _, d := range found {
		got[d.Source] = true
		if strings.Contains(d.Text, "\uFEFF") {
			t.Errorf("%s has the mark that it begins with", d.ID)
		}
	}
	want := map[string]bool{"plain": true, "sub/deep/x.md": true, "bom.txt": true, "long.txt": true, "odd.txt": true, "link": true}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestFoldersThatCannotBeRead(t *testing.T) {
	outside := folder(t, map[string]string{"secret.md": "word"})
	link := func(to string) string {
		dir := folder(t, fruit)
		if err := os.Symlink(to, filepath.Join(dir, "link.md")); err != nil {
			t.Skip(err)
		}
		return dir
	}
	file := filepath.Join(folder(t, fruit), "a.txt")
	missing := filepath.Join(t.TempDir(), "docs")
	locked := folder(t, fruit)
	if err := os.Chmod(filepath.Join(locked, "b.txt"), 0); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, dir string
		opts      retriever.Options
		want      string
	}{
		{"missing", missing, retriever.Options{}, "no such file or directory"},
		{"a file", file, retriever.Options{}, "not a directory"},
		{"a link out of it", link(filepath.Join(outside, "secret.md")), retriever.Options{}, `"link.md": path escapes from parent`},
		{"a link to nothing", link("gone.md"), retriever.Options{}, `"link.md": no such file or directory`},
		{"an unreadable file", locked, retriever.Options{}, `"b.txt": permission denied`},
		{"too many files", folder(t, fruit), retriever.Options{MaxFiles: 4}, "there are more than 4 files"},
		{"too large a file", folder(t, fruit), retriever.Options{MaxFileBytes: 15}, `"b.txt": it has more than 15 bytes`},
		{"too much", folder(t, fruit), retriever.Options{MaxBytes: 32}, "the files have more than 32 bytes together"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.dir == locked && os.Geteuid() == 0 {
				t.Skip("root reads everything")
			}
			_, err := retriever.New(tt.dir, tt.opts).Retrieve(t.Context(), "apple", 3)
			want := fmt.Sprintf("index of %q: %s", tt.dir, tt.want)
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	_, err := retriever.New(missing, retriever.Options{}).Retrieve(t.Context(), "apple", 3)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if got := ids(t, retriever.New(folder(t, fruit), retriever.Options{MaxFiles: 5, MaxFileBytes: 16, MaxBytes: 37}), "fig"); got != "d.txt#1" { // 5+16+9+3+4 bytes
		t.Errorf("at the limits: got %q", got)
	}
}

// An index stays as it is until it is rebuilt; a build that fails changes nothing.
func TestBuild(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs")
	x := retriever.New(dir, retriever.Options{})
	if _, err := x.Retrieve(t.Context(), "fig", 1); err == nil {
		t.Fatal("there is no folder, and no error")
	}
	write := func(name, text string) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		if got := ids(t, x, "fig"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	write("a.md", "fig")
	expect("a.md#1")
	write("b.md", "fig")
	expect("a.md#1")
	if err := x.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("a.md#1 b.md#1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := x.Build(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	expect("a.md#1 b.md#1")
}

func TestCancelled(t *testing.T) {
	x := retriever.New(folder(t, fruit), retriever.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Retrieve(ctx, "fig", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := ids(t, x, "fig"); got != "d.txt#1" {
		t.Errorf("afterwards: got %q", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	x := retriever.New(folder(t, fruit), retriever.Options{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if i%8 == 7 {
				if err := x.Build(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if found, err := x.Retrieve(t.Context(), "plum apple", 3); err != nil || len(found) != 3 || found[0].ID != "c.txt#1" {
				t.Errorf("got %v, %v", found, err)
			}
		})
	}
	wg.Wait()
}

func TestTenThousandFiles(t *testing.T) {
	files := map[string]string{}
	for i := range 10_000 {
		files[fmt.Sprintf("%02d/%04d.md", i/1000, i)] = fmt.Sprintf("# Number %d\n\nThe number of this file is n%d.\n", i, i)
	}
	x := retriever.New(folder(t, files), retriever.Options{})
	if got := ids(t, x, "where is n7654"); got == "" || strings.Fields(got)[0] != "07/7654.md#1" {
		t.Errorf("got %q", got)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "docs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	text := "# Shop\n\n## Refunds\n\nMoney is back within five days.\n\n## Delivery\n\nParcels take two days.\n"
	if err := os.WriteFile(filepath.Join(dir, "faq.md"), []byte(text), 0o644); err != nil {
		fmt.Println(err)
		return
	}

	rt := &runtime.Runtime{Retriever: retriever.New(dir, retriever.Options{})}

	found, err := rt.Retriever.Retrieve(context.Background(), "When is my parcel delivered?", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found[0].Source, found[0].Metadata["headings"], found[0].Metadata["first_line"])
	fmt.Println(found[0].Text)
	// Output:
	// faq.md [Shop Delivery] 7
	// ## Delivery
	//
	// Parcels take two days.
}
