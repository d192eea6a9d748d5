package yamlnode_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/yamlnode"
)

// layout keeps "a" before "b" everywhere and puts space between the entries of the document and of
// "spaced".
func layout(_ *yamlnode.Node, path []string) yamlnode.Layout {
	return yamlnode.Layout{
		Order:  []string{"a", "b"},
		Spaced: len(path) == 0 || slices.Equal(path, []string{"spaced"}),
		Tight:  2,
	}
}

func TestFormat(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"order and space", `
b:   1
x:
    y:  2
    a: 3
a: 0
`, `
a: 0
b: 1

x:
  a: 3
  y: 2
`},
		{"blank lines", `
x:


  c: 1


  d: 2
  e: 3



`, `
x:
  c: 1

  d: 2
  e: 3
`},
		{"a key that is too long to stand without a question mark", "a: {? " + strings.Repeat("k", 1025) + "\n  : {b: 1}}\n? " + strings.Repeat("z", 1025) + "\n",
			"a:\n  ? " + strings.Repeat("k", 1025) + "\n  : {b: 1}\n\n? " + strings.Repeat("z", 1025) + "\n:\n"},
		{"line breaks of Windows and a byte order mark", "\uFEFFx: |\r\n  one\r\n  two\r\ny: 1\r\n", `
x: |
  one
  two

y: 1
`},
		{"no line break at the end", "x: 1", "\nx: 1\n"},
		{"a block scalar without a line break at the end", "x: |\n text", "\nx: |-\n  text\n"},

		{"comments of the file, of entries and between them", `
# top
# yaml-language-server: $schema=x.json
b: 1 # line b
# head a
a: 0   #   line a

# a section

# head x
x: # line x
  # head c
  c: 1
  # end of x
# the last word
`, `
# top
# yaml-language-server: $schema=x.json
# head a
a: 0 #   line a
b: 1 # line b

# a section

# head x
x: # line x
  # head c
  c: 1
  # end of x
# the last word
`},
		{"a comment that belongs to what stands before it", `
spaced:
  one: 1
  # about one

  # about two
  two: 2
  # about three
  three: 3
`, `
spaced:
  one: 1
  # about one

  # about two
  two: 2

  # about three
  three: 3
`},
		{"comments at each depth", `
x:
    y:
        - z: 1
          # in the item
        # in the list
      # nowhere in particular
    # in x
# in the document

# at the end
`, `
x:
  y:
    - z: 1
      # in the item
    # in the list
  # nowhere in particular
  # in x
# in the document

# at the end
`},
		{"commented-out values", `
x:
  # - one
  # - two
y:
  -
    # nothing
  - 1
`, `
x:
  # - one
  # - two

y:
  -
    # nothing
  - 1
`},
		{"comments in lists", `
x:
- # of the dash
  c: 1
-
  # of the first key
  c: 2 # of c
# of the third
- 3
- - 4 # four
  # after four
  - # deep
    - 5
`, `
x:
  # of the dash
  - c: 1
  # of the first key
  - c: 2 # of c
  # of the third
  - 3
  - - 4 # four
    # after four
    # deep
    - - 5
`},
		{"comments in brackets", `
x: { # open
  c: 1, # one
  # before d
  d: [2, # two
    3 ], e: 4
  # the end
} # close
y: [ # empty
]
`, `
# close
x: # open
  c: 1 # one
  # before d
  d:
    - 2 # two
    - 3
  e: 4
  # the end

y: [] # empty
`},
		{"comments around a value", `
x: # one
  # two
  text # three
`, `
# two
# three
x: text # one
`},
		{"not comments", `
x: a#b
y: "# no" # yes
z: 'it''s # no' # yes
s: |  # yes
  # no
  text # no

  # no
 # yes
t: https://example.com/#no
`, `
x: a#b

y: "# no" # yes

z: "it's # no" # yes

s: | # yes
  # no
  text # no

  # no

# yes
t: https://example.com/#no
`},

		{"brackets", `
x: {c: 1,   d: [ 1,2 , {e: f} ], g: {}, h}
y: {c: "a rather long string, so long that", d: it, e: does, f: not, g: [fit, in]}
z: [a: 1, "b": [ ]]
`, `
x: {c: 1, d: [1, 2, {e: f}], g: {}, h}

y:
  c: a rather long string, so long that
  d: it
  e: does
  f: not
  g: [fit, in]

z: [{a: 1}, {b: []}]
`},
		{"eighty columns fit, eighty-one do not", `
x: [0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 012]
y: [0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123]
`, `
x: [0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 012]

y:
  - 0123456789
  - 0123456789
  - 0123456789
  - 0123456789
  - 0123456789
  - 0123456789
  - 0123
`},
		{"quotes", `
x:
  - "plain"
  - 'it''s'
  - 'say "hi"'
  - "true"
  - 'no'
  - "1.0"
  - "2m"
  - "a: b"
  - "a:b"
  - " space"
  - ""
  - "tab\t"
  - "${{ inputs.a }}"
  - '${{ inputs.a ? 1 : 2 }}'
  - "!inputs.a"
  - ["${{ inputs.a }}", "a:b", "c", "d?"]
  - "e?"
  - "~"
  - "<<"
`, `
x:
  - plain
  - it's
  - say "hi"
  - "true"
  - "no"
  - "1.0"
  - 2m
  - "a: b"
  - a:b
  - " space"
  - ""
  - "tab\t"
  - ${{ inputs.a }}
  - "${{ inputs.a ? 1 : 2 }}"
  - "!inputs.a"
  - ["${{ inputs.a }}", "a:b", c, "d?"]
  - e?
  - "~"
  - "<<"
`},
		{"strings of several lines", `
x:
    c: plain
     words

     after a break
    d: "quoted \
         words\ 
       and  
      more"
    e: 'single

      quoted' # e
`, `
x:
  c: plain
    words

    after a break
  d: "quoted \
    words\ 
    and
    more"
  e: 'single

    quoted' # e
`},
		{"block scalars", `
x:
    - |
        text
          more
    - >2-
          indented
       folded
    - |+
        kept


    - |+

    - |

      line
    -   |+
       x
y: >+
 kept

z: 1
`, `
x:
  - |
    text
      more
  - >2-
        indented
     folded
  - |+
    kept


  - "\n"
  - |

    line
  - |
    x

y: >+
  kept

z: 1
`},
		{"explicit keys", `
? x
: 1
? |
  two
  lines
: - 2
`, `
x: 1

"two\nlines\n":
  - 2
`},
		{"a document marker", "# one\n---\n# two\nx: 1\n", "\n# one\n# two\nx: 1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.TrimPrefix(tt.want, "\n")
			got := format(t, strings.TrimPrefix(tt.in, "\n"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, format(t, got)); diff != "" {
				t.Errorf("the second time (-first +second):\n%s", diff)
			}
		})
	}
}

