package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/serve"
)

// concrete fills in the parameters of a path.
func concrete(path string) string {
	return strings.NewReplacer("{id}", "r1", "{name}", "hello", "{digest}", "d1", "{pause}", "p1", "{path}", "s1",
		"{trigger}", "t1").Replace(path)
}

// served reports whether a lab has a route: those of other handlers are left out.
func served(row serve.Row) bool { return row.Name != "metrics" && row.Name != "hook" }

// serve 6: who lacks a role is refused on every route, and who has no token, too.
func TestRolesOfAllRoutes(t *testing.T) {
	l := newLab(t, nil)
	for _, row := range serve.Table() {
		if row.Roles == nil {
			continue
		}
		in := request{}
		if row.Takes {
			in.body = "{}"
		}
		l.send(row.Method, concrete(row.Path), in).fails(401, "access.token", "Authorization: Bearer TOKEN")
		for role, token := range map[serve.Role]string{serve.Read: reader, serve.Answer: answerer, serve.Start: starter, serve.Operate: operator} {
			in.token = token
			got := l.send(row.Method, concrete(row.Path), in)
			if role == serve.Operate || slices.Contains(row.Roles, role) {
				if got.status == 401 || got.status == 403 {
					t.Errorf("%s %s: %s with role %s: %d", row.Method, row.Path, role, role, got.status)
				}
				continue
			}
			got.fails(403, "access.role", string(row.Roles[0]))
		}
	}
}

// serve 6: every route but those for monitors refuses a Host that is not its own, and a page of another origin.
func TestGuardOfAllRoutes(t *testing.T) {
	l := newLab(t, nil)
	for _, row := range serve.Table() {
		if !served(row) {
			continue
		}
		in := request{token: operator, host: "evil.example"}
		if got := l.send(row.Method, concrete(row.Path), in); row.Open {
			got.is(200)
			continue
		} else {
			got.fails(421, "request.host", "hosts")
		}
		if row.Method == "GET" {
			continue
		}
		for name, header := range map[string]http.Header{
			"Origin": {"Origin": {"https://evil.example"}}, "Sec-Fetch-Site": {"Sec-Fetch-Site": {"cross-site"}},
		} {
			l.send(row.Method, concrete(row.Path), request{token: operator, header: header}).fails(403, "request.origin", name[:0])
		}
		if row.Method != "GET" {
			for _, kind := range []string{"application/x-www-form-urlencoded", "text/plain", "application/json; charset=latin1"} {
				l.send(row.Method, concrete(row.Path), request{token: operator, body: "a=1", header: http.Header{"Content-Type": {kind}}}).
					fails(415, "request.type", "application/json")
			}
		}
	}
	l.send("GET", "/api/v1/me", request{token: reader, host: "localhost:1"}).is(200)
	l.send("GET", "/api/v1/me", request{token: reader, host: "[::1]:1"}).is(200)
	l.send("GET", "/api/v1/me", request{token: reader, host: "10.0.0.1"}).fails(421, "request.host", "")
	named := newLab(t, func(s *serve.Server) { s.Access.Hosts = []string{"braise.example"} })
	named.send("GET", "/api/v1/me", request{token: reader, host: "Braise.example:443"}).is(200)
}

