package resume_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/resume"
)

// The keys are what sha256sum says of the netstrings in the comments.
func TestKey(t *testing.T) {
	for _, tt := range []struct {
		run        string
		generation int
		path       string
		ordinal    int
		own, want  string
	}{
		// 1:r,1:1,4:send,1:2,0:,
		{"r", 1, "send", 2, "", "1a9e2e3a6aafe9ce0d0ad2b9db22f03840f017f83a741ed321b49a4bf2c67c4b"},
		// 36:018f4f5e-7b1a-7c3d-9e2f-0123456789ab,1:2,15:verify[2]/check,2:11,7:Zürich,
		{"018f4f5e-7b1a-7c3d-9e2f-0123456789ab", 2, "verify[2]/check", 11, "Zürich", "210ab4e50e74bfcd949137d9d279a6a8847322fad43a7271e69c72ef163b4333"},
		// 0:,1:0,0:,1:0,0:,
		{"", 0, "", 0, "", "f2004effe418d22a0e89fc4755eea5599e0fbc3500ea00bf4e3f44898945dac6"},
	} {
		if got := resume.Key(tt.run, tt.generation, tt.path, tt.ordinal, tt.own); got != tt.want {
			t.Errorf("Key(%q, %d, %q, %d, %q) = %s, want %s", tt.run, tt.generation, tt.path, tt.ordinal, tt.own, got, tt.want)
		}
	}
}

// Every part counts, and none runs into the next.
func TestKeysDiffer(t *testing.T) {
	seen := map[string]int{}
	for i, key := range []string{
		resume.Key("r", 1, "s", 1, ""), resume.Key("q", 1, "s", 1, ""), resume.Key("r", 2, "s", 1, ""),
		resume.Key("r", 1, "t", 1, ""), resume.Key("r", 1, "s", 2, ""), resume.Key("r", 1, "s", 1, "k"),
		resume.Key("r", 1, "s", 11, ""), resume.Key("r", 11, "s", 1, ""), resume.Key("r1", 1, "s", 1, ""),
		resume.Key("", 1, "rs", 1, ""), resume.Key("r,1:1", 1, "s", 1, ""), resume.Key("r", 1, "s,1:1", 1, ""),
		resume.Key("r", 1, "s", 1, "\xff"), resume.Key("r", 1, "s", 1, "\xfe"),
	} {
		if other, ok := seen[key]; ok {
			t.Errorf("keys %d and %d are the same", other, i)
		}
		seen[key] = i
	}
}

func TestContext(t *testing.T) {
	ctx := context.Background()
	if got, ok := resume.Answer(ctx); ok {
		t.Errorf("an answer without a pause: %v", got)
	}
	if got := resume.IdempotencyKey(ctx); got != "" {
		t.Errorf("a key outside of a run: %q", got)
	}
	ctx = resume.WithAnswer(resume.WithIdempotencyKey(ctx, "k"), nil)
	if got, ok := resume.Answer(ctx); got != nil || !ok {
		t.Errorf("the answer is %v, %v, want nil, true", got, ok)
	}
	if got, ok := resume.Answer(resume.WithAnswer(ctx, "later")); got != "later" || !ok {
		t.Errorf("the answer is %v, %v, want the later one", got, ok)
	}
	if got := resume.IdempotencyKey(ctx); got != "k" {
		t.Errorf("the key is %q, want k", got)
	}
}

func TestPassThrough(t *testing.T) {
	var a resume.Adapter = resume.PassThrough{}
	got, err := a.Resolve(t.Context(), resume.Request{RunID: "r", Input: "yes"})
	if got != "yes" || err != nil {
		t.Errorf("Resolve = %v, %v, want the input", got, err)
	}
}

// A tool that asks before it acts.
func ExampleSuspend() {
	refund := func(ctx context.Context, amount int) (string, error) {
		answer, ok := resume.Answer(ctx)
		if !ok {
			return "", resume.Suspend(resume.Pause{
				Kind:      resume.Human,
				Prompt:    fmt.Sprintf("Refund %d euros?", amount),
				Decisions: []string{"approve", "reject"},
			})
		}
		if answer.(map[string]any)["decision"] != "approve" {
			return "refused", nil
		}
		return "refunded with key " + resume.IdempotencyKey(ctx), nil
	}

	ctx := resume.WithIdempotencyKey(context.Background(), "8d1f")
	_, err := refund(ctx, 200)
	fmt.Println(err)

	ctx = resume.WithAnswer(ctx, resume.AnswerOf("approve", nil))
	fmt.Println(refund(ctx, 200))
	// Output:
	// the call pauses its step (human)
	// refunded with key 8d1f <nil>
}

func TestCallContext(t *testing.T) {
	type other struct{}
	around := context.WithValue(resume.WithAnswer(t.Context(), "of the call around"), other{}, "other")
	ctx := &resume.CallContext{Context: around, RunID: "r", Generation: 1, Path: "send", Ordinal: 2}
	if got, want := resume.IdempotencyKey(ctx), resume.Key("r", 1, "send", 2, ""); got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	if v, ok := resume.Answer(ctx); ok {
		t.Errorf("answer %v before there was one", v)
	}
	if got := ctx.Value(other{}); got != "other" {
		t.Errorf("another value: %v", got)
	}
	ctx.Detail = &resume.CallDetail{Own: "own"}
	if got, want := resume.IdempotencyKey(ctx), resume.Key("r", 1, "send", 2, "own"); got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	if v, ok := resume.Answer(ctx); ok {
		t.Errorf("answer %v before there was one", v)
	}
	ctx.Detail.Replies, ctx.Detail.Answered = []resume.Reply{{}}, true
	if v, ok := resume.Answer(ctx); !ok || v != nil {
		t.Errorf("a null answer: %v, %v", v, ok)
	}
}

// Replies are all answers; Answer is the last one, unless the last pause ended by its time.
func TestReplies(t *testing.T) {
	all := []resume.Reply{{To: "a", Answer: 1}, {To: "b"}}
	ctx := &resume.CallContext{Context: resume.WithAnswer(t.Context(), "of the call around"), RunID: "r",
		Detail: &resume.CallDetail{Replies: all, Answered: true}}
	if v, ok := resume.Answer(ctx); v != nil || !ok {
		t.Errorf("answer %v, %v", v, ok)
	}
	if ctx.Detail.Answered = false; !cmp.Equal(resume.Replies(ctx), all) {
		t.Errorf("replies %v", resume.Replies(ctx))
	}
	if v, ok := resume.Answer(ctx); ok {
		t.Errorf("after a time: answer %v", v)
	}
	if ctx.Detail = nil; resume.Replies(ctx) != nil {
		t.Errorf("replies %v before there was a pause", resume.Replies(ctx))
	}
	if got := resume.Replies(resume.WithAnswer(t.Context(), 2)); !cmp.Equal(got, []resume.Reply{{Answer: 2}}) {
		t.Errorf("replies %v of a test", got)
	}
}
