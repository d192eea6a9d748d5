package serve_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/postgres"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/workflow"
)

// The secrets of the tests. No response may have one.
const (
	reader   = "reader-0123456789abcdef"
	answerer = "answerer-0123456789abcdef"
	starter  = "starter-0123456789abcdef"
	operator = "operator-0123456789abcdef"
	narrow   = "narrow-0123456789abcdef" // reads and starts runs of one recipe
	hidden   = "hidden-0123456789abcdef" // a secret of the runtime
)

const refund = `apiVersion: braise/v1
name: refund
inputs: {order: integer, note: {type: string, default: none}}
steps:
  ask:
    uses: human
    with: {prompt: "Pay order ${{ inputs.order }}?", decisions: [approve, reject], show: {order: "${{ inputs.order }}"}}
  pay:
    uses: set
    with: {paid: "${{ steps.ask.output.decision == 'approve' }}"}
output: ${{ steps.pay.output.paid }}
`

const hello = `apiVersion: braise/v1
name: hello
inputs: {who: string}
steps:
  greet: {uses: set, with: {text: "Hello, ${{ inputs.who }}"}}
output: ${{ steps.greet.output.text }}
`

func compile(t testing.TB, text string) *workflow.Workflow {
	t.Helper()
	r, err := recipe.Parse("recipe.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// lab is a server on a loopback port, over one store.
type lab struct {
	testing.TB
	store  checkpoint.Store
	rt     *runtime.Runtime // with the store
	server *serve.Server
	http   *httptest.Server
	refund *workflow.Workflow
	hello  *workflow.Workflow
	log    *safeBuffer // of the server
	minted []string    // the secret parts of tokens of pauses: no response but the one that makes one may have it
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// secrets are those of the server, which nothing shows.
var secrets = []string{reader, answerer, starter, operator, narrow, hidden}

// clean fails if a text has a secret.
func (l *lab) clean(about, text string) {
	l.Helper()
	for _, secret := range slices.Concat(secrets, l.minted) {
		if strings.Contains(text, secret) {
			l.Errorf("%s has the secret %s", about, secret)
		}
	}
}

// openPostgres opens a store in a schema of its own, which psql removes in the end. via returns the address of a way to
// the server; nil: the direct one.
func openPostgres(t *testing.T, via func(server string) string) checkpoint.Store {
	t.Helper()
	url := os.Getenv("BRAISE_TEST_POSTGRES")
	if url == "" {
		url = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	}
	psql := func(sql string) error {
		out, err := exec.Command("psql", url, "-v", "ON_ERROR_STOP=1", "-qc", sql).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("NO POSTGRES SERVER OR NO PSQL (set BRAISE_TEST_POSTGRES): %w %s", err, out)
		}
		return err
	}
	if err := psql("SELECT 1"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	schema := "serve_" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		if err := psql("SET client_min_messages = error; DROP SCHEMA IF EXISTS " + schema + " CASCADE"); err != nil {
			t.Error(err)
		}
	})
	at := url
	if via != nil {
		u, err := neturl.Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = via(u.Host)
		at = u.String()
	}
	store, err := postgres.Open(t.Context(), at, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// newLab serves an empty store; change may change the server before.
func newLab(t testing.TB, change func(*serve.Server)) *lab {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return labOf(t, store, change)
}

func labOf(t testing.TB, store checkpoint.Store, change func(*serve.Server)) *lab {
	t.Helper()
	l := &lab{TB: t, store: store, refund: compile(t, refund), hello: compile(t, hello)}
	l.rt = &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, By: "ada"}
	l.server = &serve.Server{Store: store, Runtime: &runtime.Runtime{}, Version: "test",
		Recipes: func() []serve.Recipe {
			return []serve.Recipe{{Name: "hello", Workflow: l.hello, Source: hello}, {Name: "refund", Workflow: l.refund, Source: refund}}
		},
		Access: serve.Access{Tokens: []serve.Token{
			{Name: "rita", Secret: reader, Roles: []serve.Role{serve.Read}},
			{Name: "anton", Secret: answerer, Roles: []serve.Role{serve.Answer}},
			{Name: "stella", Secret: starter, Roles: []serve.Role{serve.Start}},
			{Name: "olga", Secret: operator, Roles: []serve.Role{serve.Operate}},
			{Name: "nora", Secret: narrow, Roles: []serve.Role{serve.Read, serve.Start}, Recipes: []string{"refund"}},
		}}}
	l.log = &safeBuffer{}
	l.server.Logger = slog.New(slog.NewTextHandler(l.log, nil))
	if change != nil {
		change(l.server)
	}
	l.http = httptest.NewUnstartedServer(l.server.Handler())
	l.http.Config.ErrorLog = slog.NewLogLogger(l.server.Logger.Handler(), slog.LevelError)
	l.http.Start()
	t.Cleanup(func() {
		l.http.Close()
		l.clean("the log", l.log.String())
	})
	return l
}

// run executes a run to its end, or first pause, and returns its id.
func (l *lab) run(wf *workflow.Workflow, input map[string]any) string {
	l.Helper()
	out, err := wf.Run(l.Context(), input, l.rt)
	if err != nil {
		l.Fatal(err)
	}
	return out.RunID
}

// request is what a test sends.
type request struct {
	token  string // "": none
	body   string // JSON; "": none
	header http.Header
	host   string
}

// response is what came.
type response struct {
	testing.TB
	status int
	header http.Header
	text   string
}

// send sends a request, and checks the response: that docs/openapi.json describes it, that it has the headers of
// every response, and none of the secrets.
func (l *lab) send(method, path string, in request) *response {
	l.Helper()
	r, err := http.NewRequestWithContext(l.Context(), method, l.http.URL+path, strings.NewReader(in.body))
	if err != nil {
		l.Fatal(err)
	}
	maps.Copy(r.Header, in.header)
	if in.body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if in.token != "" {
		r.Header.Set("Authorization", "Bearer "+in.token)
	}
	r.Host = in.host
	res, err := l.http.Client().Do(r)
	if err != nil {
		l.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		l.Fatalf("%s %s: %v", method, path, err)
	}
	l.clean("the response to "+method+" "+path, string(text)+fmt.Sprint(res.Header))
	if res.StatusCode == http.StatusOK && strings.HasSuffix(path, "/tokens") {
		var made struct{ Token string }
		if err := json.Unmarshal(text, &made); err != nil || len(made.Token) < 32 {
			l.Fatal(err, made)
		}
		l.minted = append(l.minted, made.Token[len(made.Token)-32:])
	}
	checkResponse(l, r, res, text)
	return &response{l, res.StatusCode, res.Header, string(text)}
}

func (l *lab) get(token, path string) *response {
	l.Helper()
	return l.send("GET", path, request{token: token})
}

func (l *lab) post(token, path, body string) *response {
	l.Helper()
	return l.send("POST", path, request{token: token, body: body})
}

// is fails unless the response has the status.
func (r *response) is(status int) *response {
	r.Helper()
	if r.status != status {
		r.Fatalf("status %d, want %d: %s", r.status, status, r.text)
	}
	return r
}

// json decodes the body.
func (r *response) json() map[string]any {
	r.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(r.text), &m); err != nil {
		r.Fatalf("%v: %q", err, r.text)
	}
	return m
}

// has compares members of the body, by path with dots, with what is wanted.
func (r *response) has(want map[string]any) *response {
	r.Helper()
	body := r.json()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if diff := cmp.Diff(want[path], at(body, path)); diff != "" {
			r.Errorf("%s (-want +got)\n%sin %s", path, diff, r.text)
		}
	}
	return r
}

