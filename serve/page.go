package serve

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/braise-run/braise/serve/page"
)

// asset is a file of the page, as it is sent.
type asset struct {
	kind, tag string
	plain     []byte
	zipped    func() []byte // when somebody first asks for it: all of the page take 50 ms
}

// kinds are the types of the files. Those that the machine knows may be wrong, and browsers take no other for a module.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8"}

// version stands in the URLs of the files. It is a hash of them all: modules of two versions do not fit each other.
var version = sync.OnceValue(func() string {
	files, sum := page.Files(), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%q %q\n", name, files[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
})

// assets are the files of the page by their paths below the mount.
var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	for name, text := range page.Files() {
		at := "/page/{version}/" + name
		if name == "index.html" {
			at, text = "/", bytes.ReplaceAll(text, []byte(`"page/`), []byte(`"page/`+version()+`/`))
		}
		sum := sha256.Sum256(text)
		all[at] = asset{kinds[path.Ext(name)], hex.EncodeToString(sum[:8]), text,
			sync.OnceValue(func() []byte { return zip(text) })}
	}
	return all
})

// zip compresses a text as well as gzip can.
func zip(text []byte) []byte {
	var to bytes.Buffer
	z, _ := gzip.NewWriterLevel(&to, gzip.BestCompression) // the level is a valid one
	_, _ = z.Write(text)                                   // a buffer takes all
	_ = z.Close()
	return to.Bytes()
}

// servePage registers the files of the page. They tell nothing, so who is not logged in gets them, too. A page of
// another version that asks for one gets what there is: while servers are upgraded, it may come from any of them.
// Before an open page loads more of itself it asks whether its version is still there.
func (a *api) servePage() {
	a.mux.HandleFunc("GET /page/{version}/here", func(w http.ResponseWriter, r *http.Request) {
		if err := a.hosted(r); err != nil {
			a.refuse(w, r, err)
			return
		}
		status := http.StatusNoContent
		if r.PathValue("version") != version() {
			status = http.StatusGone
		}
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
	})
	for at, file := range assets() {
		pattern := "GET " + at
		if at == "/" {
			pattern += "{$}"
		}
		a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := a.hosted(r); err != nil {
				a.refuse(w, r, err)
				return
			}
			file.send(w, r)
		})
	}
}

// send sends a file, unless the browser has it.
func (f *asset) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	body, tag := f.plain, `"`+f.tag+`"`
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body, tag = f.zipped(), `"`+f.tag+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Cache-Control", "no-cache")
	if r.PathValue("version") == version() {
		h.Set("Cache-Control", "max-age=31536000, immutable")
	}
	h.Set("ETag", tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == tag {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // who has left needs no answer
	}
}
