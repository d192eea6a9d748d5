package temporal

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	flow "github.com/braise-run/braise/workflow"
)

var writeHistories = flag.String("write-histories", "", "write histories of the samples for this release, with a server")

// history reads a history of testdata.
func history(t *testing.T, file string) *historypb.History {
	t.Helper()
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var h historypb.History
	if err := protojson.Unmarshal(text, &h); err != nil {
		t.Fatal(err)
	}
	return &h
}

// Histories of earlier releases lead the workflow of this one where they led theirs. They are never written again: a
// workflow that cannot follow one would leave the runs of that release standing.
func TestHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatal("no histories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, "testdata/histories/"), func(t *testing.T) {
			h, id := history(t, file), strings.TrimSuffix(filepath.Base(file), ".json.gz")
			rt := demoRuntime(t, &effects{})
			replays(t, h, id, rt)
			changed := proto.Clone(h).(*historypb.History)
			first := slices.IndexFunc(changed.Events, func(e *historypb.HistoryEvent) bool {
				return e.GetActivityTaskScheduledEventAttributes() != nil
			})
			if first < 0 {
				return
			}
			changed.Events[first].GetActivityTaskScheduledEventAttributes().ActivityType = &commonpb.ActivityType{Name: "braise.other"}
			r := worker.NewWorkflowReplayer()
			r.RegisterWorkflowWithOptions(newWorker(rt).run, workflow.RegisterOptions{Name: runWorkflow})
			err := r.ReplayWorkflowHistoryWithOptions(quiet{}, changed, // a driver that goes another way must not go unnoticed
				worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}})
			if err == nil || !strings.Contains(err.Error(), "TMPRL1100") {
				t.Errorf("a history of another driver: %v", err)
			}
		})
	}
}

// With -write-histories NAME the histories of the samples are written for a release, with a server: each of a run in one
// execution of its workflow, and the last execution of one in many, which begins with the journal of the others; the first
// of those, which ends with the next one; runs whose calls that read stay with the worker, and whose calls go to another
// queue; and one that is cancelled at work.
func TestWriteHistories(t *testing.T) {
	if *writeHistories == "" {
		t.Skip("-write-histories names no release")
	}
	dir := filepath.Join("testdata", "histories", *writeHistories)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	working(t, c, demoRuntime(t, &effects{}), nil)
	working(t, c, demoRuntime(t, &effects{}), &WorkerOptions{TaskQueue: "far", OnlyCalls: true})
	e := &Engine{Client: c}
	write := func(id, name, execution string) {
		t.Helper()
		writeHistory(t, filepath.Join(dir, name+".json.gz"), historyOfExecution(t, c, id, execution))
	}
	for _, s := range samples {
		how := map[string]Options{"": {}, "-25": {MaxEvents: 25}}
		if s.name == "demo" || s.name == "handed" { // whose calls that read do so at once
			how["-local"] = Options{LocalReads: true}
			how["-far"] = Options{Queues: map[string]string{"demo.work": "far", "demo.file": "far"}}
		}
		for suffix, o := range how {
			id := s.name + suffix
			onServer(t, e, id, s, o)
			write(id, id, "")
		}
		last := historyOf(t, c, s.name+"-25").Events[0].GetWorkflowExecutionStartedEventAttributes()
		if first := last.FirstExecutionRunId; first != last.OriginalExecutionRunId {
			write(s.name+"-25", s.name+"-first", first)
		}
	}
	id, err := e.Start(t.Context(), compiled(t, head+"steps:\n"+charge+"  hang: {uses: demo.hang, needs: [pay], with: {}}\n"),
		nil, &Options{ID: "cancelled"})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 2; { // the calls of pay and hang
		n = 0
		for _, ev := range historyOf(t, c, id).Events {
			if ev.GetActivityTaskScheduledEventAttributes() != nil {
				n++
			}
		}
	}
	if out, err := e.Cancel(t.Context(), id, "not needed", "ann"); out == nil || out.Status != flow.StatusCancelled {
		t.Fatal(out, err)
	}
	write(id, id, "")
}

func writeHistory(t *testing.T, file string, h *historypb.History) {
	t.Helper()
	text, err := protojson.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	w := gzip.NewWriter(f)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
