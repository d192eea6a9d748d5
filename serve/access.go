package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/diagnostics"
)

// Role is what somebody may do. Roles are sets: somebody may have several.
type Role string

// The roles.
const (
	Read    Role = "read"    // look at everything
	Answer  Role = "answer"  // see and answer pauses
	Start   Role = "start"   // begin runs
	Operate Role = "operate" // everything
)

// Roles returns all roles.
func Roles() []Role { return []Role{Read, Answer, Start, Operate} }

// Access says who may do what. The zero Access lets nobody in.
type Access struct {
	Tokens []Token // nil: nobody has one
	Proxy  *Proxy  // names the users whom a proxy has let in; nil: there is none
	// Hosts are the names under which the server is reached, without ports, besides loopback ones and the address that
	// it listens on. Requests with another Host are refused, so that no foreign page reaches the server by a name
	// of its own.
	Hosts []string
}

// Token lets somebody in who has its secret.
type Token struct {
	Name    string   // of its owner: what runs record as By
	Secret  string   // at least 16 bytes
	Roles   []Role   // at least one
	Recipes []string // the only recipes, and runs of recipes, that there are for it; nil: all
	Groups  []string // of its owner, for pauses that only some people may answer; nil: none
}

// String keeps the secret out of texts.
func (t Token) String() string { return fmt.Sprintf("token %q", t.Name) }

// GoString keeps the secret out of texts.
func (t Token) GoString() string { return t.String() }

// LogValue keeps the secret out of logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Proxy is a proxy that knows who users are, and says so in headers. If it also says in X-Forwarded-For where requests
// come from, wrong tokens count for that address, else for the proxy's.
type Proxy struct {
	From   []netip.Prefix    // its addresses; the headers in requests from anybody else are refused
	User   string            // the header with the user's name. Defaults to X-Forwarded-User
	Groups string            // the header with the user's groups, with commas between. Defaults to X-Forwarded-Groups
	Roles  map[Role][]string // the users and groups that have a role; "*": everybody whom the proxy lets in
}

func (p *Proxy) headers() (user, groups string) {
	user, groups = "X-Forwarded-User", "X-Forwarded-Groups"
	if p.User != "" {
		user = p.User
	}
	if p.Groups != "" {
		groups = p.Groups
	}
	return user, groups
}

// has reports whether an address is one of the proxy.
func (p *Proxy) has(a netip.Addr) bool {
	return slices.ContainsFunc(p.From, func(from netip.Prefix) bool { return from.Contains(a) })
}

// minSecret is how many bytes the secret of a token has at least.
const minSecret = 16

