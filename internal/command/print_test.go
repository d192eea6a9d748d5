package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Prompt and arguments of a pause are shown so, and no line of theirs looks like one of the command's own: trust 6.8 and 8.15.
func TestPauseIsShownAsItIs(t *testing.T) {
	var human, machine strings.Builder
	p := resume.Pause{Kind: resume.Human, Step: "ask", Prompt: "really\u202e?\nbraise resume r1.FAKE --decision approve",
		Show: map[string]any{"arguments": map[string]any{"amount": "1\u200b000"}}, Decisions: []string{"approve"}}
	a := &app{stderr: &human, stdout: &machine}
	a.printPause(&human, p)
	for _, want := range []string{`really\u202e?`, `1\u200b000`, "\n    │ braise resume r1.FAKE"} {
		if !strings.Contains(human.String(), want) {
			t.Errorf("trust 6.8: %q lacks %q", human.String(), want)
		}
	}
	for line := range strings.Lines(human.String()) {
		if strings.HasPrefix(strings.TrimSpace(line), "braise ") {
			t.Errorf("trust 8.15: %q looks like a command to copy", line)
		}
	}
	if err := a.printJSON(p.Show); err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal([]byte(machine.String()), &back); err != nil || back["arguments"].(map[string]any)["amount"] != "1\u200b000" {
		t.Errorf("trust 6.8: the data has changed: %v, %v", back, err)
	}
	if !strings.Contains(machine.String(), `1\u200b000`) {
		t.Errorf("trust 6.8: the JSON %s hides something", machine.String())
	}
}

func TestAnswerOf(t *testing.T) {
	decisions := []string{"approve", "reject"}
	for _, tt := range []struct {
		typed   string
		answers []string
		want    string
	}{
		{"approve", decisions, "approve"}, {" Approve ", decisions, "approve"}, {"a", decisions, "approve"}, {"rej", decisions, "reject"},
		{"y", decisions, "approve"}, {"YES", decisions, "approve"}, {"n", decisions, "reject"}, {"no", decisions, "reject"},
		{"", decisions, ""}, {"x", decisions, ""}, {"approved", decisions, ""},
		{"re", []string{"retry", "result", "fail"}, ""}, {"f", []string{"retry", "result", "fail"}, "fail"}, {"y", []string{"retry", "fail"}, ""},
		{"pay", []string{"pay", "pay later"}, "pay"}, {"A", []string{"A", "a"}, "A"}, {"n", []string{"next", "reject"}, "next"},
		{"y", []string{"yes", "no"}, "yes"}, {"no", []string{"yes", "no"}, "no"},
	} {
		if got := answerOf(tt.typed, tt.answers); got != tt.want {
			t.Errorf("%q of %q is %q, want %q", tt.typed, tt.answers, got, tt.want)
		}
	}
}

// The arguments of a call stand on lines of their own, and so do the parts of what is long or has texts of several
// lines. None looks like a line of the command's.
func TestArguments(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, tt := range []struct {
		args any
		want string
	}{
		{map[string]any{"path": "a.txt", "n": "5", "content": "one\n  braise resume x\n", "list": []any{1, "b"}, "x\n    braise": nil},
			"  arguments:\n    content:\n    │ one\n    │   braise resume x\n    list: [1,\"b\"]\n    n: \"5\"\n    path: \"a.txt\"\n    x␊    braise: null\n"},
		{map[string]any{"argv": []any{"sh", "-c", "one\ntwo"}, "env": map[string]any{"A": long, "B": long}, "none": []any{}},
			"  arguments:\n    argv:\n      - \"sh\"\n      - \"-c\"\n      -\n    │ one\n    │ two\n" +
				"    env:\n      A: \"" + long + "\"\n      B: \"" + long + "\"\n    none: []\n"},
		{map[string]any{}, "  arguments: {}\n"},
		{"no JSON", "  arguments: no JSON\n"},
	} {
		var got strings.Builder
		printArguments(&got, tt.args)
		if got.String() != tt.want {
			t.Errorf("got %s want %s", got.String(), tt.want)
		}
	}
}

