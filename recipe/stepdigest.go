package recipe

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/braise-run/braise/internal/value"
)

// maxSteps limits the paths of StepDigests: as many as a workflow may have steps.
const maxSteps = 100_000

// StepDigests returns a digest of each step, 32 hex digits, by its path: send, or outer/inner for a
// step in the body of another, in place or in a file; outer/left/inner in a branch or a case that is
// called left. The wait between the rounds of a loop is a step, too: outer/.wait. A digest changes
// when the step says something else: anything but its description, its tags and x-* keys. For a step
// with bodies that includes which steps each has, whatever their order, and its output, but not what
// those steps say; for a recipe in a file also the inputs that it declares.
//
// Of what the file says beside its steps, the default model counts for model steps that name none,
// the kind of a channel for steps that use it, and all consts for steps that mention consts. Other
// defaults do not count.
//
// The error says that a value is not decoded JSON, that there are more than 100,000 steps, or that
// bodies are nested too deeply.
func (r *Recipe) StepDigests() (map[string]string, error) {
	d := stepDigests{
		paths: map[string]string{}, steps: map[*Step]string{}, files: map[*Recipe]string{},
		consts: map[*Recipe]string{}, channels: map[*Recipe]map[string]any{},
		tools: digests{}, inGo: r.inGo,
	}
	if err := d.file(r, "", 0); err != nil {
		return nil, err
	}
	return d.paths, nil
}

// stepDigests holds digests by path, and those of what many paths share.
type stepDigests struct {
	paths    map[string]string
	count    int
	steps    map[*Step]string
	files    map[*Recipe]string // of what counts of a file for a step that calls it
	consts   map[*Recipe]string
	channels map[*Recipe]map[string]any // not digests, but kinds by name
	tools    digests                    // of the tools that agents may call
	inGo     map[string]string          // of agents that are written in Go, by name
}

// file adds the steps of a file, and those below them.
func (d *stepDigests) file(r *Recipe, prefix string, depth int) error {
	if err := d.add(r, r.Steps, prefix, depth); err != nil {
		return err
	}
	return d.add(r, r.Finally, prefix, depth)
}

// add adds steps that stand in the file r, and those below them.
func (d *stepDigests) add(r *Recipe, steps []Step, prefix string, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("recipe %q has bodies that are nested more than %d deep", r.Name, maxNesting)
	}
	for i := range steps {
		if d.count++; d.count > maxSteps {
			return fmt.Errorf("recipe %q has more than %d steps", r.Name, maxSteps)
		}
		s := &steps[i]
		path := prefix + s.ID
		digest, err := once(d.steps, s, func() (string, error) { return d.step(r, s) })
		if err != nil {
			return fmt.Errorf("step %q: %w", path, err)
		}
		d.paths[path] = digest
		if l := s.Loop; l != nil && l.Wait != nil {
			if d.paths[path+"/"+WaitID], err = d.sum(r, []any{"wait", l.Wait.Decoded()}); err != nil {
				return fmt.Errorf("step %q: %w", path, err)
			}
		}
		for name, b := range s.Bodies() {
			inside := path + "/"
			if name != "" {
				inside += name + "/"
			}
			var err error
			if b.Recipe != nil {
				err = d.file(b.Recipe, inside, depth+1)
			} else {
				err = d.add(r, b.Steps, inside, depth+1)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// once computes a digest if it is not known yet.
func once[K comparable](known map[K]string, key K, compute func() (string, error)) (string, error) {
	digest, ok := known[key]
	if !ok {
		var err error
		if digest, err = compute(); err != nil {
			return "", err
		}
		known[key] = digest
	}
	return digest, nil
}

func (d *stepDigests) step(r *Recipe, s *Step) (string, error) {
	e := s.essence()
	if s.Uses.Text == "model" && s.With.get("model") == nil {
		e["model"] = r.Defaults.Model
	}
	if s.Uses.Text == "agent" {
		agents := r.AgentsOf(s)
		e["model"], e["agents"] = r.Defaults.Model, agentsEssence(agents)
		if own := d.inGoOf(r, s); len(own) > 0 {
			e["agentsInGo"] = inGoEssence(own)
		}
		if names := r.ToolsOf(agents, s.Uses.Pos, false); names != nil {
			var err error
			if e["tools"], err = d.tools.tools(r, names); err != nil {
				return "", err
			}
		}
	}
	if channel := s.channel(); channel != "" {
		if d.channels[r] == nil {
			d.channels[r] = channelsEssence(r)
		}
		e["channel"] = d.channels[r][channel]
	}
	for name, b := range s.Bodies() {
		body := map[string]any{"inputs": b.Inputs.Decoded(), "steps": ids(b.Steps), "output": b.Output.Decoded()}
		if b.Recipe == nil {
			body["ref"] = b.Ref.Text
		} else {
			file, err := once(d.files, b.Recipe, func() (string, error) { return d.called(b.Recipe) })
			if err != nil {
				return "", err
			}
			body["file"] = file
		}
		e[bodyKey(name)] = body
	}
	return d.sum(r, e)
}

// called is of what counts of r for a step that calls it.
func (d *stepDigests) called(r *Recipe) (string, error) {
	e := map[string]any{
		"inputs": inputsEssence(r.Inputs), "steps": ids(r.Steps), "output": r.Output.Decoded(),
	}
	if r.Finally != nil {
		e["finally"] = ids(r.Finally)
	}
	return d.sum(r, e)
}

// sum returns the digest of e, and of the consts of r if e mentions them.
func (d *stepDigests) sum(r *Recipe, e any) (string, error) {
	text, err := value.JSON(e)
	if err == nil && bytes.Contains(text, []byte("consts")) {
		var consts string
		consts, err = once(d.consts, r, func() (string, error) {
			text, err := value.JSON(constsEssence(r))
			return short(text), err
		})
		text = append(text, consts...)
	}
	if err != nil {
		return "", err
	}
	return short(text), nil
}

func short(text []byte) string {
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%x", sum[:16])
}

// ids returns the ids of steps, sorted.
func ids(steps []Step) []any {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.ID
	}
	slices.Sort(names)
	return anys(names)
}
