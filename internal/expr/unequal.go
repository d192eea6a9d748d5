package expr

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr/syntax"
	"github.com/braise-run/braise/internal/value"
)

// apart reports a comparison of two values that are never equal, because they have no type in common. Whether a map or
// a list is null may be asked of any. It returns whether the comparison is compiled all the same.
func (c *compiler) apart(n syntax.Node, l, r operand) bool {
	if both := l.static.kinds | r.static.kinds; both&null != 0 && both&(boolean|number|text) == 0 {
		return true
	}
	return c.impossible(n, fmt.Sprintf("%s and %s are never equal", l.static.described(), r.static.described()),
		meantOf(l, r))
}

// among reports a search for a value in a list without any item of its type, or among the keys of a map, which are
// strings. It returns whether the search is compiled all the same.
func (c *compiler) among(n *syntax.Binary, l, r operand) bool {
	items := r.holds()
	if items == 0 || l.static.kinds&items != 0 {
		return true
	}
	return c.impossible(n, fmt.Sprintf("%s is never in there: it holds %s", l.static.described(), items),
		meantOf(l, operand{static: of(items)}))
}

// holds are the types of the items of a list, or of the keys of a map; 0: there is nothing in it.
func (o operand) holds() (k kinds) {
	t := o.static
	if o.items != 0 {
		return o.items
	}
	if items, ok := t.value.([]any); ok && t.known {
		for _, item := range items {
			k |= kindOf(item)
		}
		return k
	}
	if t.kinds&dict != 0 {
		k |= text
	}
	if t.kinds&list != 0 {
		k |= part(t.schema["items"], t.from).kinds
	}
	return k
}

// amongWords reports words of a list that an output, such as a decision, cannot be.
func (c *compiler) amongWords(n *syntax.Binary, l static) {
	array, ok := n.Right.(*syntax.Array)
	if !ok {
		return
	}
	for _, item := range array.Nodes {
		if word, ok := item.(*syntax.String); ok {
			c.never(item, l, constant(word.Value))
		}
	}
}

// impossible reports what can never be true. It is an error, but a warning in a recipe that runs have begun with: then
// impossible returns true.
func (c *compiler) impossible(n syntax.Node, message, hint string) bool {
	wrong := &problem{diagnostics.CodeExprType, message, hint}
	if c.scope.Stored {
		c.warn(n, wrong)
		return true
	}
	c.report(n, wrong)
	return false
}

// described names the types of a value. That an output may be null, as its step may be skipped, goes without saying.
func (t static) described() kinds {
	if k := t.kinds &^ null; t.from == output && k != 0 {
		return k
	}
	return t.kinds
}

// meantOf is the hint about a comparison of a map or a list with a value of another type: a field of the map that has
// the type, and the word among its choices if some field has it, or a search in the list.
func meantOf(l, r operand) string {
	if l.static.kinds&(dict|list) == 0 {
		l, r = r, l
	}
	if l.path == nil {
		return ""
	}
	name := l.path.describe(len(l.path.segs))
	switch t := l.static; {
	case t.kinds&^null == list && part(t.schema["items"], elsewhere).kinds&r.static.kinds != 0:
		what := "…"
		if r.static.known {
			word, _ := value.JSON(r.static.value)
			what = string(word)
		}
		return fmt.Sprintf("look into a list with in: %s in %s", shorten(what), name)
	case t.kinds&^null == dict:
		if field := fieldFor(t, r.static); field != "" {
			return fmt.Sprintf("did you mean %q?", name+"."+field)
		}
	}
	return ""
}

// plainName matches the fields that can be read as .NAME.
var plainName = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

// fieldFor is the first field of a map, by name, that may have such a value: one whose choices have it before others.
func fieldFor(t, other static) (field string) {
	properties, _ := t.schema["properties"].(map[string]any)
	for _, name := range value.SortedKeys(properties) {
		schema, _ := properties[name].(map[string]any)
		choices, _ := schema["enum"].([]any)
		kinds := fromSchema(schema).kinds
		switch {
		case !plainName.MatchString(name):
		case other.known && slices.Contains(choices, other.value):
			return name
		case field == "" && kinds != anyKind && kinds&other.kinds != 0:
			field = name
		}
	}
	return field
}
