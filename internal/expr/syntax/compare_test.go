package syntax

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	other "github.com/expr-lang/expr/parser"
	"pgregory.net/rapid"

	"github.com/braise-run/braise/internal/seedtest"
	_ "github.com/braise-run/braise/internal/seedtest/rapidseed"
)

// The two parsers read the same: the trees are written down alike, with the place of each node.

// writer writes a tree, up to so many nodes: a tree may share its nodes, so that it is very large when it is unfolded.
type writer struct {
	strings.Builder
	left int
}

func (w *writer) write(what string, at int, parts ...any) {
	if w.left--; w.left < 0 {
		return
	}
	fmt.Fprintf(w, "(%s@%d", what, at)
	for _, part := range parts {
		w.WriteByte(' ')
		switch part := part.(type) {
		case Node:
			w.own(part)
		case []Node:
			for _, n := range part {
				w.own(n)
			}
		case ast.Node:
			w.theirs(part)
		case []ast.Node:
			for _, n := range part {
				w.theirs(n)
			}
		case nil:
			w.WriteByte('-')
		default:
			fmt.Fprintf(w, "%#v", part)
		}
	}
	w.WriteByte(')')
}

// elsewhere is the place of nodes that they put behind what they stand for.
const elsewhere = -1

func (w *writer) own(n Node) {
	at := n.At()
	switch n := n.(type) {
	case *Nil:
		w.write("nil", at)
	case *Bool:
		w.write("bool", at, n.Value)
	case *Integer:
		w.write("integer", at, n.Value)
	case *Float:
		w.write("float", at, n.Value)
	case *String:
		w.write("string", at, n.Value)
	case *Bytes:
		w.write("bytes", at)
	case *Name:
		w.write("name", at, n.Value)
	case *Pointer:
		w.write("pointer", at, n.Name)
	case *Member:
		w.write("member", at, n.Node, n.Key, n.Optional)
	case *Chain:
		w.write("chain", at, n.Node)
	case *Slice:
		w.write("slice", at, n.Node, n.From, n.To)
	case *Unary:
		w.write("unary", at, n.Operator, n.Node)
	case *Binary:
		w.write("binary", at, n.Operator, n.Left, n.Right)
	case *Conditional:
		w.write("conditional", elsewhere, n.Cond, n.Yes, n.No)
	case *Call:
		w.write("call", at, n.Name, n.Args)
	case *Method:
		w.write("method", at, Node(n.Node), n.Args)
	case *Predicate:
		w.write("predicate", at, n.Node)
	case *Let:
		w.write("let", at, n.Name, n.Value, n.Body)
	case *Sequence:
		w.write("sequence", elsewhere, n.Nodes)
	case *Array:
		w.write("array", at, n.Nodes)
	case *Map:
		var parts []any
		for _, p := range n.Pairs {
			parts = append(parts, p.Key, p.Value)
		}
		w.write("map", at, parts...)
	default:
		panic(fmt.Sprintf("%T", n))
	}
}

func (w *writer) theirs(n ast.Node) {
	at := n.Location().From
	switch n := n.(type) {
	case *ast.NilNode:
		w.write("nil", at)
	case *ast.BoolNode:
		w.write("bool", at, n.Value)
	case *ast.IntegerNode:
		w.write("integer", at, int64(n.Value))
	case *ast.FloatNode:
		w.write("float", at, n.Value)
	case *ast.StringNode:
		w.write("string", at, n.Value)
	case *ast.BytesNode:
		w.write("bytes", at)
	case *ast.IdentifierNode:
		w.write("name", at, n.Value)
	case *ast.PointerNode:
		w.write("pointer", at, n.Name)
	case *ast.MemberNode:
		w.write("member", at, n.Node, n.Property, n.Optional)
	case *ast.ChainNode:
		w.write("chain", at, n.Node)
	case *ast.SliceNode:
		w.write("slice", at, n.Node, n.From, n.To)
	case *ast.UnaryNode:
		w.write("unary", at, n.Operator, n.Node)
	case *ast.BinaryNode:
		w.write("binary", at, n.Operator, n.Left, n.Right)
	case *ast.ConditionalNode:
		w.write("conditional", elsewhere, n.Cond, n.Exp1, n.Exp2)
	case *ast.BuiltinNode:
		w.write("call", at, n.Name, n.Arguments)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			w.write("call", at, callee.Value, n.Arguments)
			return
		}
		w.write("method", at, n.Callee, n.Arguments)
	case *ast.PredicateNode:
		w.write("predicate", at, n.Node)
	case *ast.VariableDeclaratorNode:
		w.write("let", at, n.Name, n.Value, n.Expr)
	case *ast.SequenceNode:
		w.write("sequence", elsewhere, n.Nodes)
	case *ast.ArrayNode:
		w.write("array", at, n.Nodes)
	case *ast.MapNode:
		var parts []any
		for _, pair := range n.Pairs {
			p := pair.(*ast.PairNode)
			parts = append(parts, p.Key, p.Value)
		}
		w.write("map", at, parts...)
	default:
		panic(fmt.Sprintf("%T", n))
	}
}

