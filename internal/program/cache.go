package program

import (
	"slices"
	"sync"

	"github.com/braise-run/braise/recipe"
)

// Cache keeps programs of the recipes that runs began with: those that were compiled last. The zero Cache is ready, and
// a nil one keeps nothing. It is safe for concurrent use.
type Cache struct {
	mu   sync.Mutex
	kept []kept // the oldest first
}

// kept is a program by the digest of its recipe in the store.
type kept struct {
	digest  string
	program *Program
}

// maxKept is how many programs a Cache keeps.
const maxKept = 64

// Of returns the program of a digest, for runs under these rules. Unless the program is kept, it calls
// read for the recipe. The error is that of read, or a *diagnostics.Error of Compile.
func (c *Cache) Of(digest string, rules Rules, read func() (*recipe.Recipe, error)) (*Program, error) {
	p, err := c.of(digest, read)
	if err != nil {
		return nil, err
	}
	return p.Under(rules)
}

// of is Of for runs of this version.
func (c *Cache) of(digest string, read func() (*recipe.Recipe, error)) (*Program, error) {
	if p := c.find(digest); p != nil {
		return p, nil
	}
	r, err := read()
	if err != nil {
		return nil, err
	}
	p, err := CompileStored(r)
	if err != nil || c == nil || c.find(digest) != nil {
		return p, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept = append(c.kept, kept{digest, p}); len(c.kept) > maxKept {
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	return p, nil
}

// find returns the program that is kept of a digest; nil: none is.
func (c *Cache) find(digest string) *Program {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.kept {
		if k.digest == digest {
			return k.program
		}
	}
	return nil
}
