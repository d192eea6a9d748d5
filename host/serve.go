package host

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// Serve is the part serve of a configuration: what braise serve does beside the recipes. Names of queues, recipes and
// occasions are as written; who uses them checks them.
type Serve struct {
	Listen    string                // address and port; "": 127.0.0.1:7411
	URL       string                // by which others reach the server, for links; "": http and the address
	Hosts     []string              // names under which others reach it; nil: only the address
	TLS       *TLS                  // nil: no TLS
	Recipes   []string              // files and folders of recipes, as written; nil: none
	Queues    []string              // nil: default
	MaxRuns   int                   // executions at a time; 0: 16
	MaxRunsOf map[string]int        // of single recipes, by name; nil: no limits
	MaxBody   int                   // bytes of a request; 0: 1 MiB
	MaxQueued int                   // runs in a queue; 0: 10,000
	Drain     time.Duration         // of executions when the server stops; 0: 30 s
	Retention time.Duration         // how long runs that have ended are kept; 0: for good
	Tokens    map[string]ServeToken // by the name of who has it; nil: none
	Proxy     *ServeProxy           // that says who asks; nil: none
	Triggers  []ServeTrigger        // sorted by name; nil: none
	Schedules []ServeSchedule       // sorted by name; nil: none
}

// TLS are the files of a certificate and its key, as written.
type TLS struct{ Cert, Key string }

// ServeToken is a token of the API.
type ServeToken struct {
	Token   string
	Roles   []string
	Recipes []string // that it is for; nil: all
	Groups  []string // of its bearer; nil: none
}

// ServeProxy is a proxy that authenticates people, and says in headers who they are.
type ServeProxy struct {
	From         []netip.Prefix
	User, Groups string              // names of headers; Groups may be ""
	Roles        map[string][]string // groups that have a role, "*" is everyone; by role
}

// ServeTrigger begins runs for the requests of another system.
type ServeTrigger struct {
	Name, Recipe, Signature, Secret string
	Queue                           string            // "": the first one
	Inputs                          map[string]any    // with expressions
	Key                             string            // likewise; "": none
	Labels                          map[string]string // nil: none
	// Positions are where the texts of Inputs and Key stand, by path: key, inputs/NAME, inputs/LIST/0.
	Positions map[string]diagnostics.Position
}

// ServeSchedule begins runs at given times.
type ServeSchedule struct {
	Name, Recipe, Cron string
	Zone               *time.Location    // nil: UTC
	Queue              string            // "": the first one
	Inputs             map[string]any    // nil: none
	Labels             map[string]string // nil: none
	Last               bool              // also for the last time that was missed
}

var serveKeys = []string{"listen", "url", "hosts", "tls", "recipes", "queues", "max_runs", "max_body", "max_queued",
	"drain", "retention", "tokens", "proxy", "triggers", "schedules"}

func (r *reader) serve(n *yamlnode.Node) *Serve {
	fields := r.Object(n, serveKeys, map[string]string{"notify": "notify stands at the top of the file"})
	if fields == nil {
		return nil
	}
	s := &Serve{
		Listen: r.text(fields["listen"]), URL: read(r, fields["url"], readURL), Hosts: r.texts(fields["hosts"]),
		TLS: r.tls(fields["tls"]), Recipes: r.texts(fields["recipes"]), Queues: r.texts(fields["queues"]),
		MaxBody:   r.Int(fields["max_body"], 1, math.MaxInt32),
		MaxQueued: r.Int(fields["max_queued"], 1, math.MaxInt32),
		Drain:     read(r, fields["drain"], readDuration),
		Retention: read(r, fields["retention"], (*yamlnode.Reader).Duration),
		Proxy:     r.proxy(fields["proxy"]),
	}
	s.MaxRuns, s.MaxRunsOf = r.maxRuns(fields["max_runs"])
	for _, f := range r.Map(fields["tokens"]) {
		if s.Tokens == nil {
			s.Tokens = map[string]ServeToken{}
		}
		s.Tokens[f.Key] = r.token(f.Value)
	}
	for _, f := range r.sorted(fields["triggers"]) {
		s.Triggers = append(s.Triggers, r.trigger(f))
	}
	for _, f := range r.sorted(fields["schedules"]) {
		s.Schedules = append(s.Schedules, r.schedule(f))
	}
	return s
}

// sorted returns the fields of a mapping with free keys, by key.
func (r *reader) sorted(n *yamlnode.Node) []yamlnode.Field {
	fields := slices.Clone(r.Map(n))
	slices.SortStableFunc(fields, func(a, b yamlnode.Field) int { return strings.Compare(a.Key, b.Key) })
	return fields
}

func (r *reader) tls(n *yamlnode.Node) *TLS {
	fields := r.Object(n, []string{"cert", "key"}, nil)
	if fields == nil {
		return nil
	}
	r.Require(n, fields, "cert", "key")
	return &TLS{Cert: r.text(fields["cert"]), Key: r.text(fields["key"])}
}

// maxRuns reads a number, or numbers by recipe with "*" for all together.
func (r *reader) maxRuns(n *yamlnode.Node) (most int, of map[string]int) {
	if n == nil || n.Kind != yamlnode.Map {
		return r.Int(n, 1, math.MaxInt16), nil
	}
	for _, f := range r.Map(n) {
		limit := r.Int(f.Value, 1, math.MaxInt16)
		if f.Key == "*" {
			most = limit
			continue
		}
		if of == nil {
			of = map[string]int{}
		}
		of[f.Key] = limit
	}
	return most, of
}

