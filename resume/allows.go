package resume

import (
	"fmt"
	"slices"
)

// Allows returns an error if a person may not answer the pause. by is who answers and groups are the groups of that
// person; startedBy is who began the run. All are names that the host gives. "" stands for a name that is not known.
//
// With To, by or one of groups must be in it. With FourEyes, both by and startedBy must be known, and differ. Names are
// compared as they are, so a host must always give a person the same name.
//
// Allows knows nothing of tokens: whoever has one may answer. An expiry is nobody's answer.
func (p *Pause) Allows(by string, groups []string, startedBy string) error {
	if len(p.To) > 0 {
		in := func(name string) bool { return slices.Contains(p.To, name) }
		switch {
		case in(by) || slices.ContainsFunc(groups, in):
		case by == "":
			return fmt.Errorf("%s: it is not known who answers\n  hint: %s may answer", p, oneOf(p.To))
		default:
			return fmt.Errorf("%s: %q may not answer\n  hint: %s may answer", p, by, oneOf(p.To))
		}
	}
	switch {
	case !p.FourEyes:
		return nil
	case by == "":
		return fmt.Errorf("%s: it is not known who answers\n  hint: anybody may answer but who began the run, as the "+
			"step has four_eyes", p)
	case startedBy == "":
		return fmt.Errorf("%s: it is not known who began the run, who may not answer\n  hint: the step has four_eyes; "+
			"begin the run by a host that says who begins it", p)
	case by == startedBy:
		return fmt.Errorf("%s: %q began the run, and may not answer\n  hint: another person must answer, as the "+
			"step has four_eyes", p, by)
	}
	return nil
}
