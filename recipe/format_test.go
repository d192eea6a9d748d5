package recipe_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/recipe"
)

func ExampleFormat() {
	out, err := recipe.Format("hello.yaml", []byte(`
# Greets somebody.
steps:
    hello:   # the only step
        with: { text: 'hello, ${{ inputs.who }}' }
        uses: set
inputs: {who: {type: string}}
name:       hello
apiVersion: braise/v1
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(out))
	// Output:
	// # Greets somebody.
	// apiVersion: braise/v1
	// name: hello
	//
	// inputs: {who: {type: string}}
	//
	// steps:
	//   hello: # the only step
	//     uses: set
	//     with: {text: "hello, ${{ inputs.who }}"}
}

func TestFormat(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"steps", `
apiVersion: braise/v1
name: n
steps:
  a:
    with:
      z: 1
      a: {uses: x, description: y}
    # why
    when: inputs.x
    x-mine: 1
    uses: set
    description: first
  # the second
  b:
    timeout: 1m
    uses: model
    foreach: {as: i, in: "${{ inputs.list }}"}
    with: {prompt: "go"}
`, `
apiVersion: braise/v1
name: n

steps:
  a:
    description: first
    uses: set
    # why
    when: inputs.x
    with:
      z: 1
      a: {uses: x, description: y}
    x-mine: 1

  # the second
  b:
    uses: model
    foreach: {in: "${{ inputs.list }}", as: i}
    with: {prompt: go}
    timeout: 1m
`},
		{"the author's own order stays", `
steps:
  b: {uses: set}
  a: {uses: set}
inputs:
  z: {type: object, properties: {steps: {type: string, description: d}}}
  a: string
x-other: {steps: 1, name: 2}
consts: {b: 1, a: 2}
name: n
`, `
name: n

inputs:
  z: {type: object, properties: {steps: {type: string, description: d}}}
  a: string

consts: {b: 1, a: 2}

steps:
  b: {uses: set}

  a: {uses: set}

x-other: {steps: 1, name: 2}
`},
		{"mistakes do not stop it", `
stepz: 1
name: [wrong]
`, `
name: [wrong]

stepz: 1
`},
		{"a body in place", `
name: n
steps:
  a:
    with:
      steps:
        one: {uses: set}
        two:
          with: 1
          uses: set
    uses: recipe
`, `
name: n

steps:
  a:
    uses: recipe
    with:
      steps:
        one: {uses: set}
        two:
          with: 1
          uses: set
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.TrimPrefix(tt.want, "\n")
			if diff := cmp.Diff(want, format(t, strings.TrimPrefix(tt.in, "\n"))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, format(t, want)); diff != "" {
				t.Errorf("formatted again (-want +got):\n%s", diff)
			}
		})
	}
}

func format(t *testing.T, in string) string {
	t.Helper()
	out, err := recipe.Format("recipe.yaml", []byte(in))
	if err != nil {
		t.Fatalf("%q: %v", in, err)
	}
	return string(out)
}

func TestFormatError(t *testing.T) {
	_, err := recipe.Format("recipe.yaml", []byte("name: n\nsteps: {\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "recipe.yaml:") {
		t.Errorf("got %v, want an error with its position", err)
	}
}

func FuzzFormat(target *testing.F) {
	f := seedtest.Fuzz(target)
	files, err := filepath.Glob("../recipes/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("steps:\n  a:\n    with: 1\n    # c\n    uses: set # d\nname: n\n# e\n")
	f.Fuzz(func(t *testing.T, in string) {
		out, err := recipe.Format("recipe.yaml", []byte(in))
		if err != nil {
			if strings.Contains(err.Error(), "without changing") {
				t.Errorf("%q: %v", in, err)
			}
			t.Skip()
		}
		before, _ := yamlnode.Parse("recipe.yaml", []byte(in), nil)
		after, _ := yamlnode.Parse("recipe.yaml", out, nil)
		if !reflect.DeepEqual(before.Decoded(), after.Decoded()) {
			t.Errorf("%q → %q says something else", in, out)
		}
		if diff := cmp.Diff(order(before, "steps"), order(after, "steps")); diff != "" {
			t.Errorf("%q → %q: order of the steps (-want +got):\n%s", in, out, diff)
		}
		if again := format(t, string(out)); again != string(out) {
			t.Errorf("%q → %q → %q", in, out, again)
		}
	})
}

// order returns the keys under a key of the document.
func order(document *yamlnode.Node, key string) []string {
	var keys []string
	for _, f := range document.Fields {
		if f.Key == key {
			for _, f := range f.Value.Fields {
				keys = append(keys, f.Key)
			}
		}
	}
	return keys
}
