package call

import (
	"fmt"

	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// Remote is what another process has, besides its runtime.
type Remote struct {
	Secrets []string // the names of those of the program that it has
	Nonce   string   // a random word
	Hooked  bool     // plugins have hooks
}

// Stand makes a Caller that prepares the calls which other processes make; it makes none itself. rt describes what they
// have. In place of each secret it has a mark, so arguments with secrets are checked where the call is made.
func Stand(p *program.Program, rt *runtime.Runtime, there Remote) *Caller {
	offers := rt.Resolve()
	c := &Caller{Offers: offers, rt: offers.Runtime, uses: p.Tools,
		tools: make([]boundTool, len(p.Tools)), remote: &there, secrets: map[string]string{}}
	if c.rt.Env != nil {
		c.env = c.rt.Env.Tools()
	}
	c.bindTools(p)
	c.Diagnostics, c.Off = nil, nil // the other process has reported them
	var marks []string
	for _, name := range there.Secrets {
		mark := fmt.Sprintf("{{secret:%s:%s}}", name, there.Nonce)
		c.secrets[name] = mark
		marks = append(marks, mark)
	}
	if marks != nil {
		c.Redact = value.NewRedactor(marks)
	}
	return c
}

// Known returns the names of the program's secrets that the runtime has, in their order.
func (c *Caller) Known(p *program.Program) (names []string) {
	for _, u := range p.Secrets {
		if _, ok := c.secrets[u.Name]; ok {
			names = append(names, u.Name)
		}
	}
	return names
}
