package program

import "sync"

// Rules are those by which a run goes on: they are of the version that began it, and its beginning records them.
type Rules struct {
	// Listed says that agents have the tools that they list. Without it those that list none have all, and an unknown
	// name is a warning.
	Listed bool
	// Escaped says that what expressions put into URLs of http.request is escaped.
	Escaped bool
	// Retrieves says that an agent whose retrieve has no top_k retrieves as many documents as a step. Without it that
	// agent retrieves none.
	Retrieves bool
	// Errors says that the error of a step, as expressions see it, has the reason, the status and the step that failed
	// first. Without it there are the category, the code and the message.
	Errors bool
	// Skips says that a step with the trigger none_failed runs also after needs that were skipped because of their own
	// needs, unless one of these failed. Without it that step is skipped.
	Skips bool
}

// Now are the rules of runs that begin.
var Now = Rules{Listed: true, Escaped: true, Retrieves: true, Errors: true, Skips: true}

// among returns the rules that matter where only those of the other matter.
func (r Rules) among(of Rules) Rules {
	return Rules{r.Listed && of.Listed, r.Escaped && of.Escaped, r.Retrieves && of.Retrieves,
		r.Errors && of.Errors, r.Skips && of.Skips}
}

// ruled makes the programs of a recipe by other rules, each once.
type ruled struct {
	matter  Rules // to the recipe: others make no difference
	compile func(Rules) (*Program, error)

	mu   sync.Mutex
	made map[Rules]func() (*Program, error)
}

func (o *ruled) under(r Rules) (*Program, error) {
	o.mu.Lock()
	of := o.made[r]
	if of == nil {
		if of = sync.OnceValues(func() (*Program, error) { return o.compile(r) }); o.made == nil {
			o.made = map[Rules]func() (*Program, error){}
		}
		o.made[r] = of
	}
	o.mu.Unlock()
	return of()
}

// Rules are what the beginning of a run records: of the rules of now those that matter to the program.
func (p *Program) Rules() Rules { return p.rules.among(p.others.matter) }

// Under returns the program for a run that began under other rules.
func (p *Program) Under(r Rules) (*Program, error) {
	if r = r.among(p.others.matter); r == p.Rules() {
		return p, nil
	}
	return p.others.under(r)
}

// Earlier reports whether runs of the program began when agents that list no tools had all of them.
func (p *Program) Earlier() bool { return p.others.matter.Listed && !p.rules.Listed }
