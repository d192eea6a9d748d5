package workflow_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// Neither secrets nor tokens are in what is kept: the files of a store, traces, warnings, errors.
func TestSecretsAndTokensAreNotKept(t *testing.T) {
	const canary = "canary-7c1f00d5"
	wf := runtest.Load(t, []byte(runtest.Head+`requires: {secrets: [TOKEN]}
steps:
  echo: {uses: test.echo, with: {token: "Bearer ${{ secrets.TOKEN }}", n: 1}}
  fail: {uses: test.fail, with: {token: "${{ secrets.TOKEN }}"}, on_error: continue}
  ask: {uses: test.ask, needs: [echo, fail], trigger: all_done, with: {token: "${{ secrets.TOKEN }}"}}
output: ["${{ steps.echo.output }}", "${{ steps.fail.error.message }}", "${{ steps.ask.output }}"]
`))
	for _, name := range []string{"jsonl", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var store checkpoint.Store
			var err error
			if name == "jsonl" {
				store, err = jsonl.Open(dir)
			} else {
				store, err = sqlite.Open(t.Context(), filepath.Join(dir, "runs.db"), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			events, warnings := &trace.Recorder{}, &runtest.Quiet{}
			rt := &runtime.Runtime{
				Store: store, Resume: resume.PassThrough{}, Secrets: runtime.SecretMap{"TOKEN": canary}, Trace: []trace.Sink{events}, Reporter: warnings,
				Tools: []runtime.Tool{
					runtest.Tool("test.echo", func(_ context.Context, args map[string]any) (any, error) {
						return map[string]any{"got": args["token"], "encoded": base64.StdEncoding.EncodeToString([]byte(canary))}, nil
					}),
					runtest.Tool("test.fail", func(_ context.Context, args map[string]any) (any, error) {
						return nil, fmt.Errorf("no luck with %s", args["token"])
					}),
					runtest.Tool("test.ask", func(ctx context.Context, args map[string]any) (any, error) {
						if answer, ok := resume.Answer(ctx); ok {
							return []any{answer, args["token"]}, nil
						}
						return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: fmt.Sprint("Use ", args["token"], "?"), Show: args})
					}),
				},
			}
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil || len(out.Pauses) != 1 {
				t.Fatal(out.Pauses, err)
			}
			secret := out.Token[strings.LastIndex(out.Token, ".")+1:]
			// The outcome is where the token is; nothing else may have it.
			shown, token := out.Pauses[0], out.Token
			shown.Token, out.Token, out.Pauses[0].Token = "", "", ""
			last, err := workflow.Resume(t.Context(), token, "yes", rt, nil)
			if err != nil {
				t.Fatal(err)
			}
			again, err := workflow.Resume(t.Context(), token, "yes", rt, nil)
			if err == nil {
				t.Error("the token works twice")
			}
			var kept bytes.Buffer
			for _, v := range []any{out, last, again, shown, events.Events()} {
				text, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				kept.Write(text)
			}
			fmt.Fprintf(&kept, "%v %+v %s", err, again.Err, strings.Join(warnings.Texts, "\n"))
			files := 0
			err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				files++
				kept.Write(text)
				return errors.Join(err)
			})
			if err != nil || files == 0 {
				t.Fatal(files, err)
			}
			for what, s := range map[string]string{"the secret": canary, "the secret in base64": base64.StdEncoding.EncodeToString([]byte(canary))[:16], "a token": secret} {
				if i := strings.Index(kept.String(), s); i >= 0 {
					t.Errorf("%s is in …%q", what, kept.String()[max(0, i-100):i])
				}
			}
		})
	}
}
