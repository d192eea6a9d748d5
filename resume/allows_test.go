package resume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/resume"
)

// serve 3: a pause is answered by people of its list, and under four eyes not by whoever began the run.
func TestAllows(t *testing.T) {
	const unknown, notYou, fourEyes = "it is not known who", "may not answer", "four_eyes"
	support := []string{"support", "ada"}
	for _, tt := range []struct {
		name      string
		pause     resume.Pause
		by        string
		groups    string
		startedBy string
		want      string // in the error; "": none
	}{
		{name: "anybody"},
		{name: "anybody who is known", by: "eve", startedBy: "eve"},
		{name: "by name", pause: resume.Pause{To: support}, by: "ada"},
		{name: "by group", pause: resume.Pause{To: support}, by: "bob", groups: "users support"},
		{name: "a group, nobody known", pause: resume.Pause{To: support}, groups: "support"},
		{name: "another", pause: resume.Pause{To: support}, by: "eve", groups: "users", want: `"eve" may not answer` + "\n" + `  hint: "support" or "ada" may answer`},
		{name: "another spelling", pause: resume.Pause{To: support}, by: "Ada", want: notYou},
		{name: "nobody", pause: resume.Pause{To: support}, want: unknown + " answers"},
		{name: "four eyes", pause: resume.Pause{FourEyes: true}, by: "bob", startedBy: "ada"},
		{name: "the starter", pause: resume.Pause{FourEyes: true}, by: "ada", startedBy: "ada", want: `"ada" began the run, and may not answer`},
		{name: "four eyes, nobody", pause: resume.Pause{FourEyes: true}, startedBy: "ada", want: unknown + " answers"},
		{name: "four eyes, no starter", pause: resume.Pause{FourEyes: true}, by: "ada", want: unknown + " began the run"},
		{name: "both", pause: resume.Pause{To: support, FourEyes: true}, by: "bob", groups: "support", startedBy: "ada"},
		{name: "both, the starter", pause: resume.Pause{To: support, FourEyes: true}, by: "ada", startedBy: "ada", want: fourEyes},
		{name: "both, another", pause: resume.Pause{To: support, FourEyes: true}, by: "eve", startedBy: "ada", want: notYou},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.pause
			p.ID, p.Step, p.Kind = "approve", "approve", resume.Human
			err := p.Allows(tt.by, strings.Fields(tt.groups), tt.startedBy)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), `human pause "approve"`) || !strings.Contains(err.Error(), "\n  hint: ")) {
				t.Errorf("no pause or hint in %v", err)
			}
		})
	}
}

func ExamplePause_Allows() {
	p := &resume.Pause{ID: "approve", Kind: resume.Human, Step: "approve", To: []string{"support"}, FourEyes: true}
	fmt.Println(p.Allows("bob", []string{"support"}, "ada"))
	fmt.Println(p.Allows("ada", []string{"support"}, "ada"))
	// Output:
	// <nil>
	// human pause "approve" of step "approve": "ada" began the run, and may not answer
	//   hint: another person must answer, as the step has four_eyes
}

// Who may answer is kept with the pause.
func TestPeopleAreRecorded(t *testing.T) {
	p := full
	p.Token, p.To, p.FourEyes = "", []string{"support", "ada"}, true
	rec, err := p.Record()
	if err != nil {
		t.Fatal(err)
	}
	if want := `"fourEyes":true,`; !strings.Contains(string(rec.Data), want) || !strings.Contains(string(rec.Data), `"to":["support","ada"]`) {
		t.Errorf("record %s", rec.Data)
	}
	got, err := resume.Opened(rec)
	if diff := cmp.Diff(p, got); diff != "" || err != nil {
		t.Errorf("back from the record (-want +got): %v\n%s", err, diff)
	}
	for _, wrong := range []string{`{"pause":"p","kind":"human","to":["a",2]}`, `{"pause":"p","kind":"human","to":"a"}`,
		`{"pause":"p","kind":"human","to":[""]}`, `{"pause":"p","kind":"human","fourEyes":1}`} {
		rec.Data = []byte(wrong)
		if _, err := resume.Opened(rec); err == nil {
			t.Errorf("%s is a pause", wrong)
		}
	}
}

// trust 2.1: who is asked is a part of the question, but not the order of their names.
func TestQuestionHasPeople(t *testing.T) {
	q := func(to []string, fourEyes bool) string {
		return resume.Pause{Prompt: "Go?", To: to, FourEyes: fourEyes}.Question()
	}
	// printf '{"decisions":["a","b"],"prompt":"Go?"}' | sha256sum, as before there were people
	if got := (resume.Pause{Prompt: "Go?", Decisions: []string{"a", "b"}}).Question(); got != "96b51e7b06fb9977ef3a24ac075089d34b1541197a9777a26d3ee99ba9f73d47" {
		t.Errorf("the question of anybody is %s", got)
	}
	// printf '{"fourEyes":true,"prompt":"Go?","to":["a","b"]}' | sha256sum
	if got := q([]string{"b", "a"}, true); got != "e97e2142b4068a2fa43a3652feeddfe5fc82d6c761908032f57c607aa7dabae6" {
		t.Errorf("the question of some is %s", got)
	}
	if q([]string{"a", "b"}, false) != q([]string{"b", "a"}, false) {
		t.Error("the order of names counts")
	}
	seen := map[string]bool{q(nil, false): true, q(nil, true): true, q([]string{"a"}, false): true, q([]string{"a"}, true): true, q([]string{"a", "b"}, true): true}
	if len(seen) != 5 {
		t.Errorf("%d questions, want 5", len(seen))
	}
}
