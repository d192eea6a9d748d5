package resume_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/resume"
	"github.com/google/go-cmp/cmp"
)

const secret = "0123456789abcdefghijklmnopqrst-_"

func TestMint(t *testing.T) {
	seen := map[string]bool{}
	for _, run := range []string{"r", "018f4f5e-7b1a-7c3d-9e2f-0123456789ab", "a.b.c", "A_", strings.Repeat("x", 128)} {
		for range 10 {
			token, hash := resume.Mint(run)
			if seen[token] {
				t.Errorf("%q was made twice", token)
			}
			seen[token] = true
			gotRun, gotHash, err := resume.Parse(token)
			if gotRun != run || !cmp.Equal(gotHash, hash) || err != nil {
				t.Errorf("Parse(%q) = %q, %x, %v, want %q, %x", token, gotRun, gotHash, err, run, hash)
			}
			if text, ok := strings.CutPrefix(token, run+"."); !ok || len(text) != len(secret) {
				t.Errorf("the token %q is not %q, a dot and %d characters", token, run, len(secret))
			}
		}
	}
}

func TestParse(t *testing.T) {
	// The hash is what sha256sum says of the token.
	run, hash, err := resume.Parse("run.1." + secret)
	if want := "cfeac58096354ff5a7f7b342ce9fd6393fef648d95c78f3f2721caaf42568328"; run != "run.1" || hex.EncodeToString(hash) != want || err != nil {
		t.Errorf("Parse = %q, %x, %v, want run.1, %s", run, hash, err, want)
	}
	for _, token := range []string{
		"", ".", "r", "r.", secret, "." + secret, "r." + secret[1:], "r." + secret + "0", "r" + secret, "r.." + secret[1:],
		"r." + secret[1:] + "=", "r." + secret[1:] + "+", "r." + secret[1:] + "/", "r." + secret + "\n", " r." + secret, "r." + secret[2:] + "é",
		"-r." + secret, "_r." + secret, "..r." + secret, "../r." + secret, "r/r." + secret, `r\r.` + secret, "r\x00." + secret, "r%2e." + secret,
		"é." + secret, "\xff." + secret, "r." + secret[1:] + "\xff", strings.Repeat("x", 129) + "." + secret, strings.Repeat("x.", 1<<20) + secret,
	} {
		if run, hash, err := resume.Parse(token); run != "" || hash != nil || err != checkpoint.ErrToken {
			t.Errorf("Parse(%.50q) = %q, %x, %v, want ErrToken", token, run, hash, err)
		}
	}
}

func FuzzParse(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add("r." + secret)
	f.Add("018f4f5e-7b1a-7c3d-9e2f-0123456789ab." + secret)
	f.Add("../etc/passwd." + secret)
	f.Add("\xff.")
	f.Fuzz(func(t *testing.T, token string) {
		run, hash, err := resume.Parse(token)
		if err != nil {
			if err != checkpoint.ErrToken || run != "" || hash != nil {
				t.Fatalf("Parse = %q, %x, %v", run, hash, err)
			}
			return
		}
		if sum := sha256.Sum256([]byte(token)); !cmp.Equal(hash, sum[:]) {
			t.Errorf("the hash is %x, want %x", hash, sum)
		}
		if err := (checkpoint.Run{ID: run, Digest: "d", StartedAt: time.Unix(0, 0)}).Check(); err != nil {
			t.Errorf("no store takes the run: %v", err)
		}
		if len(token) != len(run)+1+len(secret) || !strings.HasPrefix(token, run+".") {
			t.Errorf("the run is %q", run)
		}
	})
}

// A token finds its pause in a store, which never sees it.
func TestTokenInStore(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	p := resume.Pause{ID: "p1", Token: "not for the journal", Kind: resume.Human, Step: "ask", Prompt: "go on?", CreatedAt: now}
	opened, err := p.Record()
	if err != nil {
		t.Fatal(err)
	}
	token, hash := resume.Mint("r")
	minted, err := checkpoint.NewRecord(now, checkpoint.TokenMinted, "ask", map[string]any{"pause": p.ID, "hash": hex.EncodeToString(hash)})
	if err != nil {
		t.Fatal(err)
	}
	var store checkpoint.Memory
	run := checkpoint.Run{ID: "r", Recipe: "greet", Digest: "d", StartedAt: now}
	if _, err := store.Create(ctx, run, "me", time.Minute, opened, minted); err != nil {
		t.Fatal(err)
	}

	runID, hash, err := resume.Parse(token)
	if err != nil {
		t.Fatal(err)
	}
	info, err := store.FindPause(ctx, runID, hash)
	if err != nil {
		t.Fatal(err)
	}
	got, err := resume.Opened(info.Opened)
	p.Token = ""
	if diff := cmp.Diff(p, got); diff != "" || err != nil {
		t.Errorf("the pause found (-want +got): %v\n%s", err, diff)
	}
	_, recs, _ := store.Load(ctx, "r", 0)
	for _, rec := range recs {
		if line := string(rec.AppendLine(nil)); strings.Contains(line, "not for") || strings.Contains(line, token) {
			t.Errorf("the journal has a token: %s", line)
		}
	}
	forged, _ := resume.Mint("r")
	_, hash, _ = resume.Parse(forged)
	_, err = store.FindPause(ctx, runID, hash)
	if !errors.Is(err, checkpoint.ErrToken) {
		t.Errorf("a forged token: %v, want ErrToken", err)
	}
}

func TestPrintingShowsNoToken(t *testing.T) {
	p := resume.Pause{ID: "p1", Token: "r." + secret, Kind: resume.Human, Step: "ask"}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("paused", "pause", p, "at", &p)
	slog.New(slog.NewTextHandler(&log, nil)).Info("paused", "pause", p)
	bad := resume.Suspend(resume.Pause{Token: p.Token})
	text := fmt.Sprint(p, &p, bad, resume.Suspend(p)) + fmt.Sprintf("%v %+v %s", p, p, p) + log.String()
	if strings.Contains(text, secret) {
		t.Errorf("a token in %s", text)
	}
	if out, err := json.Marshal(p); !strings.Contains(string(out), secret) || err != nil {
		t.Errorf("no token in the JSON: %s, %v", out, err)
	}
}