// serve 11: wrong requests have a status, a code and a hint.
func TestBadRequests(t *testing.T) {
	l := newLab(t, nil)
	long := strings.Repeat("r", 200)
	for _, tt := range []struct {
		name, method, path string
		in                 request
		status             int
		code, hint         string
	}{
		{"unknown path", "GET", "/api/v1/rusn", request{token: reader}, 404, "request.path", "/api/v1/runs"},
		{"path that is not clean", "GET", "/api/v1/../v1/runs", request{token: reader}, 404, "request.path", ""},
		{"root", "GET", "/page", request{}, 404, "request.path", "openapi.json"},
		{"unknown method", "PUT", "/api/v1/runs", request{token: operator}, 405, "request.method", "GET"},
		{"unknown parameter", "GET", "/api/v1/runs?limt=1", request{token: reader}, 400, "request.parameter", `"limit"`},
		{"parameter twice", "GET", "/api/v1/runs?recipe=a&recipe=b", request{token: reader}, 400, "request.parameter", ""},
		{"query that cannot be read", "GET", "/api/v1/runs?%zz=1", request{token: reader}, 400, "request.parameter", ""},
		{"unknown phase", "GET", "/api/v1/runs?phase=runing", request{token: reader}, 400, "request.parameter", `"running"`},
		{"limit 0", "GET", "/api/v1/runs?limit=0", request{token: reader}, 400, "request.parameter", "from 1 to 200"},
		{"limit -1", "GET", "/api/v1/runs?limit=-1", request{token: reader}, 400, "request.parameter", "from 1 to 200"},
		{"limit 1e9", "GET", "/api/v1/runs?limit=1e9", request{token: reader}, 400, "request.parameter", "from 1 to 200"},
		{"no time", "GET", "/api/v1/runs?from=yesterday", request{token: reader}, 400, "request.parameter", "2026-01-31"},
		{"label without =", "GET", "/api/v1/runs?label=a", request{token: reader}, 400, "request.parameter", "key=value"},
		{"one label with two values", "GET", "/api/v1/runs?label=a%3D1&label=a%3D2", request{token: reader}, 400, "request.parameter", ""},
		{"no flag", "GET", "/api/v1/runs?oldest=yes", request{token: reader}, 400, "request.parameter", "true or false"},
		{"no cursor", "GET", "/api/v1/runs?after=x", request{token: reader}, 400, "request.cursor", "as it came"},
		{"unknown run", "GET", "/api/v1/runs/nope/events", request{token: reader}, 404, "run.notFound", ""},
		{"run id with a slash", "GET", "/api/v1/runs/a%2Fb/events", request{token: reader}, 400, "request.id", "letters"},
		{"run id ..", "GET", "/api/v1/runs/%2e%2e/events", request{token: reader}, 400, "request.id", "letters"},
		{"run id with NUL", "GET", "/api/v1/runs/a%00b/events", request{token: reader}, 400, "request.id", "letters"},
		{"run id of 200 bytes", "GET", "/api/v1/runs/" + long + "/events", request{token: reader}, 400, "request.id", "128"},
		{"unknown recipe", "GET", "/api/v1/recipes/helo", request{token: reader}, 404, "recipe.unknown", `"hello"`},
		{"unknown digest", "GET", "/api/v1/plans/sha256:00", request{token: reader}, 404, "recipe.unknown", ""},
		{"unknown schema", "GET", "/api/v1/schemas/recip", request{}, 404, "schema.unknown", `"recipe"`},
		{"schema of no configuration", "GET", "/api/v1/schemas/config", request{}, 404, "schema.unknown", "event, outcome, recipe"},
		{"no token", "GET", "/api/v1/me", request{}, 401, "access.token", "log in"},
		{"wrong token", "GET", "/api/v1/me", request{token: "wrong-0123456789abcdef"}, 401, "access.token", "of this server"},
		{"short token", "GET", "/api/v1/me", request{token: "x"}, 401, "access.token", "of this server"},
		{"other scheme", "GET", "/api/v1/me", request{header: http.Header{"Authorization": {"Basic eDp5"}}}, 401, "access.token", "Bearer"},
		{"body that is no JSON", "POST", "/api/v1/login", request{body: "{"}, 400, "request.body", ""},
		{"NaN", "POST", "/api/v1/login", request{body: `{"token": NaN}`}, 400, "request.body", ""},
		{"member twice", "POST", "/api/v1/login", request{body: `{"token": "a", "token": "b"}`}, 400, "request.body", ""},
		{"unknown member", "POST", "/api/v1/login", request{body: `{"tokn": "a"}`}, 400, "request.body", `"token"`},
		{"member in other case", "POST", "/api/v1/login", request{body: `{"token": "a", "Token": "b"}`}, 400, "request.body", `"token"`},
		{"wrong type", "POST", "/api/v1/login", request{body: `{"token": 1}`}, 400, "request.body", ""},
		{"no body", "POST", "/api/v1/login", request{}, 400, "request.body", ""},
		{"10,000 deep", "POST", "/api/v1/login", request{body: strings.Repeat("[", 10_000)}, 400, "request.body", ""},
		{"2 MiB", "POST", "/api/v1/login", request{body: `{"token": "` + strings.Repeat("a", 2<<20) + `"}`}, 413, "request.tooLarge", ""},
		{"Last-Event-ID", "GET", "/api/v1/runs/nope/events?after=-1", request{token: reader}, 400, "request.parameter", "from 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l.TB = t
			l.send(tt.method, tt.path, tt.in).fails(tt.status, tt.code, tt.hint)
		})
	}
}

