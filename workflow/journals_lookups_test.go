package workflow_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
)

// unlooked is a store of runs that began when an agent with retrieve: {} looked nothing up.
type unlooked struct{ checkpoint.Store }

func (s unlooked) Load(ctx context.Context, id string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	sum, recs, err := s.Store.Load(ctx, id, after)
	recs = slices.Clone(recs)
	for i := range recs {
		recs[i].Data = bytes.ReplaceAll(recs[i].Data, []byte(`,"retrieves":true`), nil)
	}
	return sum, recs, err
}

// agent-loop 2.1: an agent that looks documents up, and does not say how many, looks for 5. A run that began when that
// was none goes on so.
func TestEarlierRunsLookNothingUp(t *testing.T) {
	for _, tt := range []struct {
		name string
		open func(checkpoint.Store) checkpoint.Store
		want []string
	}{
		{"now", func(s checkpoint.Store) checkpoint.Store { return s }, []string{"first", "second", "third"}},
		{"earlier", func(s checkpoint.Store) checkpoint.Store { return unlooked{s} }, []string{"third"}},
	} {
		var looked []string
		for _, c := range journalCases(t, "22") {
			for _, line := range c.goOn(t, "died", func(t *testing.T) checkpoint.Store {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(filepath.Join(c.dir, "store"))); err != nil {
					t.Fatal(err)
				}
				return tt.open(openJournals(t, dir))
			}) {
				if step, ok := strings.CutPrefix(line, "call retriever "); ok {
					looked = append(looked, strings.Fields(step)[0])
				}
			}
		}
		if diff := cmp.Diff(tt.want, looked); diff != "" {
			t.Errorf("%s: agents that looked documents up (-want +got)\n%s", tt.name, diff)
		}
	}
}