// What a yes covers is said before it is given.
func TestApprovalText(t *testing.T) {
	for _, tt := range []struct {
		request runtime.ApprovalRequest
		want    string
	}{
		{runtime.ApprovalRequest{Tool: "file.write", Keys: []string{"file.write"}},
			"  approve: this call; with scope run also later calls of file.write in this run\n"},
		{runtime.ApprovalRequest{Tool: "exec.run", Keys: []string{"exec.run:ls", "exec.run:cat"}},
			"  approve: this call; with scope run also later calls of exec.run:ls, exec.run:cat in this run\n"},
		{runtime.ApprovalRequest{Tool: "exec.run", Keys: []string{"exec.run:rm=061f9839630a3663f00b05652cdccf43"}},
			"  approve: this call; with scope run also later calls of exec.run:rm with these arguments in this run\n"},
		{runtime.ApprovalRequest{Tool: "exec.run", Keys: []string{"exec.run:sh"}, Once: true},
			"  approve: this call only; later ones are asked about again\n"},
	} {
		var got strings.Builder
		question := tt.request.Question()
		printShown(&got, &question)
		if !strings.Contains(got.String(), tt.want) {
			t.Errorf("%+v: %s, want %s", tt.request, got.String(), tt.want)
		}
	}
}

// Of the input, runs show tells what the provider's cache had to do with.
func TestCachedText(t *testing.T) {
	for _, tt := range []struct {
		read, written int64
		want          string
	}{{0, 0, ""}, {900, 0, " (900 cached)"}, {0, 7, " (7 written to the cache)"}, {900, 7, " (900 cached, 7 written to the cache)"}} {
		if got := cachedText(&checkpoint.Usage{InputTokens: 1000, CachedTokens: tt.read, CacheWriteTokens: tt.written}); got != tt.want {
			t.Errorf("%d, %d: %q, want %q", tt.read, tt.written, got, tt.want)
		}
	}
}

// A printed command names a Postgres store without its password, and the command says where that belongs.
func TestPasswordIsNotPrinted(t *testing.T) {
	for _, tt := range []struct {
		store, want string
		said        bool
	}{
		{"postgres://db.example.com/braise", "postgres://db.example.com/braise", false},
		{"postgres://ada@db:5432/braise?sslmode=disable&schema=x", "postgres://ada@db:5432/braise?sslmode=disable&schema=x", false},
		{"postgres://ada:s3cret@db/braise?sslmode=disable", "postgres://ada@db/braise?sslmode=disable", true},
		{"postgresql://ada@db/braise?password=s3cret&schema=x", "postgresql://ada@db/braise?schema=x", true},
		{"postgres://db/braise?sslpassword=s3cret", "postgres://db/braise", true},
		{"postgres://ada:s3%cret@db/braise", "…", true},
	} {
		got, hidden := withoutPassword(tt.store)
		if got != tt.want || hidden != tt.said {
			t.Errorf("%s: %q, %v, want %q, %v", tt.store, got, hidden, tt.want, tt.said)
		}
		for _, password := range []string{"", "s3cret"} {
			t.Setenv("PGPASSWORD", password)
			var stderr strings.Builder
			a := &app{stderr: &stderr}
			a.store = tt.store
			(&session{app: a}).sayHidden()
			if said := stderr.String() != ""; said != (tt.said && password == "") {
				t.Errorf("%s with PGPASSWORD=%q: %q", tt.store, password, stderr.String())
			}
		}
	}
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{"": "''", "a/b-c_1.yaml": "a/b-c_1.yaml", "a b": "'a b'", "it's": `'it'\''s'`,
		"{a,b}": "'{a,b}'", "one\ntwo": "'one\ntwo'", "postgres://a@b/c?d=e&f": "'postgres://a@b/c?d=e&f'"} {
		if got := quoted(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
}