// Where a request says what a route does not do, it is refused: nothing is ignored.
func TestNothingIsIgnored(t *testing.T) {
	l := newLab(t, nil)
	id := l.run(l.refund, map[string]any{"order": 7})
	path, plan := "/api/v1/runs/"+id, "/api/v1/plans/"+l.refund.Recipe().Digest
	for _, route := range []string{path + "/recover", path + "/pauses/ask/tokens", "/api/v1/logout"} {
		for _, body := range []string{`{"a": 1}`, `[]`, `null`, `1`} {
			l.post(operator, route, body).fails(400, "request.body", "leave it out")
		}
		l.post(operator, route, `{`).fails(400, "request.body", "")
	}
	l.send("DELETE", path, request{token: operator, body: `{"force": true}`}).fails(400, "request.body", "leave it out")
	l.post(operator, path+"/recover", strings.Repeat(" ", 2<<20)).fails(413, "request.tooLarge", "")
	l.post(operator, path+"/recover", `{}`).is(202)
	for query, hint := range map[string]string{
		"draw=json&around=nope": "known here: ask, pay", "draw=json&around=aks": `"ask"`, "draw=svg&open=zzz": "known here: ask, pay", "around=ask": "draw=json",
		"hops=2": "draw=json", "dir=LR": "draw=json", "open=ask": "draw=json", "draw=json&hops=2": "around=STEP",
	} {
		l.get(reader, plan+"?"+query).fails(400, "request.parameter", hint)
	}
	l.get(reader, plan+"?draw=json&around=ask%231&hops=1&open=pay&open=.").is(200)
	for _, query := range []string{"limit=3", "step=ask"} {
		l.send("GET", path+"/events?"+query, request{token: reader, header: http.Header{"Accept": {"text/event-stream"}}}).
			fails(400, "request.parameter", "leave it out")
	}
	l.post(reader, "/api/v1/stream", `{"runs": [{"id": "a"}, {"id": "a"}]}`).fails(400, "request.body", "once")
	l.send("POST", path+"/cancel", request{token: operator, header: http.Header{"Idempotency-Key": {"a"}}}).fails(400, "request.parameter", "starts and forks")
	l.get(reader, path).has(map[string]any{"acts.1": nil})
}

// Every error of 4xx says what to do: those of this table, and (see send) all that a test has seen.
func TestHints(t *testing.T) {
	if codes := serve.Hintless(); len(codes) > 0 {
		t.Errorf("there is no hint for %q", codes)
	}
}

// A body without an end is cut off.
func TestEndlessBody(t *testing.T) {
	l := newLab(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), "POST", l.http.URL+"/api/v1/login", io.MultiReader(strings.NewReader(`{"token": "`), endless{}))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := l.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413", res.StatusCode)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// serve 6: after ten wrong tokens an address has to wait, whatever it sends.
func TestWrongTokens(t *testing.T) {
	l := newLab(t, nil)
	for range 10 {
		l.get("wrong-0123456789abcdef", "/api/v1/runs").fails(401, "access.token", "")
	}
	got := l.get(reader, "/api/v1/runs")
	got.fails(429, "access.tooMany", "wait for")
	if got.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	l.post("", "/api/v1/login", `{"token": "`+reader+`"}`).fails(429, "access.tooMany", "")
	l.get("", "/livez").is(200)
}

// Behind a proxy the address is the client's, as the proxy says it, and no client can choose it.
func TestWrongTokensBehindProxy(t *testing.T) {
	behind := func(from ...string) func(*serve.Server) {
		return func(s *serve.Server) {
			s.Access.Proxy = &serve.Proxy{}
			for _, p := range from {
				s.Access.Proxy.From = append(s.Access.Proxy.From, netip.MustParsePrefix(p))
			}
		}
	}
	l := newLab(t, behind("127.0.0.0/8", "10.0.0.0/8"))
	get := func(l *lab, token string, passed ...string) *response {
		return l.send("GET", "/api/v1/runs", request{token: token, header: http.Header{"X-Forwarded-For": passed}})
	}
	const wrong = "wrong-0123456789abcdef"
	for i := range 10 { // what the client says itself comes first, in a header of its own or not
		get(l, wrong, fmt.Sprintf("203.0.113.%d, 198.51.100.7, 10.0.0.2", i)).fails(401, "access.token", "")
	}
	for _, passed := range []string{"192.0.2.1, ::ffff:198.51.100.7", "198.51.100.7:51234", "[::ffff:198.51.100.7]:443", "[::ffff:198.51.100.7]"} {
		get(l, reader, passed, "10.9.9.9:80").fails(429, "access.tooMany", "wait for")
	}
	get(l, reader, "198.51.100.7, 198.51.100.8").is(200)
	get(l, reader, "198.51.100.7, nonsense").is(200) // then it is the proxy's own
	l.get(reader, "/api/v1/runs").is(200)

	l = newLab(t, behind("10.0.0.0/8")) // and this machine is none
	for i := range 10 {
		get(l, wrong, fmt.Sprintf("203.0.113.%d", i)).fails(401, "access.token", "")
	}
	get(l, reader, "198.51.100.9").fails(429, "access.tooMany", "wait for")
}