// at returns a member of decoded JSON; numbers count in lists.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch of := v.(type) {
		case map[string]any:
			v = of[name]
		case []any:
			i := -1
			if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

// fails checks the status, the code and a part of the hint of an error; send has checked that there is one.
func (r *response) fails(status int, code, hint string) {
	r.Helper()
	if got := at(r.json(), "error.code"); r.status != status || got != code {
		r.Errorf("%d %v, want %d %s: %s", r.status, got, status, code, r.text)
	}
	if got, _ := at(r.json(), "error.hint").(string); !strings.Contains(got, hint) {
		r.Errorf("hint %q, want %q in it: %s", got, hint, r.text)
	}
}

// document is docs/openapi.json.
var document = sync.OnceValue(func() *openapi3.T {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(serve.OpenAPI())
	if err == nil {
		err = doc.Validate(context.Background())
	}
	if err != nil {
		panic(err)
	}
	return doc
})

// operation finds the route of a request; nil: there is none.
func operation(r *http.Request, path string) *routers.Route {
	for _, pattern := range slices.Sorted(maps.Keys(document().Paths.Map())) {
		item := document().Paths.Value(pattern)
		if !fits(pattern, path) {
			continue
		}
		if op := item.GetOperation(r.Method); op != nil {
			return &routers.Route{Spec: document(), Path: pattern, PathItem: item, Method: r.Method, Operation: op}
		}
	}
	return nil
}