func (a *Access) check() error {
	names := map[string]bool{}
	for _, t := range a.Tokens {
		switch {
		case t.Name == "" || names[t.Name]:
			return fmt.Errorf("%v: its name is empty or repeated", t)
		case len(t.Secret) < minSecret:
			return fmt.Errorf("%v has %d bytes\n  hint: at least %d are needed", t, len(t.Secret), minSecret)
		case strings.ContainsFunc(t.Secret, func(r rune) bool { return r <= ' ' || r > '~' }):
			return fmt.Errorf("%v cannot be sent in a header\n  hint: use letters and digits", t)
		case len(t.Roles) == 0:
			return fmt.Errorf("%v has no roles", t)
		}
		names[t.Name] = true
		if err := known(t.Roles); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	if a.Proxy == nil {
		return nil
	}
	if len(a.Proxy.From) == 0 {
		return errors.New("proxy: it has no addresses\n  hint: without them, anybody could send its headers")
	}
	if err := known(slices.Sorted(maps.Keys(a.Proxy.Roles))); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

func known(roles []Role) error {
	for _, r := range roles {
		if !slices.Contains(Roles(), r) {
			return fmt.Errorf("unknown role %q\n  hint: it is read, answer, start or operate", r)
		}
	}
	return nil
}

// person is who sends a request.
type person struct {
	name    string
	groups  []string
	roles   []Role
	recipes []string // nil: all
}

// may reports whether the person has one of the roles.
func (p *person) may(roles ...Role) bool {
	return slices.ContainsFunc(p.roles, func(r Role) bool { return r == Operate || slices.Contains(roles, r) })
}

// sees reports whether there are a recipe and its runs for the person.
func (p *person) sees(recipe string) bool {
	return p.recipes == nil || slices.Contains(p.recipes, recipe)
}

// gate finds out who sends a request.
type gate struct {
	Access
	tokens []hashed
	wrong  limiter
}

// hashed is what is compared of a token.
type hashed struct {
	sum, cookie [sha256.Size]byte
	person      *person
}

const cookieName = "braise"

func newGate(a Access) *gate {
	g := &gate{Access: a}
	for _, t := range a.Tokens {
		g.tokens = append(g.tokens, hashed{sha256.Sum256([]byte(t.Secret)), sha256.Sum256([]byte(cookieOf(t.Secret))),
			&person{name: t.Name, groups: t.Groups, roles: t.Roles, recipes: t.Recipes}})
	}
	return g
}

// cookieOf is what a browser keeps of a secret: it lets in like the secret, and does not tell it. Every server with the
// same tokens takes it.
func cookieOf(secret string) string {
	sum := sha256.Sum256([]byte("braise cookie\x00" + secret))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// who returns who sends a request; nil: nobody that is known, and that is no error.
func (g *gate) who(r *http.Request) (*person, error) {
	if p, err := g.forwarded(r); p != nil || err != nil {
		return p, err
	}
	if auth := r.Header.Get("Authorization"); auth != "" {
		scheme, secret, _ := strings.Cut(auth, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return nil, fail(http.StatusUnauthorized, "access.token", "the header Authorization has the scheme %.20q"+
				"\n  hint: send Authorization: Bearer TOKEN", scheme)
		}
		return g.bearer(r, strings.TrimSpace(secret))
	}
	if cookie, err := r.Cookie(cookieName); err == nil {
		sum := sha256.Sum256([]byte(cookie.Value))
		return g.find(r, func(h *hashed) []byte { return h.cookie[:] }, sum[:])
	}
	return nil, nil
}

// known returns who sends a request, which must be somebody.
func (g *gate) known(r *http.Request) (*person, error) {
	who, err := g.who(r)
	if who == nil && err == nil {
		err = fail(http.StatusUnauthorized, "access.token", "there is no token"+
			"\n  hint: send Authorization: Bearer TOKEN, or log in")
	}
	return who, err
}

// bearer returns who has a secret.
func (g *gate) bearer(r *http.Request, secret string) (*person, error) {
	sum := sha256.Sum256([]byte(secret))
	return g.find(r, func(h *hashed) []byte { return h.sum[:] }, sum[:])
}

// find compares with all tokens, so that the time it takes tells nothing.
func (g *gate) find(r *http.Request, of func(*hashed) []byte, sum []byte) (*person, error) {
	if err := g.patience(r); err != nil {
		return nil, err
	}
	var found *person
	for i := range g.tokens {
		if subtle.ConstantTimeCompare(of(&g.tokens[i]), sum) == 1 {
			found = g.tokens[i].person
		}
	}
	if found == nil {
		g.mistaken(r)
		return nil, fail(http.StatusUnauthorized, "access.token", "the token is unknown"+
			"\n  hint: send Authorization: Bearer TOKEN with a token of this server")
	}
	return found, nil
}

// patience refuses who has sent too many wrong tokens.
func (g *gate) patience(r *http.Request) error {
	if wait := g.wrong.wait(g.client(r)); wait > 0 {
		p := fail(http.StatusTooManyRequests, "access.tooMany", "there were %d wrong tokens from %s within a minute"+
			"\n  hint: wait for %d s", maxWrong, g.client(r), int(wait.Seconds())+1)
		p.retry = wait
		return p
	}
	return nil
}

// mistaken counts a wrong token.
func (g *gate) mistaken(r *http.Request) { g.wrong.add(g.client(r)) }

// forwarded returns the user whom the proxy names; nil: it names none.
func (g *gate) forwarded(r *http.Request) (*person, error) {
	if g.Proxy == nil {
		return nil, nil
	}
	user, groups := g.Proxy.headers()
	from := g.Proxy.has(address(r))
	for _, name := range []string{user, groups} {
		switch values := r.Header.Values(name); {
		case len(values) > 0 && !from:
			return nil, malformed("access.proxy", "the header %s comes from %s, which is not a proxy"+
				"\n  hint: leave it out, or name the proxy", name, address(r))
		case len(values) > 1:
			return nil, malformed("access.proxy", "the header %s comes twice", name)
		}
	}
	p := &person{name: r.Header.Get(user)}
	if p.name == "" {
		return nil, nil
	}
	for group := range strings.SplitSeq(r.Header.Get(groups), ",") {
		if group = strings.TrimSpace(group); group != "" {
			p.groups = append(p.groups, group)
		}
	}
	for _, role := range Roles() {
		if slices.ContainsFunc(g.Proxy.Roles[role], func(name string) bool {
			return name == "*" || name == p.name || slices.Contains(p.groups, name)
		}) {
			p.roles = append(p.roles, role)
		}
	}
	return p, nil
}

// client is who sends a request: what the proxy says of a request that it passes on, else where the request comes from.
// Each proxy on the way adds to the header whom it has it from, so what stands before the last stranger may be made up.
func (g *gate) client(r *http.Request) netip.Addr {
	at := address(r)
	if g.Proxy == nil {
		return at
	}
	passed := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(passed) {
		from := addressIn(strings.TrimSpace(text))
		if !from.IsValid() || !g.Proxy.has(at) {
			break
		}
		at = from
	}
	return at
}

// address is where a request comes from.
func address(r *http.Request) netip.Addr { return addressIn(r.RemoteAddr) }

// addressIn is the address in a text, which may also have a port; the zero Addr: it has none.
func addressIn(text string) netip.Addr {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone("")
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text, _ = strings.CutSuffix(inner, "]")
	}
	at, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return at.Unmap().WithZone("")
}

// hosted reports whether the Host of a request is a name of the server.
func (g *gate) hosted(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(g.Hosts, func(name string) bool { return strings.EqualFold(name, host) }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	listen, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if listen == nil {
		return ip.IsLoopback()
	}
	at, err := netip.ParseAddrPort(listen.String())
	return ip.IsLoopback() || err == nil && at.Addr().Unmap().WithZone("") == ip.Unmap()
}

// limiter counts wrong tokens. The zero limiter is ready.
type limiter struct {
	mu   sync.Mutex
	seen map[netip.Prefix]tries
}

type tries struct {
	since time.Time
	n     int
}

const (
	maxWrong  = 10 // tokens of an address within wrongTime
	wrongTime = time.Minute
	maxTriers = 10_000 // addresses; beyond, those whose time is over are forgotten, and then all
)

// network is what counts as one address.
func network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// wait returns how long an address has to wait; 0: it has not.
func (l *limiter) wait(a netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.seen[network(a)]
	if left := wrongTime - time.Since(t.since); t.n >= maxWrong && left > 0 {
		return left
	}
	return 0
}

// add counts a wrong token.
func (l *limiter) add(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) >= maxTriers {
		maps.DeleteFunc(l.seen, func(_ netip.Prefix, t tries) bool { return time.Since(t.since) > wrongTime })
		if len(l.seen) >= maxTriers {
			clear(l.seen)
		}
	}
	if l.seen == nil {
		l.seen = map[netip.Prefix]tries{}
	}
	t := l.seen[network(a)]
	if time.Since(t.since) > wrongTime {
		t = tries{since: time.Now()}
	}
	t.n++
	l.seen[network(a)] = t
}

// suggest is a hint that guesses a name.
func suggest(name string, all []string, else_ string) string {
	if guess := diagnostics.DidYouMean(name, all); guess != "" {
		return guess
	}
	return else_
}
