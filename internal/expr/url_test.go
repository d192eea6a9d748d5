package expr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trust 8.19: where a value stands in the written text decides how it is escaped, of a secret too.
func TestURLs(t *testing.T) {
	scope := &Scope{URL: true, Secrets: true, Consts: map[string]any{"v": "a/b?c&d é#+%"}}
	const path, query = "a%2Fb%3Fc&d%20%C3%A9%23+%25", "a%2Fb%3Fc%26d%20%C3%A9%23%2B%25"
	for _, tt := range []struct{ text, want string }{
		{"${{ consts.v }}", "a/b?c&d é#+%"},
		{"${{ consts.v }}/x", "a/b?c&d é#+%/x"},
		{"${{ consts.v }}${{ consts.v }}", "a/b?c&d é#+%" + path},
		{"http://h/${{ consts.v }}/x?${{ consts.v }}&y=${{ consts.v }}", "http://h/" + path + "/x?" + query + "&y=" + query},
		{"http://h/$${{?${{ consts.v }}", "http://h/${{?" + query},
		{"http://h/?", "http://h/?"},
	} {
		template, list := scope.Text(source(tt.text))
		if list.HasErrors() || !template.IsLiteral() {
			t.Fatalf("%s: %v", tt.text, list)
		}
		if got := template.Literal(); got != tt.want {
			t.Errorf("%s is %q, want %q", tt.text, got, tt.want)
		}
	}
	template, _ := scope.Text(source("http://${{ secrets.A }}/?k=${{ secrets.B }}"))
	got, err := template.Eval(fakeEnv{})
	if err != nil {
		t.Fatal(err)
	}
	want := Sealed{[]SealedPart{{Text: "http://"}, {Secret: "A", Escape: InPath}, {Text: "/?k="}, {Secret: "B", Escape: InQuery}}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