func (r *reader) token(n *yamlnode.Node) ServeToken {
	fields := r.Object(n, []string{"token", "roles", "recipes", "groups"}, nil)
	if fields == nil {
		return ServeToken{}
	}
	r.Require(n, fields, "token", "roles")
	r.secret(fields["token"])
	return ServeToken{Token: read(r, fields["token"], readSecret), Roles: r.roles(fields["roles"]),
		Recipes: r.texts(fields["recipes"]), Groups: r.texts(fields["groups"])}
}

// serveRoles are what somebody may do with a server.
var serveRoles = []string{"read", "answer", "start", "operate"}

func (r *reader) roles(n *yamlnode.Node) []string {
	var roles []string
	for _, item := range r.List(n) {
		roles = append(roles, read(r, item, readRole))
	}
	return roles
}

func readRole(r *yamlnode.Reader, n *yamlnode.Node) string { return r.OneOf(n, serveRoles...) }

// readSecret reads a secret that others need to know.
func readSecret(r *yamlnode.Reader, n *yamlnode.Node) string {
	secret := r.Text(n)
	if n != nil && secret != "" && len(secret) < 16 {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "openssl rand -base64 32 makes a good one",
			"%q needs at least 16 bytes", n.Key)
	}
	return secret
}

// readURL reads the URL of a server.
func readURL(r *yamlnode.Reader, n *yamlnode.Node) string {
	text := r.Text(n)
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "https://braise.example.com",
			"%q is not the URL of a server", n.Key)
	}
	return text
}

func (r *reader) proxy(n *yamlnode.Node) *ServeProxy {
	fields := r.Object(n, []string{"from", "user", "groups", "roles"}, nil)
	if fields == nil {
		return nil
	}
	r.Require(n, fields, "from", "user", "roles")
	p := &ServeProxy{User: r.text(fields["user"]), Groups: r.text(fields["groups"])}
	for _, item := range r.List(fields["from"]) {
		p.From = append(p.From, read(r, item, readPrefix))
	}
	for _, f := range r.Map(fields["roles"]) {
		if !slices.Contains(serveRoles, f.Key) {
			r.Errorf(f.Pos, diagnostics.CodeUnknownKey, diagnostics.DidYouMean(f.Key, serveRoles),
				"unknown role %q", f.Key)
		}
		if p.Roles == nil {
			p.Roles = map[string][]string{}
		}
		p.Roles[f.Key] = r.texts(f.Value)
	}
	return p
}

func readPrefix(r *yamlnode.Reader, n *yamlnode.Node) netip.Prefix {
	text := r.Text(n)
	p, err := netip.ParsePrefix(text)
	if a, addrErr := netip.ParseAddr(text); addrErr == nil {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if text != "" && err != nil {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "10.0.0.7/32",
			"%q is not an address or a range of addresses", text)
	}
	return p
}

func (r *reader) trigger(f yamlnode.Field) ServeTrigger {
	fields := r.Object(f.Value, []string{"recipe", "signature", "secret", "queue", "inputs", "key", "labels"}, nil)
	if fields == nil {
		return ServeTrigger{}
	}
	r.Require(f.Value, fields, "recipe", "signature", "secret")
	r.secret(fields["secret"])
	at := map[string]diagnostics.Position{}
	locate(fields["inputs"], "inputs", at)
	locate(fields["key"], "key", at)
	return ServeTrigger{Name: f.Key, Recipe: r.text(fields["recipe"]), Queue: r.text(fields["queue"]),
		Signature: read(r, fields["signature"], func(r *yamlnode.Reader, n *yamlnode.Node) string {
			return r.OneOf(n, "github", "standard")
		}),
		Secret: read(r, fields["secret"], readSecret), Inputs: r.inputs(fields["inputs"]), Key: r.Text(fields["key"]),
		Labels: r.labels(fields["labels"]), Positions: at}
}

// locate adds the positions of the texts in a value.
func locate(n *yamlnode.Node, path string, at map[string]diagnostics.Position) {
	if n == nil {
		return
	}
	if _, ok := n.Value.(string); ok {
		at[path] = n.Pos
	}
	for i, item := range n.Items {
		locate(item, fmt.Sprintf("%s/%d", path, i), at)
	}
	for _, f := range n.Fields {
		locate(f.Value, path+"/"+f.Key, at)
	}
}

// inputs reads the inputs of runs as they are written, with expressions.
func (r *reader) inputs(n *yamlnode.Node) map[string]any {
	r.Map(n) // says what is wrong
	m, _ := n.Decoded().(map[string]any)
	return m
}

func (r *reader) labels(n *yamlnode.Node) map[string]string {
	var labels map[string]string
	for _, f := range r.Map(n) {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[f.Key] = r.text(f.Value)
	}
	return labels
}

func (r *reader) schedule(f yamlnode.Field) ServeSchedule {
	fields := r.Object(f.Value, []string{"recipe", "cron", "zone", "queue", "inputs", "labels", "missed"}, nil)
	if fields == nil {
		return ServeSchedule{}
	}
	r.Require(f.Value, fields, "recipe", "cron")
	return ServeSchedule{Name: f.Key, Recipe: r.text(fields["recipe"]), Cron: r.text(fields["cron"]),
		Zone: read(r, fields["zone"], readZone), Queue: r.text(fields["queue"]), Inputs: r.inputs(fields["inputs"]),
		Labels: r.labels(fields["labels"]),
		Last: read(r, fields["missed"], func(r *yamlnode.Reader, n *yamlnode.Node) string {
			return r.OneOf(n, "skip", "last")
		}) == "last"}
}

func readZone(r *yamlnode.Reader, n *yamlnode.Node) *time.Location {
	name := r.Text(n)
	if name == "" {
		return nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "a name of the IANA time zone database, such as Europe/Berlin",
			"there is no time zone %q", name)
	}
	return zone
}