func fits(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if !strings.HasPrefix(want[i], "{") && want[i] != got[i] || got[i] == "" && i > 0 {
			return false
		}
	}
	return true
}

// checkResponse fails the test if a response is not as all responses should be.
func checkResponse(t testing.TB, r *http.Request, res *http.Response, text []byte) {
	t.Helper()
	about := fmt.Sprintf("%s %s: %d", r.Method, r.URL.Path, res.StatusCode)
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", about, name, got, want)
		}
	}
	if csp := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; ") {
		t.Errorf("%s: Content-Security-Policy is %q", about, csp)
	}
	if res.StatusCode >= 400 && res.StatusCode < 500 && r.Method != http.MethodHead { // serve 11: each says what to do
		var failed struct {
			Error struct{ Message, Hint string }
		}
		if err := json.Unmarshal(text, &failed); err != nil || failed.Error.Hint == "" || failed.Error.Hint == failed.Error.Message {
			t.Errorf("%s: there is no hint: %s", about, text)
		}
	}
	route := operation(r, r.URL.EscapedPath())
	if route == nil {
		if res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusMethodNotAllowed && res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s: docs/openapi.json has no such route", about)
		}
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, Route: route},
		Status:                 res.StatusCode, Header: res.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if r.Method == http.MethodHead || res.StatusCode == http.StatusNotModified || res.StatusCode == http.StatusNoContent {
		input.Options.ExcludeResponseBody = true
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		input.Options.ExcludeResponseBody = true // no schema has more to say about text
	}
	if err := openapi3filter.ValidateResponse(t.Context(), input.SetBodyBytes(text)); err != nil {
		t.Errorf("%s: the response is not as described: %v", about, err)
	}
}

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // tests wait more than they work
	goleak.VerifyTestMain(m)
}

// await waits until the store has a run.
func (l *lab) await(id string) {
	l.Helper()
	l.until(func() bool {
		_, _, err := l.store.Load(l.Context(), id, 0)
		return err == nil
	})
}

// awaitSignal waits until a run has a signal that nobody has carried out.
func (l *lab) awaitSignal(id string) {
	l.Helper()
	l.until(func() bool {
		open, err := l.store.(checkpoint.Signals).Signals(l.Context(), id, true)
		return err == nil && len(open) > 0
	})
}

// until looks again whenever the store says that something has changed.
func (l *lab) until(enough func() bool) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 2*time.Minute)
	defer cancel()
	found := false
	_ = l.store.(checkpoint.Watcher).Watch(ctx, func(string) {
		if enough() {
			found = true
			cancel()
		}
	})
	if !found {
		l.Error("it did not happen within 2 minutes")
	}
}

// sign signs a body as GitHub does.
func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
