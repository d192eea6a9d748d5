package recipe

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// Tool is a tool that a recipe defines.
type Tool struct {
	Name        string
	Pos         diagnostics.Position // of the name
	Description string
	Effect      string // read_only, idempotent or external; "" when not given
	EffectPos   diagnostics.Position
	// Body is what the tool does: another file, or steps in place, which [Body.Recipe] holds with the tool's inputs as
	// if they stood in a file of their own.
	Body *Body

	uses []Name // the tools of the recipe that its steps use, also by agents
}

// toolName is what names of tools look like that recipes define.
var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)+$`)

const toolNameHint = "it has a dot, like crm.lookup, and up to 48 letters, digits, _ and -"

// reservedTools are the names, and beginnings of names, of tools that recipes cannot define.
var reservedTools = []string{"http.request", "file.read", "file.write", "exec.run", "human.ask", "docs.search",
	"agent.", "state.get", "state.put", "mcp.", "memory.", "delegate_", "handoff_"}

// ReservedTool returns the reserved name, or beginning of names, that a name of a tool collides with; "": none.
func ReservedTool(name string) string {
	for _, r := range reservedTools {
		if name == r || strings.HasPrefix(name, r) && strings.IndexAny(r, "._") == len(r)-1 {
			return r
		}
	}
	return ""
}

// Tools returns the tools that the recipe defines, in the order of the file.
func (r *Recipe) Tools() []*Tool { return r.tools }

// ToolOf returns, for the steps of a tool that stand in place, the recipe that defines the tool; they read its inputs,
// too. nil: the recipe is no tool's, or a file.
func (r *Recipe) ToolOf() *Recipe { return r.toolOf }

// Tool returns the tool of a name that the recipe defines; nil: it defines none.
func (r *Recipe) Tool(name string) *Tool {
	for _, t := range r.tools {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// declareTools notes the names of the tools, which steps may use wherever they stand.
func (w *walker) declareTools(fields []yamlnode.Field) {
	for _, f := range fields {
		switch r := ReservedTool(f.Key); {
		case !toolName.MatchString(f.Key) || len(f.Key) > 48:
			w.Errorf(f.Pos, diagnostics.CodeInvalidValue, toolNameHint, "%q cannot be the name of a tool", f.Key)
		case r == f.Key:
			w.Errorf(f.Pos, diagnostics.CodeDuplicateName, "choose another name",
				"%q is the name of a built-in tool", r)
		case r != "":
			w.Errorf(f.Pos, diagnostics.CodeDuplicateName, "choose another name",
				"names of tools that begin with %q are reserved", r)
		}
		w.recipe.tools = append(w.recipe.tools, &Tool{Name: f.Key, Pos: f.Pos})
	}
}

// tools reads the tools. The steps of each see its inputs, and those, the consts, defaults, agents and tools of the
// file.
func (w *walker) tools(list []yamlnode.Field) {
	for i, f := range list {
		t := w.recipe.tools[i]
		fields := w.object(f.Value, toolObject)
		if fields == nil {
			continue
		}
		t.Description = w.String(fields["description"])
		if t.Effect = w.word(fields, toolObject, "effect"); t.Effect != "" {
			t.EffectPos = fields["effect"].Pos
		}
		sends, receives := len(w.sends), len(w.receives)
		given := fields["inputs"]
		delete(fields, "inputs")
		t.Body = w.body(f.Value, fields, nil, false)
		if t.Body == nil || t.Body.Ref.Text != "" {
			w.exclude(given, "the file declares its own inputs")
			continue
		}
		if t.Description == "" {
			w.Errorf(f.Pos, diagnostics.CodeMissingKey, "say what it is for: models read it",
				"tool %q needs the key %q", t.Name, "description")
		}
		inside := w.recipe
		t.Body.Recipe = &Recipe{File: inside.File, Name: t.Name, Description: t.Description, Inputs: w.inputs(given),
			Consts: inside.Consts, Defaults: inside.Defaults, Steps: t.Body.Steps,
			Output: t.Body.Output, beside: beside{toolOf: inside}}
		t.Body.Ref = Name{Text: t.Name, Pos: t.Pos}
		t.Body.Steps, t.Body.Output = nil, nil
		for _, used := range [][]Name{w.sends[sends:], w.receives[receives:]} {
			for _, name := range used {
				w.Errorf(name.Pos, diagnostics.CodeInvalidValue, "give it what it needs as inputs",
					"a tool has no channels")
			}
		}
		w.sends, w.receives = w.sends[:sends], w.receives[:receives]
	}
}

// useTool makes a step one that runs a tool of its recipe; false: the recipe defines none of that name.
func (w *walker) useTool(step *Step, with *yamlnode.Node) bool {
	t := w.recipe.Tool(step.Uses.Text)
	if t == nil {
		return false
	}
	step.Body = &Body{Pos: step.Uses.Pos, Ref: step.Uses, Inputs: w.mapping(with), Tool: t}
	w.calls = append(w.calls, step.Body)
	return true
}

// linkTools lets steps find the recipes of the tools that they run, and the tools their agents. A tool that calls
// itself, also by agents, is an error.
func (w *walker) linkTools() {
	r := w.recipe
	for _, b := range w.calls {
		if b.Tool.Body != nil {
			b.Recipe = b.Tool.Body.Recipe
		}
	}
	for _, t := range r.tools {
		if t.Body != nil && t.Body.Recipe != nil && t.Body.Recipe.toolOf != nil {
			in := t.Body.Recipe
			in.Agents, in.tools = r.Agents, r.tools
			t.uses = in.toolsIn(in.Steps)
		}
	}
	for i, t := range r.tools {
		if path := r.circle(t, t, nil, map[*Tool]bool{}); path != nil && i == slices.Index(r.tools, least(r, path)) {
			names := []string{t.Name}
			for _, n := range path {
				names = append(names, n.Text)
			}
			w.Errorf(path[0].Pos, diagnostics.CodeRecursion, "let one of them do it itself",
				"a tool that calls itself: %s", strings.Join(names, " → "))
			for _, b := range w.calls { // nobody can follow the circle
				b.Recipe = nil
			}
		}
	}
}

// least returns the first tool, in the order of the file, of a circle.
func least(r *Recipe, path []Name) *Tool {
	for _, t := range r.tools {
		if slices.ContainsFunc(path, func(n Name) bool { return n.Text == t.Name }) {
			return t
		}
	}
	return nil
}

// circle returns the way by which a tool calls itself; nil: it does not.
func (r *Recipe) circle(from, t *Tool, path []Name, seen map[*Tool]bool) []Name {
	for _, n := range t.uses {
		way := append(slices.Clip(path), n)
		next := r.Tool(n.Text)
		if next == from {
			return way
		}
		if next == nil || seen[next] {
			continue
		}
		seen[next] = true
		if found := r.circle(from, next, way, seen); found != nil {
			return found
		}
	}
	return nil
}

// toolsIn returns the tools of the recipe that steps use, their bodies and agents included.
func (r *Recipe) toolsIn(steps []Step) (names []Name) {
	for i := range steps {
		s := &steps[i]
		for _, b := range s.Bodies() {
			if b.Tool != nil {
				names = append(names, s.Uses)
			} else if b.Recipe == nil {
				names = append(names, r.toolsIn(b.Steps)...)
			}
		}
		if s.Uses.Text == "agent" {
			names = append(names, r.ToolsOf(r.AgentsOf(s), s.Uses.Pos, false)...)
		}
	}
	return names
}

// AllTools is what an agent has under tools for all that are allowed.
const AllTools = "all"

// ToolsOf returns the tools of the recipe that agents may call, in the order of the agents: those that they list, or
// all, at pos, of those with AllTools or an expression, and if earlier is true of those that list none, too. In the
// steps of a tool, which must not call itself, an expression gives none.
func (r *Recipe) ToolsOf(agents []Agent, pos diagnostics.Position, earlier bool) (names []Name) {
	taken := map[string]bool{}
	add := func(name string, pos diagnostics.Position) {
		if !taken[name] && r.Tool(name) != nil {
			taken[name] = true
			names = append(names, Name{Text: name, Pos: pos})
		}
	}
	for _, a := range agents {
		listed := a.Spec.get("tools")
		if listed == nil && !earlier {
			continue
		}
		if listed == nil || listed.Scalar == AllTools || listed.HasExpression() && r.toolOf == nil {
			for _, t := range r.tools {
				add(t.Name, pos)
			}
			continue
		}
		for _, e := range listed.List {
			text, _ := e.Scalar.(string)
			add(strings.TrimSpace(text), e.Pos)
		}
	}
	return names
}

// toolsEssence is what counts of tools, by name; only those of a list, if it is not nil, and those that they use.
func (d digests) tools(r *Recipe, only []Name) (map[string]any, error) {
	e := map[string]any{}
	var add func(t *Tool) error
	add = func(t *Tool) error {
		if _, done := e[t.Name]; done || t.Body == nil {
			return nil
		}
		e[t.Name] = nil
		body, err := d.body(t.Body)
		if err != nil {
			return fmt.Errorf("tool %q: %w", t.Name, err)
		}
		e[t.Name] = []any{t.Effect, body}
		for _, n := range t.uses {
			if err := add(r.Tool(n.Text)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, t := range r.tools {
		if only == nil || slices.ContainsFunc(only, func(n Name) bool { return n.Text == t.Name }) {
			if err := add(t); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}