func TestLogin(t *testing.T) {
	l := newLab(t, nil)
	res := l.post("", "/api/v1/login", `{"token": "`+reader+`"}`).is(200).has(map[string]any{"name": "rita", "roles": []any{"read"}, "version": "test"})
	set := res.header.Get("Set-Cookie")
	cookie, attributes, _ := strings.Cut(set, ";")
	if attributes != " Path=/; HttpOnly; SameSite=Strict" {
		t.Errorf("cookie %q", set)
	}
	with := func(cookie string) request { return request{header: http.Header{"Cookie": {cookie}}} }
	l.send("GET", "/api/v1/runs", with(cookie)).is(200)
	l.send("GET", "/api/v1/runs", with("braise=x")).fails(401, "access.token", "")
	l.send("GET", "/api/v1/runs", with("braise="+reader)).fails(401, "access.token", "") // the secret is no cookie
	l.get(strings.TrimPrefix(cookie, "braise="), "/api/v1/runs").fails(401, "access.token", "")
	if gone := l.post("", "/api/v1/logout", "").is(204).header.Get("Set-Cookie"); !strings.Contains(gone, "Max-Age=0") {
		t.Errorf("cookie %q", gone)
	}
	l.post("", "/api/v1/login", `{"token": "wrong-0123456789abcdef"}`).fails(401, "access.token", "")

	tls := newLab(t, func(s *serve.Server) { s.URL = "https://braise.example" })
	if set := tls.post("", "/api/v1/login", `{"token": "`+reader+`"}`).is(200).header.Get("Set-Cookie"); !strings.Contains(set, "; Secure") {
		t.Errorf("cookie %q is not Secure", set)
	}
}

func TestProxy(t *testing.T) {
	proxy := func(from string) func(*serve.Server) {
		return func(s *serve.Server) {
			s.Access.Proxy = &serve.Proxy{From: []netip.Prefix{netip.MustParsePrefix(from)}, Roles: map[serve.Role][]string{
				serve.Read: {"*"}, serve.Answer: {"support"}, serve.Operate: {"root"}}}
		}
	}
	as := func(user, groups string) request {
		return request{header: http.Header{"X-Forwarded-User": {user}, "X-Forwarded-Groups": {groups}}}
	}
	l := newLab(t, proxy("127.0.0.0/8"))
	l.send("GET", "/api/v1/me", as("eve", "sales, support")).is(200).has(map[string]any{
		"name": "eve", "groups": []any{"sales", "support"}, "roles": []any{"read", "answer"}})
	l.send("GET", "/api/v1/runs", as("eve", "")).is(200)
	l.get(reader, "/api/v1/me").is(200).has(map[string]any{"name": "rita"})
	l.send("GET", "/api/v1/me", as("", "")).fails(401, "access.token", "")
	l.send("GET", "/api/v1/me", request{header: http.Header{"X-Forwarded-User": {"a", "b"}}}).fails(400, "access.proxy", "")
	elsewhere := newLab(t, proxy("10.0.0.7/32"))
	elsewhere.send("GET", "/api/v1/me", as("root", "")).fails(400, "access.proxy", "name the proxy")
	elsewhere.send("GET", "/api/v1/runs", request{token: reader, header: http.Header{"X-Forwarded-Groups": {"root"}}}).fails(400, "access.proxy", "")
}

