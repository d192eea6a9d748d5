// Report reads what go test -json writes, and says what matters of it.
//
//	go test -json ARGS… | report -add FILE -- ARGS…
//
// prints a line for each package and all that the failed tests wrote, adds the tests to FILE, and exits with status 1
// if something failed.
//
//	report FILE
//
// prints the ten slowest tests of FILE, and for each failed one the command that repeats it.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// event is one line of go test -json, as go doc test2json has it, or of go build -json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// test is one line of the file: a test, or a package whose failure is nobody else's.
type test struct {
	Package string
	Name    string   // empty for a package
	Seconds float64  // since it began; tests that run side by side share them
	Failed  bool     `json:",omitempty"`
	Args    []string // of go test
	Dir     string   // in which it was called, as seen from the root of the repository
	Env     []string // what tests depend on
}

func main() {
	log.SetFlags(0)
	add := flag.Bool("add", false, "read the output of go test -json and add it to the file")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: report [-add] FILE [-- ARGS…]")
	}
	file, args := flag.Arg(0), flag.Args()[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if !*add {
		if err := summary(os.Stdout, file); err != nil {
			log.Fatal(err)
		}
		return
	}
	tests, ok, err := read(os.Stdin, os.Stdout)
	if err == nil {
		err = save(file, args, tests)
	}
	if err != nil {
		log.Fatal(err)
	}
	if !ok {
		os.Exit(1)
	}
}

// read reads the events of go test. It reports whether packages were tested and all of them passed.
func read(in io.Reader, out io.Writer) (tests []test, ok bool, err error) {
	type key struct{ pkg, test string }
	written := map[key]*bytes.Buffer{} // by what has not ended
	failed := map[string]bool{}        // packages with a failed test
	passed := 0
	ok = true
	lines := bufio.NewReader(in)
	for {
		line, readErr := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil || e.Action == "":
			out.Write(line) // of the go command itself
		case e.Action == "build-output":
			io.WriteString(out, e.Output)
		case e.Action == "build-fail":
			ok = false
		case e.Action == "output":
			k := key{e.Package, e.Test}
			if written[k] == nil {
				written[k] = new(bytes.Buffer)
			}
			written[k].WriteString(e.Output)
		case e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
			k := key{e.Package, e.Test}
			bad := e.Action == "fail"
			if bad && written[k] != nil {
				out.Write(written[k].Bytes())
			}
			delete(written, k)
			failed[e.Package] = failed[e.Package] || bad
			tests = append(tests, test{Package: e.Package, Name: e.Test, Seconds: e.Elapsed, Failed: bad})
		case e.Action == "pass" || e.Action == "skip":
			passed++
			fmt.Fprintf(out, "ok   %6.1f s  %s\n", e.Elapsed, e.Package)
			delete(written, key{e.Package, ""})
		case e.Action == "fail":
			ok = false
			var left []key // tests that a crash or the end of the time cut off
			for k := range written {
				if k.pkg == e.Package {
					left = append(left, k)
				}
			}
			slices.SortFunc(left, func(a, b key) int { return strings.Compare(a.test, b.test) })
			for _, k := range left {
				out.Write(written[k].Bytes())
				delete(written, k)
				if k.test != "" {
					failed[e.Package] = true
					tests = append(tests, test{Package: e.Package, Name: k.test, Failed: true})
				}
			}
			if !failed[e.Package] {
				tests = append(tests, test{Package: e.Package, Seconds: e.Elapsed, Failed: true})
			}
			fmt.Fprintf(out, "FAIL %6.1f s  %s\n", e.Elapsed, e.Package)
		}
		if readErr == io.EOF {
			return tests, ok && passed > 0, nil
		}
		if readErr != nil {
			return tests, false, readErr
		}
	}
}

// save adds tests of go test with args to a file. It lies one folder below the root of the repository.
func save(file string, args []string, tests []test) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(filepath.Dir(filepath.Dir(file)), here)
	if err != nil {
		return err
	}
	var env []string
	for _, name := range []string{"BRAISE_TEST_SEED", "BRAISE_TEST_FUZZ"} { // see internal/seedtest
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, t := range tests {
		t.Args, t.Dir, t.Env = args, dir, env
		if err := enc.Encode(t); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// summary prints what stands in a file.
func summary(out io.Writer, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var tests []test
	for line := range bytes.Lines(text) {
		var t test
		if err := json.Unmarshal(line, &t); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		tests = append(tests, t)
	}
	slices.SortStableFunc(tests, func(a, b test) int { return int(1000 * (b.Seconds - a.Seconds)) })
	fmt.Fprintln(out, "The ten slowest tests, in seconds:")
	n := 0
	for _, t := range tests {
		if t.Name != "" && !strings.Contains(t.Name, "/") && n < 10 {
			n++
			fmt.Fprintf(out, "%8.1f  %s %s\n", t.Seconds, t.Package, t.Name)
		}
	}
	for _, t := range tests {
		if t.Failed && !slices.ContainsFunc(tests, func(o test) bool { // a part of it says more
			return o.Failed && o.Package == t.Package && strings.HasPrefix(o.Name, t.Name+"/")
		}) {
			fmt.Fprintf(out, "failed: %s\n", again(t))
		}
	}
	return nil
}

// again returns the command that repeats a test.
func again(t test) string {
	words := append(t.Env, "go", "test")
	if t.Dir != "." {
		words = append(words, "-C", t.Dir)
	}
	words = append(words, "-count=1")
	for _, a := range t.Args {
		switch {
		case a == "-race" || a == "-short" || strings.HasPrefix(a, "-cpu="):
			words = append(words, a)
		}
	}
	words = append(words, t.Package)
	if t.Name != "" {
		var parts []string
		for part := range strings.SplitSeq(t.Name, "/") {
			parts = append(parts, "^"+strings.NewReplacer("'", ".", "$", ".", "(", ".", ")", ".", "[", ".", "]", ".", "*", ".",
				"+", ".", "?", ".", "|", ".", "^", ".", "\\", ".").Replace(part)+"$")
		}
		words = append(words, "-run", "'"+strings.Join(parts, "/")+"'")
	}
	return strings.Join(words, " ")
}
