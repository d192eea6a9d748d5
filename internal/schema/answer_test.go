package schema_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/schema"
)

// trust 3.2: thoughts before an answer are dropped, and its only JSON value is taken.
func TestAnswer(t *testing.T) {
	want, err := schema.Compile([]byte(`{"type": ["object", "array", "integer"]}`))
	if err != nil {
		t.Fatal(err)
	}
	a1 := map[string]any{"a": int64(1)}
	for name, tt := range map[string]struct {
		text string
		want any
		bad  bool
	}{
		"plain":                       {` {"a": 1} `, a1, false},
		"a number":                    {"7", int64(7), false},
		"fenced":                      {"F" + `json` + "\n{\"a\": 1}\nF", a1, false},
		"fenced among words":          {"Here:\nF\n{\"a\": 1}\nF\nDone {as asked}.", a1, false},
		"among words":                 {`The answer is {"a": 1}. Anything else?`, a1, false},
		"a list among words":          {"So: [1, 2].", []any{int64(1), int64(2)}, false},
		"braces that are no JSON":     {`For {x} and [y]: {"a": 1} {z`, a1, false},
		"a brace in a string":         {`It is {"a": "}{"}.`, map[string]any{"a": "}{"}, false},
		"after thoughts":              {"<think>\nmaybe {\"a\": 2}?\n</think>\n\n{\"a\": 1}", a1, false},
		"fenced after thoughts":       {"<think></think>F\n{\"a\": 1}\nF", a1, false},
		"among words after thoughts":  {" <think>hm</think> It is {\"a\": 1}", a1, false},
		"two values":                  {`{"a": 1} or {"a": 2}`, nil, true},
		"thoughts without an end":     {`<think>{"a": 1} or {"a": 2}`, nil, true},
		"thoughts that are not first": {`{"a": 1} <think>{"a": 2}</think>`, nil, true},
		"none":                        {"I cannot say.", nil, true},
		"a number among words":        {"It is 7.", nil, true},
		"half":                        {`{"a": `, nil, true},
		"nothing":                     {"", nil, true},
		"too many braces":             {strings.Repeat("{", 100) + `{"a": 1}`, nil, true},
	} {
		got, fault := want.Answer(strings.ReplaceAll(tt.text, "F", "```"))
		if diff := cmp.Diff(tt.want, got); diff != "" || (fault != "") != tt.bad {
			t.Errorf("%s: fault %q (-want +got)\n%s", name, fault, diff)
		}
	}
}

// A long answer that is full of beginnings does not take long.
func TestAnswerIsQuick(t *testing.T) {
	want, err := schema.Compile([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, fault := want.Answer("x" + strings.Repeat("[", 1<<20)); fault == "" {
		t.Error("brackets are taken for an answer")
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
}