func TestValidate(t *testing.T) {
	good := newLab(t, nil).server
	for _, tt := range []struct {
		name string
		make func(*serve.Server)
		want string
	}{
		{"no store", func(s *serve.Server) { s.Store = nil }, "serve: there is no Store"},
		{"short secret", func(s *serve.Server) {
			s.Access.Tokens = []serve.Token{{Name: "x", Secret: "short", Roles: serve.Roles()}}
		},
			"serve: token \"x\" has 5 bytes\n  hint: at least 16 are needed"},
		{"no role", func(s *serve.Server) { s.Access.Tokens = []serve.Token{{Name: "x", Secret: reader}} }, `serve: token "x" has no roles`},
		{"unknown role", func(s *serve.Server) {
			s.Access.Tokens = []serve.Token{{Name: "x", Secret: reader, Roles: []serve.Role{"admin"}}}
		}, "serve: token \"x\": unknown role \"admin\"\n  hint: it is read, answer, start or operate"},
		{"proxy of anybody", func(s *serve.Server) { s.Access.Proxy = &serve.Proxy{} },
			"serve: proxy: it has no addresses\n  hint: without them, anybody could send its headers"},
		{"negative", func(s *serve.Server) { s.MaxBody = -1 }, "serve: MaxBody, MaxQueued or MaxStreams is negative\n  hint: 0 is the default"},
	} {
		s := &serve.Server{Store: good.Store, Access: good.Access}
		tt.make(s)
		if err := s.Validate(); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestMonitors(t *testing.T) {
	drain := make(chan struct{})
	l := newLab(t, func(s *serve.Server) { s.Drain = drain })
	l.get("", "/readyz").is(200).has(map[string]any{"status": "ok"})
	close(drain)
	l.get("", "/readyz").is(503).has(map[string]any{"status": "draining"})
	l.get("", "/livez").is(200)

	away := newLab(t, nil)
	away.store.Close()
	away.get("", "/readyz").is(503).has(map[string]any{"status": "failed"})
	got := away.get(reader, "/api/v1/runs")
	got.fails(503, "store.failed", "again")
	if got.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
}

// The handler works under a prefix.
func TestMounted(t *testing.T) {
	l := newLab(t, nil)
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", l.server.Handler()))
	l.http.Config.Handler = mux
	r, _ := http.NewRequestWithContext(t.Context(), "POST", l.http.URL+"/ops/api/v1/login", strings.NewReader(`{"token": "`+reader+`"}`))
	r.Header.Set("Content-Type", "application/json")
	res, err := l.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if set := res.Header.Get("Set-Cookie"); res.StatusCode != 200 || !strings.Contains(set, "Path=/ops/;") {
		t.Errorf("status %d, cookie %q", res.StatusCode, set)
	}
}

// serve 6: an address has to wait for the rest of the minute; so has its network, if it is IPv6.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l serve.Limiter
		for range 9 {
			if wait := l.Wrong("10.0.0.1"); wait != 0 {
				t.Errorf("wait %v", wait)
			}
		}
		time.Sleep(20 * time.Second)
		if wait := l.Wrong("10.0.0.1"); wait != 40*time.Second {
			t.Errorf("wait %v, want 40 s", wait)
		}
		if wait := l.Wait("10.0.0.2"); wait != 0 {
			t.Errorf("another has to wait %v", wait)
		}
		time.Sleep(40 * time.Second)
		if wait := l.Wait("10.0.0.1"); wait != 0 {
			t.Errorf("wait %v after a minute", wait)
		}
		for range 10 {
			l.Wrong("2001:db8::1")
		}
		if l.Wait("2001:db8::2") == 0 || l.Wait("2001:db8:0:1::1") != 0 {
			t.Error("an IPv6 network is not one address")
		}
		for i := range 20_000 { // many addresses do not fill the memory
			l.Wrong(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}).String())
		}
	})
}

// serve 6: headers have limits in size and time.
func TestHTTP(t *testing.T) {
	l := newLab(t, nil)
	srv := l.server.HTTP("127.0.0.1:0")
	if srv.MaxHeaderBytes != 16<<10 || srv.ReadHeaderTimeout != 5*time.Second || srv.Addr != "127.0.0.1:0" {
		t.Errorf("it has %d bytes, %v and %s", srv.MaxHeaderBytes, srv.ReadHeaderTimeout, srv.Addr)
	}
	limited := httptest.NewUnstartedServer(srv.Handler)
	limited.Config.MaxHeaderBytes = srv.MaxHeaderBytes
	limited.Start()
	defer limited.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", limited.URL+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Long", strings.Repeat("x", 40<<10))
	res, err := limited.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want 431", res.StatusCode)
	}
	defer func() {
		if err, _ := recover().(error); err == nil || err.Error() != "serve: there is no Store" {
			t.Errorf("panic %v", err)
		}
	}()
	(&serve.Server{}).Handler()
}
