// Package page contains the files of the web page of a server. They are the modules in the repository, without a
// build step.
package page

import (
	"bytes"
	"embed"
	"io/fs"
	"path"
	"regexp"
	"sync"
)

//go:embed index.html *.js *.css vendor/*.js
var files embed.FS

// unsent are comments that stand alone on their lines, those behind code that have no quote, the types that TypeScript
// checks, and tabs at the beginning of lines: no text of the page begins a line with one.
var unsent = regexp.MustCompile("(?m)^\t*//.*$|[ \t]+//[^\n\"'`]*$|(?s)/\\*.*?\\*/[ \t]?|(?m)^\t+")

// spaces are those in style.css that no browser needs: it has no text with such a place.
var spaces = regexp.MustCompile(`;? +([{}>]) *|([:;,{]) +`)

// Files returns the files by name: index.html, and what it loads. Modules and styles come without comments, indentation
// and such, which are for those who read the repository; lines keep their numbers. The caller must not change the
// result.
var Files = sync.OnceValue(func() map[string][]byte {
	all := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		if path.Dir(name) == "." && name != "index.html" {
			text = unsent.ReplaceAllFunc(text, func(comment []byte) []byte {
				return bytes.Repeat([]byte("\n"), bytes.Count(comment, []byte("\n")))
			})
		}
		if path.Ext(name) == ".css" {
			text = spaces.ReplaceAll(text, []byte("$1$2"))
		}
		all[name] = text
		return err
	})
	if err != nil {
		panic(err) // the files are embedded
	}
	return all
})
