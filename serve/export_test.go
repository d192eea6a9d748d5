package serve

import (
	"net/netip"
	"time"
)

// Row is a row of the table of routes, for tests.
type Row struct {
	Method, Path, Name string
	Roles              []Role
	Open, Takes        bool
}

// Table returns the table of routes.
func Table() (rows []Row) {
	for _, r := range routes() {
		rows = append(rows, Row{r.method, r.path, r.name, r.roles, r.open, r.takes != nil})
	}
	return rows
}

// Compile compiles the schemas of all bodies; it panics if one is wrong.
func Compile() {
	for _, r := range routes() {
		if r.takes != nil {
			bodySchema(r.takes)
		}
	}
}

// Limiter counts wrong tokens.
type Limiter struct{ limiter }

// Wrong counts a wrong token, and returns how long the address has to wait then.
func (l *Limiter) Wrong(a string) time.Duration {
	l.add(netip.MustParseAddr(a))
	return l.Wait(a)
}

// Wait returns how long an address has to wait.
func (l *Limiter) Wait(a string) time.Duration { return l.wait(netip.MustParseAddr(a)) }

// Hintless are the codes of errors of 4xx that runs, stores and answers have, too, and for which there is no hint.
func Hintless() (codes []string) {
	for code, status := range statuses {
		if status < 500 && hints[code] == "" {
			codes = append(codes, code)
		}
	}
	return codes
}
