package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// In Berlin the clocks go from 02:00 to 03:00 on 29 March 2026 (01:00 UTC), and from 03:00 to 02:00 on 25 October 2026
// (01:00 UTC). On Lord Howe they go back by half an hour on 5 April 2026 at 02:00 (4 April 15:00 UTC).
func TestScheduleNext(t *testing.T) {
	for _, tt := range []struct {
		what, cron, zone, after string
		want                    []string // in UTC
	}{
		{"UTC", "0 2 * * *", "UTC", "2026-11-22T02:00:00Z", []string{"2026-11-23T02:00", "2026-11-24T02:00"}},
		{"winter", "0 2 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:00", "2026-01-02T01:00"}},
		{"a time in the gap comes at the change", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00", "2026-03-30T00:30"}},
		{"several times in the gap come once", "*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00", "2026-03-30T00:00"}},
		{"every hour over the gap", "0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z",
			[]string{"2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T02:00"}},
		{"a time that comes twice is the first", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30", "2026-10-26T01:30"}},
		{"the end of the hour that comes twice", "0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T02:00", "2026-10-26T02:00"}},
		{"every half hour when the clocks go back", "*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z",
			[]string{"2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"}},
		{"half an hour back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z",
			[]string{"2026-04-04T14:45", "2026-04-05T15:15"}},
		{"working days", "30 8 * * 1-5", "UTC", "2026-11-20T09:00:00Z", []string{"2026-11-23T08:30", "2026-11-24T08:30"}},
		{"leap day", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00"}},
	} {
		after, err := time.Parse(time.RFC3339, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		s := &worker.Schedule{Cron: tt.cron, Zone: zone(t, tt.zone)}
		var got []string
		for range tt.want {
			after = s.Next(after)
			got = append(got, after.UTC().Format("2006-01-02T15:04"))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q in %s: %q, want %q", tt.what, tt.cron, tt.zone, got, tt.want)
		}
	}
}

func TestScheduleCheck(t *testing.T) {
	start := func(context.Context, map[string]any, *workflow.EnqueueOptions) (string, error) { return "", nil }
	for _, tt := range []struct {
		s    worker.Schedule
		want string // "": it is good
	}{
		{worker.Schedule{Name: "n", Cron: "0 2 * * *", Start: start}, ""},
		{worker.Schedule{Name: "n", Cron: "0 2 * *", Start: start}, `"0 2 * *" is not a time`},
		{worker.Schedule{Name: "n", Cron: "0 0 2 * * *", Start: start}, "five fields"},
		{worker.Schedule{Name: "n", Cron: "@daily", Start: start}, "five fields"},
		{worker.Schedule{Name: "n", Cron: "61 2 * * *", Start: start}, "is not a time"},
		{worker.Schedule{Name: "n", Cron: "0 0 30 2 *", Start: start}, "never comes"},
		{worker.Schedule{Name: "a/b", Cron: "0 2 * * *", Start: start}, "letters, digits"},
		{worker.Schedule{Cron: "0 2 * * *", Start: start}, "letters, digits"},
		{worker.Schedule{Name: "n", Cron: "0 2 * * *"}, "no Start"},
	} {
		err := tt.s.Check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q %q: %v, want %q", tt.s.Name, tt.s.Cron, err, tt.want)
		}
	}
}

// started collects the runs that schedules begin.
type started struct {
	mu  sync.Mutex
	ids []string
	err error
}

func (s *started) start(_ context.Context, _ map[string]any, o *workflow.EnqueueOptions) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return "", s.err
	}
	if slices.Contains(s.ids, o.RunID) {
		return "", &runtime.Error{Category: runtime.CategoryInfra, Code: "run.exists", Err: checkpoint.ErrExists}
	}
	s.ids = append(s.ids, o.RunID)
	return o.RunID, nil
}

func (s *started) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *started) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

// keep lets a worker with a schedule work for some time.
func keep(t *testing.T, store checkpoint.Store, s worker.Schedule, d time.Duration) {
	t.Helper()
	w := &worker.Worker{Runtime: &runtime.Runtime{Store: store}, Queues: []string{"q"}, Schedules: []worker.Schedule{s}}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}

// synctest begins at midnight UTC on 1 January 2000.
func TestSchedulesBeginRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		var runs started
		hourly := worker.Schedule{Name: "hourly", Cron: "0 * * * *", Start: runs.start}
		keep(t, &store, hourly, 150*time.Minute)
		time.Sleep(3 * time.Hour) // nobody works: what passes is skipped
		keep(t, &store, hourly, time.Hour)
		want := []string{"hourly-20000101T0100Z", "hourly-20000101T0200Z", "hourly-20000101T0600Z"}
		if got := runs.list(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestSchedulesCatchUpWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		var runs started
		hourly := worker.Schedule{Name: "h", Cron: "0 * * * *", Start: runs.start, Last: true}
		keep(t, &store, hourly, 30*time.Minute) // a new schedule has missed nothing
		time.Sleep(3 * time.Hour)               // it is 03:30 then
		keep(t, &store, hourly, time.Minute)
		keep(t, &store, hourly, time.Minute) // it is not begun again
		if got, want := runs.list(), []string{"h-20000101T0300Z"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestSchedulesOfManyWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		var runs started
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				keep(t, &store, worker.Schedule{Name: "h", Cron: "0 * * * *", Start: runs.start}, 150*time.Minute)
			})
		}
		all.Wait()
		if got, want := runs.list(), []string{"h-20000101T0100Z", "h-20000101T0200Z"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// While the store fails, the run is tried again.
func TestSchedulesOutlastAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		var runs started
		runs.fail(&runtime.Error{Category: runtime.CategoryInfra, Code: "store.failed", Err: fmt.Errorf("it is away")})
		go func() {
			time.Sleep(70 * time.Minute)
			runs.fail(nil)
		}()
		keep(t, &store, worker.Schedule{Name: "h", Cron: "0 * * * *", Start: runs.start}, 75*time.Minute)
		if got, want := runs.list(), []string{"h-20000101T0100Z"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