// theirs is what the other parser makes of a text.
func theirs(text string) (tree string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	t, err := other.Parse(text)
	if err != nil {
		return "", err
	}
	w := &writer{left: 5000}
	w.theirs(t.Node)
	return w.String(), nil
}

func compare(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) {
	t.Helper()
	want, err := theirs(text)
	node, wrong := Parse(text)
	if err != nil || wrong != nil {
		if err == nil || wrong == nil {
			t.Fatalf("%q: %+v; the other parser says: %v %s", text, wrong, err, want)
		}
		if wrong.At < 0 || wrong.At > utf8.RuneCountInString(text) {
			t.Fatalf("%q: an error at %d", text, wrong.At)
		}
		return
	}
	w := &writer{left: 5000}
	w.own(node)
	if got := w.String(); got != want {
		t.Fatalf("%q:\n got %s\nwant %s", text, got, want)
	}
}

// texts are expressions, good and bad.
var texts = []string{
	"1", "1.", ".5", "1.5e3", "1e", "0x1F", "0xG", "0b101", "0b2", "0o17", "1_000", "0x", "1..3", "1...5", "1.x", "0x1.8", "0b1e5",
	"9223372036854775807", "9223372036854775808", "1e999", "-.5.a", ".5..a", ".5.5", ".5.", ".0x1", ".0.1", ".0b1", ".5e1", ".e1", "true.x", "nil[0]", "1[0]", "-1[0]", "-a.b[0]", "(1).x",
	`"a\n\t\\\"\x41\u00e9\u{1F600}\U0001F600\101"`, `'it\'s'`, `"\'"`, `"\u{}"`, `"\u{1234567}"`, `"\400"`, `"\777"`, `"\8"`, `"\U00110000"`,
	"`a``b\n`", "`a", `"a`, "\"a\nb\"", "\"a\rb\"", `"\d"`, `"\`, `b"x"`, `B'\xff'`, `b"\u0041"`, `b"\u{41}"`, `b'\U00000041'`, `b`, `"\ud800"`, `""`,
	"a.b.c", "a?.b.c", "a?.b?.c[0]", "a?.[0].b", "a[1:2]", "a[:]", "a[1:]", "a[:2]", "a?.[1:2]", "a[::2]", "a.not.in", "a.", "a?.", "a.1", "a.b(1, 2,)",
	"a?.b(1).c", "a.b()()", "f()", "f(1,)", "f(,)", "f(1 2)", "f(1", "::f(1)", "::1", "a | f(1) | g()", "a | f", "a | f().x", "a | 1", "a|map(#.x)|first()",
	"not a in b", "a not in b", "a not b", "a not", "a not contains b and c", "a + b not in c", "!a.b", "- -a", "+1", "not not a",
	"a ?? b ?? c", "a ?? b == c", "a == b ?? c", "a ?? b | f()", "a ?? b ? c : d", "a ?? (b)", "1 + a ?? b", "1 == a ?? b + c",
	"a < b < c <= d", "a < b == c < d", "a ** b ** c", "a ^ b * c", "-a ** b", "a - b - c", "a * (b + c)", "1..n + 1", "a .. b",
	"a ? b : c ? d : e", "a ?: b", "a ? b", "a ? .5 : 1", "if a { b } else { c }", "if a {b} else if c {d} else {e}", "if a {b}", "if a {b} else {c} + 1", "1 + if a {b} else {c}",
	"let a = 1; a + 1", "let a = 1; let b = 2; a", "let a = 1", "let 1 = 2; 3", "1 + let a = 1; a", "a; b", "a;", ";", "a; let b = 1; b; c",
	"[1, 2,]", "[,]", "[", "[1 2]", "[]", "{}", "{a: 1, \"b\": 2, 3: 4, (c): d,}", "{a}", "{a: 1 b: 2}", "{in: 1}", "{,}", "{a: 1,, b: 2}", "{1_0: 2}",
	"map(a, #)", "map(a, .b)", "map(a, {# > 1})", "map(a, {let b = #; b})", "map(a, # ; b)", "map(a)", "map()", "map(a, #, )", "map(a, #, #)", "count(a)", "count(a,)", "count(a, #)",
	"sum(a, .b.c)", "reduce(a, #acc + #, 0)", "reduce(a, #acc + #)", "sortBy(a, .b, \"desc\")", "a | reduce(#acc + #, 0)", "filter(a, any(#, # > 1))", "#", "#index", ".a", "map(a, #index)",
	"map(a, # index)", "map(a, #in)", "map(a, #1)", "map(a, ##)", "map(a, #.b)", "map(a, #?.b)", "map(a, #[0])", "map(a, ?.b)", "map(a, {})", "map(a, ({}))", "filter(a, not #)", "filter(a, # in b)",
	"a // b", "a /* b */ + c", "/* a", "// a", "a /**/ b", "/*/ a */ b", "a /* é */ + §", "",
	" ", "a = b", "a & b", "a && b || c and d or e", "a => b", "a <> b", "a | | b", "a §", "é + ü", "$x + _y", "a matches b", "a startsWith b endsWith c",
	"(a", "a)", "(a; b)", "(let a = 1; a) + 2", "((a))", "a b", "a.b c", "a == ", "== a", "and", "in", "not", "let", "if", "else", "a else b", "a.if", "null",
	"-9223372036854775808", "map(1..3, filter(1..3, # > 1))", "all(a, {.b == 1 && .c})", "a?.b[0].c", "a?.b.c(1)?.d", "(a?.b).c", "a[b ? c : d]", "a[b:c:d]",
}

func TestReadsAsTheOther(t *testing.T) {
	for _, text := range texts {
		compare(t, text)
	}
}

// TestReadsAnyTextAsTheOther makes texts by the grammar, and then damages some.
func TestReadsAnyTextAsTheOther(t *testing.T) {
	words := rapid.SampledFrom(strings.Fields(`a b c.d e?.f # #index .x 1 2.5 "s" 'q' true nil ( ) [ ] { } , ; : ? ?? . ?. .. | + - * / % ** ^ == != < > <= >=
		&& || ! and or not in matches contains startsWith endsWith let if else = map( filter( count( reduce( sortBy( f( x | :: // /* */ # ## b"x" 0x1 .5`))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(words, 0, 8).Draw(t, "words"), rapid.SampledFrom([]string{"", " "}).Draw(t, "between"))
		compare(t, text)
	})
	rapid.Check(t, func(t *rapid.T) {
		tokens := strings.Fields(random(t, 4))
		if len(tokens) > 0 && rapid.Bool().Draw(t, "damaged") {
			i := rapid.IntRange(0, len(tokens)-1).Draw(t, "at")
			tokens[i] = rapid.OneOf(words, rapid.Just("")).Draw(t, "word")
		}
		compare(t, strings.Join(tokens, " "))
	})
}

// random is a text with spaces between its words.
func random(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom(strings.Fields(`a b.c d?.e 1 2.5 "s" true nil # .x [] {}`)).Draw(t, "leaf")
	}
	sub := func() string { return random(t, rapid.IntRange(0, depth-1).Draw(t, "depth")) }
	forms := []string{
		"X + X", "X ?? X", "X == X", "X < X < X", "X ** X", "X and X", "X not in X", "X .. X", "- X", "not X", "( X )", "X ? X : X",
		"X ?: X", "X . y", "X ?. y", "X [ X ]", "X ?. [ X ]", "X [ X : X ]", "X [ : X ]", "X | f ( X )", "f ( X , X )", "map ( X , X )", "filter ( X , { X } )", "count ( X )",
		"reduce ( X , X , X )", "X | map ( X )", "let v = X ; X", "if X { X } else { X }", "[ X , X ]", "{ k : X , ( X ) : X }", "X ; X", "X . m ( X )", "X - X * X", "X || X",
	}
	form := rapid.SampledFrom(forms).Draw(t, "form")
	for strings.Contains(form, "X") {
		form = strings.Replace(form, "X", strings.ReplaceAll(sub(), "X", "x"), 1)
	}
	return form
}

// overflows matches an escape for which the other parser has too few bits: it takes it for another character.
var overflows = regexp.MustCompile(`\\U[89a-fA-F]`)

func FuzzReadsAsTheOther(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 || !utf8.ValidString(text) || overflows.MatchString(text) {
			t.Skip()
		}
		compare(t, text)
	})
}
