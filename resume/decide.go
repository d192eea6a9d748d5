package resume

import (
	"regexp"
	"strings"
)

// Step is a step of a definition.
type Step struct {
	// Path is where the step stands in the definition: send, verify/check. The steps of its body
	// have paths below its own.
	Path string
	// Digest is of all that the step says itself: its needs, its expressions, and which steps its
	// body has, but not what those say.
	Digest string
	// After has the paths of the steps that come before it, by data or by order.
	After []string
}

// Decide says which recorded steps still stand under a definition. recorded has, by the path in the
// run (verify[2]/check, draft#3/score), the digest of every step that began or was skipped, as it
// was then. The result holds the paths that stand. It holds a step with a body only if all that was
// recorded of the body stands; where it does not, steps inside may stand on their own.
//
// A step stands unless it says something else now, or follows from something that does not stand:
// a step before it, before the step whose body it is in, or in an earlier round of a loop. A step
// before it that is not in the record is a new one, and does not stand. Items and rounds share a
// definition, so they change together.
//
// again has the paths of more steps that are to run again, with all that follows from them: a fork
// at a step shares what stands without it. A path that is not in steps is passed over.
func Decide(steps []Step, recorded map[string]string, again ...string) map[string]bool {
	// 1. Lay out what follows from what.
	digests, began := map[string]string{}, map[string]bool{}
	for _, s := range steps {
		digests[s.Path] = s.Digest
	}
	for path := range recorded {
		began[DefinitionPath(path)] = true
	}
	followers, body, owner := map[string][]string{}, map[string][]string{}, map[string]string{}
	for _, s := range steps {
		for _, a := range s.After {
			followers[a] = append(followers[a], s.Path)
		}
		if o := ownerOf(s.Path, digests); o != "" {
			body[o], owner[s.Path] = append(body[o], s.Path), o
		}
	}

	// 2. Let steps fall with all that is in them, and break those in which one fell: their output
	//    is no good. A step that never began has nothing to lose, and nothing came of it.
	fallen, broken := map[string]bool{}, map[string]bool{}
	var fall, breakUp func(path string)
	fall = func(path string) {
		if !began[path] || fallen[path] {
			return
		}
		fallen[path] = true
		for _, inside := range body[path] {
			fall(inside)
		}
		breakUp(path)
	}
	breakUp = func(path string) {
		if broken[path] {
			return
		}
		broken[path] = true
		for _, next := range followers[path] {
			fall(next)
		}
		breakUp(owner[path])
	}
	for path, digest := range recorded {
		p := DefinitionPath(path)
		if now, ok := digests[p]; !ok || now != digest {
			fall(p)
		}
	}
	for _, s := range steps {
		for _, a := range s.After {
			if !began[a] {
				fall(s.Path)
			}
		}
	}
	for _, path := range again {
		fall(DefinitionPath(path))
	}

	// 3. Take what is left.
	stands := map[string]bool{}
	for path := range recorded {
		if !broken[DefinitionPath(path)] && !inLaterRound(path, broken) {
			stands[path] = true
		}
	}
	return stands
}

// numbers are those of items and rounds in a path.
var numbers = regexp.MustCompile(`\[[0-9]+\]|#[0-9]+`)

// DefinitionPath returns the path in the recipe of a step with a path in a run: without the numbers of
// items and rounds. For verify[2]/draft#3/score it is verify/draft/score.
func DefinitionPath(path string) string {
	if !strings.ContainsAny(path, "[#") {
		return path
	}
	return numbers.ReplaceAllLiteralString(path, "")
}

// ownerOf returns the step in whose body a path is, "" if in none. The name of a branch or a case
// may stand between the two.
func ownerOf(path string, steps map[string]string) string {
	for {
		end := strings.LastIndexByte(path, '/')
		if end < 0 {
			return ""
		}
		path = path[:end]
		if _, ok := steps[path]; ok {
			return path
		}
	}
}

// inLaterRound reports whether a path is in a later round than the first of one of these loops.
func inLaterRound(path string, loops map[string]bool) bool {
	for end := range len(path) {
		if path[end] != '/' {
			continue
		}
		name := path[strings.LastIndexByte(path[:end], '/')+1 : end]
		_, round, ok := strings.Cut(name, "#")
		if ok && round != "1" && loops[DefinitionPath(path[:end])] {
			return true
		}
	}
	return false
}