func format(t *testing.T, in string) string {
	t.Helper()
	out, found := yamlnode.Format("f.yaml", []byte(in), layout)
	if found.HasErrors() {
		t.Fatalf("%q: %v", in, found)
	}
	return string(out)
}

func TestFormatRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{"x: [", "not valid YAML"},
		{"x: &a 1", "anchors are not allowed"},
		{"x: 1\nx: 2", "appears twice"},
		{"x", "must be a mapping, not a string"},
		{"x: \"a\u2028b\"", "f.yaml:1:6: an invisible line break"},
	}
	for _, tt := range tests {
		out, found := yamlnode.Format("f.yaml", []byte(tt.in), layout)
		if out != nil || !found.HasErrors() || !strings.Contains(found.Err().Error(), tt.want) {
			t.Errorf("%q: got %q, %v; want %q", tt.in, out, found, tt.want)
		}
	}
}

// FuzzFormat checks what Format promises, with yaml.v3 as the witness of what is a comment.
func FuzzFormat(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, seed := range []string{
		"# a\nx: 1 # b\n# c\ny: [1, # d\n 2]\n# e\n",
		"x:\n- # a\n  y: |+\n    text\n\n- >-2\n      z\n# b\n",
		"x: {a: 'b''c', \"d\": \"e\\\"f\", g: ${{ h }}}\n",
		"? a\n: - b\n  -\n   # c\n  - - d\n",
		"a: b\n  c\n\n  d # e\n",
		"---\n- {}\n- [a: b, {c}]\n- \"a\\\n  b\"\n",
		"y: [-, # d\n 2]\n",
		"y: [?, # d\n -]\n",
	} {
		f.Add(seed)
	}
	f.Add("? \ufeff\"a\n: b\n")
	f.Add("\ufeff? \ufeff\"}: b\n")
	f.Add("\ufeff\ufeffa: b\n")
	f.Add("x:\n- ? " + strings.Repeat("q", 1025) + "\n- ? " + strings.Repeat("r", 1025) + "\n  : {a: b} # c\n")
	f.Fuzz(func(t *testing.T, in string) {
		node, found := yamlnode.Parse("f.yaml", []byte(in), nil)
		if found.HasErrors() || node.Kind != yamlnode.Map && node.Kind != yamlnode.List || strings.ContainsAny(in, "\r\u0085\u2028\u2029") {
			t.Skip()
		}
		once := format(t, in)
		again, found := yamlnode.Parse("f.yaml", []byte(once), nil)
		// Not by cmp.Diff, whose time grows exponentially with the depth of lists.
		if want, got := node.Decoded(), again.Decoded(); !reflect.DeepEqual(want, got) || found.HasErrors() {
			t.Errorf("%q → %q: another document: got %v, want %v", in, once, got, want)
		}
		if twice := format(t, once); twice != once {
			t.Errorf("%q → %q → %q", in, once, twice)
		}
		for _, c := range comments(t, in) {
			if !strings.Contains(once, c) {
				t.Errorf("%q → %q: lost %q", in, once, c)
			}
		}
	})
}

// comments returns the comments of a document as far as yaml.v3 finds them.
func comments(t *testing.T, text string) []string {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil && strings.Contains(text, "?") {
		return nil // Parse reads more question marks than it does
	} else if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	var all []string
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		for _, s := range []string{n.HeadComment, n.LineComment, n.FootComment} {
			for _, line := range regexp.MustCompile(`\n\s*`).Split(s, -1) {
				all = append(all, strings.TrimRight(line, " \t"))
			}
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(&document)
	return all
}
