// Package syntax reads the text of an expression into a tree.
//
// The language is that of github.com/expr-lang/expr, as its documentation has it. Tests compare the trees of both
// parsers, for any text. This one is here because the other comes with an evaluator that looks methods up by name:
// with it a program keeps every exported method of every type that it has, called or not.
package syntax

// Node is a part of an expression. At is where it begins, in characters; an operator begins at itself.
type Node interface{ At() int }

type place int

func (p place) At() int { return int(p) }

// The nodes.
type (
	// Nil is nil.
	Nil struct{ place }
	// Bool is true or false.
	Bool struct {
		place
		Value bool
	}
	// Integer is a number without a point or an exponent.
	Integer struct {
		place
		Value int64
	}
	// Float is any other number.
	Float struct {
		place
		Value float64
	}
	// String is a string, in any quotes.
	String struct {
		place
		Value string
	}
	// Bytes is b"…", whatever it holds.
	Bytes struct{ place }

	// Name is a name that stands alone.
	Name struct {
		place
		Value string
	}
	// Pointer is what a predicate is about: # has no name, that of #index is index.
	Pointer struct {
		place
		Name string
	}
	// Member is Node.name or Node[Key].
	Member struct {
		place
		Node     Node
		Text     string // of Node, as it was written
		Key      Node   // of a name, a String
		Optional bool   // ?.
	}
	// Chain is a member with all before it that one ?. leaves out together.
	Chain struct {
		place
		Node Node
	}
	// Slice is Node[From:To]. From and To may be nil.
	Slice struct {
		place
		Node, From, To Node
	}

	// Unary is an operator before its operand.
	Unary struct {
		place
		Operator string
		Node     Node
	}
	// Binary is an operator between two operands. a < b < c is a < b && b < c, and both have the same b.
	Binary struct {
		place
		Operator    string
		Left, Right Node
	}
	// Conditional is Cond ? Yes : No. In a ?: b, Cond and Yes are the same.
	Conditional struct {
		place
		Cond, Yes, No Node
	}

	// Call is Name(Args). The first of Args may have stood before a |.
	Call struct {
		place
		Name string
		Args []Node
	}
	// Method is Node(Args).
	Method struct {
		place
		Node *Member
		Args []Node
	}
	// Predicate is an argument that is evaluated for each item.
	Predicate struct {
		place
		Node Node
	}

	// Let is let Name = Value; Body.
	Let struct {
		place
		Name        string
		Value, Body Node
	}
	// Sequence is several expressions with semicolons between them.
	Sequence struct {
		place
		Nodes []Node
	}

	// Array is a list.
	Array struct {
		place
		Nodes []Node
	}
	// Map is a map, in the order of the text.
	Map struct {
		place
		Pairs []Pair
	}
)

// Pair is one entry of a Map. Where the key is a name or a number, Key is a String.
type Pair struct{ Key, Value Node }
