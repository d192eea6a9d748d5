package page_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/braise-run/braise/runtime"
)

// sent counts the bytes of the files of the page that a server sends, by name.
type sent struct {
	mu    sync.Mutex
	bytes map[string]int
	shut  string // this file is not sent
}

func (c *sent) front(next http.Handler) http.Handler {
	c.bytes = map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" && !strings.HasPrefix(r.URL.Path, "/page/") {
			next.ServeHTTP(w, r)
			return
		}
		c.mu.Lock()
		shut := c.shut != "" && strings.HasSuffix(r.URL.Path, c.shut)
		c.mu.Unlock()
		if shut {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(counting{w, c, r.URL.Path}, r)
	})
}

type counting struct {
	http.ResponseWriter
	of   *sent
	path string
}

func (w counting) Write(p []byte) (int, error) {
	w.of.mu.Lock()
	w.of.bytes[w.path] += len(p)
	w.of.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// all returns what was sent until now, and forgets it.
func (c *sent) all() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.bytes {
		sum += n
	}
	clear(c.bytes)
	return sum
}

// A screen loads what it shows: each is below 60 kB, with the libraries.
func TestSizeOfScreens(t *testing.T) {
	c := &sent{}
	s := newSite(t, options{recipes: map[string]string{"desk": desk}, answers: deskAnswers, front: c.front, tools: []runtime.Tool{echo}})
	id, other := s.run("desk", nil), s.run("desk", nil)
	for _, screen := range []struct {
		token, place, shown string
		most                int
	}{
		{"", "", "input[name=token]", 36_000}, // its first place is Runs, which comes with it
		{rita, "#/runs", "tbody tr", 39_000},
		{rita, "#/runs/" + id, node("classify"), 48_000},
		{rita, "#/runs/" + id + "/time", ".bars .bar", 47_000},
		{rita, "#/runs/" + id + "/steps", "[data-step=classify]", 43_500},
		{rita, "#/runs/" + id + "/trace", ".event", 45_000},
		{rita, "#/runs/" + id + "/result", ".result", 42_000},
		{rita, "#/compare?a=" + id + "&b=" + other, "p[role=status]", 37_000},
		{olga, "#/runs/" + id + "/fork?at=ask&edit=classify", ".edit textarea", 41_000},
		{rita, "#/runs/" + id + "/graph?step=ask", ".said.assistant", 58_000},
		{olga, "#/inbox?at=" + id + "/approve", ".decide", 48_000},
		{olga, "#/recipes/desk", ".starts .form", 54_000},
		{"", "#answer=" + fetchToken(s, id, "approve"), ".decide", 44_000},
	} {
		b := s.open("", "livez") // a browser that has no file yet
		if screen.token != "" {
			status := value[int](b, `fetch('api/v1/login', {method: 'POST', body: '{"token":"`+screen.token+`"}',
				headers: {'Content-Type': 'application/json'}}).then((r) => r.status)`)
			if status != http.StatusOK {
				t.Fatal(status)
			}
		}
		c.all()
		b.do(chromedp.Navigate(s.http.URL + "/" + screen.place))
		b.see(screen.shown)
		got := c.all()
		t.Logf("%6d %s", got, screen.place)
		if got > screen.most || got < 20_000 {
			t.Errorf("%s: %d bytes were sent, at most %d are wanted", screen.place, got, screen.most)
		}
	}
}
