package sqlite

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// List implements checkpoint.Store. It reads no journals.
func (s *Store) List(ctx context.Context, f checkpoint.Filter) (all []checkpoint.Summary, err error) {
	var failed []error
	told := f
	told.Signalled = false // that, the summary does not tell
	look := s.clock.Look()
	err = s.read(ctx, func(c *sqlite.Conn) error {
		return search(c, f, look, func(num int64) error {
			e, err := entryOf(c, num)
			if _, ok := errors.AsType[*refusal](err); ok {
				failed = append(failed, err)
				return nil
			}
			if err != nil {
				return err
			}
			if sum := e.summary(look); told.Match(sum) {
				all = append(all, sum)
			}
			if f.Limit > 0 && len(all) == f.Limit {
				return errEnough
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return all, errors.Join(failed...)
}

var errEnough = refuse("enough") // ends a query before its last row

// search calls found with the number of each run that a filter lets through, as far as the columns tell, in the order
// of lists. It ends at errEnough.
func search(
	c *sqlite.Conn, f checkpoint.Filter, look func(checkpoint.Lease) bool, found func(num int64) error,
) error {
	w, err := choose(c, f, false)
	if err != nil || w.keys == nil {
		return err
	}
	// Whether a run is running or interrupted, only its lease tells.
	held := slices.Contains(f.Phases, checkpoint.PhaseRunning)
	split := held != slices.Contains(f.Phases, checkpoint.PhaseInterrupted)
	text, args := w.sql(f, split)
	err = query(c, func(stmt *sqlite.Stmt) error {
		if stmt.ColumnLen(3) > 0 {
			if l, err := leaseOf(stmt); err == nil && look(l) != held {
				return nil
			}
		}
		return found(stmt.ColumnInt64(0))
	}, text, args...)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// leaseOf returns the lease that is in the column 3; the id of its run is in the one before.
func leaseOf(stmt *sqlite.Stmt) (checkpoint.Lease, error) {
	l, err := checkpoint.ParseLeaseLine("", column(stmt, 3))
	l.RunID = stmt.ColumnText(2)
	return l, err
}

// Count implements checkpoint.Querier. It counts runs that are damaged, too.
func (s *Store) Count(ctx context.Context, f checkpoint.Filter, most int) (map[checkpoint.Phase]int, error) {
	f.After = checkpoint.Cursor{}
	if most <= 0 {
		most = math.MaxInt
	}
	counts, look := map[checkpoint.Phase]int{}, s.clock.Look()
	add := func(stmt *sqlite.Stmt) error {
		sum := checkpoint.Summary{Status: checkpoint.Status(stmt.ColumnText(0))}
		if sum.Status == checkpoint.Running {
			l, err := leaseOf(stmt)
			sum.Held = err == nil && look(l)
		}
		phase := sum.Phase()
		if n := stmt.ColumnInt(1); n > 0 && (f.Phases == nil || slices.Contains(f.Phases, phase)) {
			counts[phase] = min(most, counts[phase]+n)
		}
		if counts[checkpoint.PhaseRunning] == most && counts[checkpoint.PhaseInterrupted] == most {
			return errEnough
		}
		return nil
	}
	err := s.read(ctx, func(c *sqlite.Conn) error {
		w, err := choose(c, f, true)
		for _, k := range w.keys {
			if err == nil || errors.Is(err, errEnough) {
				text, args := w.count(f, k, most)
				err = query(c, add, text, args...)
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return counts, nil
}

// condition is a part of a query.
type condition struct {
	text string
	args []any
}

func where(text string, args ...any) condition { return condition{text, args} }

// join appends conditions to a query.
func join(text string, args []any, all ...condition) (string, []any) {
	for _, c := range all {
		text, args = text+" AND "+c.text, append(args, c.args...)
	}
	return text, args
}

// way is an index that leads to runs.
type way struct {
	from string    // the table, with the index
	run  string    // the column with the number of the run
	keys []stretch // each finds some runs, all together find them all
	// ordered: the index has the runs of each key in the order of lists. Otherwise they have to be sorted.
	ordered bool
	// light is how many runs a list finds as quickly by this way as one by others, since the index has what lists ask
	// for. 0: each run has to be read.
	light int
}

// stretch is a part of an index, which a key finds.
type stretch struct {
	condition
	status checkpoint.Status // of all these runs; "": any
	label  string            // that all these runs have
}

// table is the one whose columns say what lists ask for.
func (w way) table() string {
	if w.from == "labels" {
		return w.from
	}
	return "runs"
}

// of returns an expression for a column that runs has and labels has not.
func (w way) of(column string) string {
	if w.table() == "labels" {
		return "(SELECT " + column + " FROM runs WHERE num = labels.run)"
	}
	return "runs." + column
}

// num is the number of a run.
func (w way) num() string {
	if w.table() == "labels" {
		return "labels.run"
	}
	return "runs.num"
}

// everyStatus are the statuses of runs.
var everyStatus = []checkpoint.Status{checkpoint.Queued, checkpoint.Running, checkpoint.Paused,
	checkpoint.OK, checkpoint.Failed, checkpoint.Cancelled}

// statuses returns the statuses that runs of a filter have. Nothing is due of a run that is over.
func statuses(f checkpoint.Filter) (some []checkpoint.Status) {
	for _, status := range everyStatus {
		if status.Ended() && !f.DueBefore.IsZero() {
			continue
		}
		free := checkpoint.Summary{Status: status}
		held := checkpoint.Summary{Status: status, Held: true}
		if f.Phases == nil || slices.Contains(f.Phases, free.Phase()) || slices.Contains(f.Phases, held.Phase()) {
			some = append(some, status)
		}
	}
	return some
}

const (
	maxKeys   = 16 // so many values of one column are looked up one by one
	maxLabels = 16 // no run has more, see checkpoint.Run
)

// ways returns the indexes that lead to all runs of a filter. Of those that lead to many runs the first one is best.
func ways(f checkpoint.Filter) (some []way) {
	if f.Parent != "" {
		some = append(some, way{from: "runs INDEXED BY runs_parent", run: "num", ordered: true,
			keys: []stretch{{condition: where("parent = ?", f.Parent)}}})
	}
	// These have the status behind the key.
	each := func(from, run, label string, keys ...condition) {
		w := way{from: from, run: run, ordered: true}
		for _, k := range keys {
			for _, status := range statuses(f) {
				args := slices.Concat(k.args, []any{string(status)})
				w.keys = append(w.keys, stretch{where(k.text+"status = ?", args...), status, label})
			}
		}
		some = append(some, w)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		each("labels", "run", name, where("key = ? AND value = ? AND ", name, f.Labels[name]))
	}
	if f.Recipe != "" {
		each("runs INDEXED BY runs_recipe", "num", "", where("recipe = ? AND ", f.Recipe))
	}
	if queues := distinct(f.Queues); len(queues) > 0 && len(queues) <= maxKeys && queues[0] != "" {
		var keys []condition
		for _, queue := range queues {
			keys = append(keys, where("queue = ? AND queue <> '' AND ", queue))
		}
		each("runs INDEXED BY runs_queue", "num", "", keys...)
	}
	each("runs INDEXED BY runs_status", "num", "", where(""))

	sorted := func(from, run string, k condition) {
		some = append(some, way{from: from, run: run, keys: []stretch{{condition: k}}})
	}
	if f.Prefix != "" {
		light := 8
		if f.Labels != nil || f.Parent != "" || f.Signalled || !f.DueBefore.IsZero() { // that is elsewhere
			light = 1
		}
		some = append(some, way{from: "runs INDEXED BY runs_id", run: "num", light: light,
			keys: []stretch{{condition: prefixed(f, "id")}}})
	}
	if !f.DueBefore.IsZero() {
		sorted("pauses INDEXED BY pauses_due", "run", where("due <= ?", sortable(f.DueBefore)))
	}
	if f.Signalled {
		sorted("signals INDEXED BY signals_open", "run", where("done = 0"))
	}
	return some
}

func distinct(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// prefixed is the condition on the column with the id. No id has a character behind z.
func prefixed(f checkpoint.Filter, id string) condition {
	return where(id+" >= ? AND "+id+" < ?", f.Prefix, f.Prefix+"\x7f")
}

// span are the conditions on where in lists a run stands, and on its id.
func (w way) span(f checkpoint.Filter) (some []condition) {
	started, id := w.table()+".started", w.table()+".id"
	if !f.From.IsZero() {
		some = append(some, where(started+" >= ?", sortable(f.From)))
	}
	if !f.To.IsZero() {
		some = append(some, where(started+" < ?", sortable(f.To)))
	}
	if f.After != (checkpoint.Cursor{}) {
		behind := " < "
		if f.Oldest {
			behind = " > "
		}
		some = append(some, where("("+started+", "+id+")"+behind+"(?, ?)", sortable(f.After.At), f.After.RunID))
	}
	if f.Prefix != "" {
		some = append(some, prefixed(f, id))
	}
	return some
}

// few is how many runs are found and sorted in less than some milliseconds.
var few = 2000

// choose returns the way to the fewest runs; one without keys when there can be none. With count they are counted, for
// which some of them are read.
func choose(c *sqlite.Conn, f checkpoint.Filter, count bool) (way, error) {
	if len(statuses(f)) == 0 || f.Queues != nil && len(f.Queues) == 0 || len(f.Labels) > maxLabels {
		return way{}, nil
	}
	some := ways(f)
	best, least := some[0], few
	if len(some) == 1 {
		return best, nil
	}
	for _, w := range some {
		n, light := 0, 1
		if !count {
			light = max(1, w.light)
		}
		for _, k := range w.keys {
			text, args := join("SELECT count(*) FROM (SELECT 1 FROM "+w.from+" WHERE true", nil, k.condition)
			err := query(c, func(stmt *sqlite.Stmt) error { n += stmt.ColumnInt(0); return nil },
				text+" LIMIT ?)", append(args, least*light)...)
			if err != nil {
				return best, err
			}
			if n >= least*light {
				break
			}
		}
		if n < least*light {
			best, least = w, n/light
		}
	}
	return best, nil
}

// conditions are all that a filter says of a run, but for where in lists it stands, and for what its key says.
func (w way) conditions(f checkpoint.Filter, k stretch) (some []condition) {
	table := w.table()
	if f.Phases != nil && k.status == "" {
		var args []any
		for _, status := range statuses(f) {
			args = append(args, string(status))
		}
		some = append(some, where("status IN (NULL"+strings.Repeat(", ?", len(args))+")", args...))
	}
	if f.Recipe != "" {
		some = append(some, where("recipe = ?", f.Recipe))
	}
	switch queues := distinct(f.Queues); {
	case f.Queues == nil:
	case len(queues) == 1: // for each row, this is quicker
		some = append(some, where("queue = ?", queues[0]))
	default:
		some = append(some, where("queue IN (SELECT value FROM json_each(?))", jsonText(queues)))
	}
	if f.Parent != "" {
		some = append(some, where(w.of("parent")+" = ?", f.Parent))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		if name != k.label || k.label == "" {
			some = append(some, where("EXISTS (SELECT 1 FROM labels l WHERE l.key = ? AND l.value = ? AND l.status = "+
				table+".status AND l.started = "+table+".started AND l.id = "+table+".id)", name, f.Labels[name]))
		}
	}
	if !f.DueBefore.IsZero() {
		some = append(some, where("EXISTS (SELECT 1 FROM pauses WHERE run = "+w.num()+
			" AND due <= ? AND "+unanswered+")", sortable(f.DueBefore)))
	}
	if f.Signalled {
		some = append(some, where("EXISTS (SELECT 1 FROM signals WHERE run = "+w.num()+" AND done = 0)"))
	}
	return some
}

// runs returns what follows the columns in a query for the runs of a filter that a key finds.
func (w way) runs(f checkpoint.Filter, k stretch) (text string, args []any) {
	text, end := " FROM "+w.from+" WHERE true", ""
	if !w.ordered && w.light == 0 {
		text, end = " FROM runs NOT INDEXED WHERE num IN (SELECT "+w.run+text, ")"
	}
	text, args = join(text, nil, k.condition)
	return join(text+end, args, slices.Concat(w.span(f), w.conditions(f, k))...)
}

// sql returns the query that lists the runs of a filter by the way: their numbers, places, and with lease the leases
// of those whose status is running.
func (w way) sql(f checkpoint.Filter, lease bool) (text string, args []any) {
	columns := ", NULL"
	if lease {
		columns = ", CASE status WHEN 'running' THEN " + w.of("lease") + " END"
	}
	for i, k := range w.keys {
		if i > 0 {
			text += " UNION ALL "
		}
		runs, more := w.runs(f, k)
		text += "SELECT " + w.num() + ", started AS at, id AS id" + columns + runs
		args = append(args, more...)
	}
	if f.Oldest {
		return text + " ORDER BY at, id", args
	}
	return text + " ORDER BY at DESC, id DESC", args
}

// count returns the query that counts the runs of a filter that a key finds: their status and number, and the id and
// lease of each one that is running.
func (w way) count(f checkpoint.Filter, k stretch, most int) (text string, args []any) {
	runs, args := w.runs(f, k)
	switch k.status {
	case "":
		return "SELECT status, count(*), id, lease" + runs +
			" GROUP BY status, CASE status WHEN 'running' THEN num END", args
	case checkpoint.Running:
		return "SELECT status, 1, id, " + w.of("lease") + runs, args
	}
	return "SELECT ?, count(*) FROM (SELECT 1" + runs + " LIMIT ?)",
		slices.Concat([]any{string(k.status)}, args, []any{most})
}

// addLabels keeps the labels of a run.
func addLabels(c *sqlite.Conn, num int64, sum checkpoint.Summary) error {
	for _, key := range slices.Sorted(maps.Keys(sum.Labels)) {
		err := query(c, nil, "INSERT INTO labels (key, value, status, started, id, run, recipe, queue)"+
			" VALUES (?, ?, ?, ?, ?, ?, ?, ?)", key, sum.Labels[key], string(sum.Status), sortable(sum.StartedAt),
			sum.ID, num, sum.Recipe, sum.Queue)
		if err != nil {
			return err
		}
	}
	return nil
}

// eachLabel executes a statement, which ends where conditions begin, for each label of a run.
func eachLabel(c *sqlite.Conn, sum checkpoint.Summary, text string, args ...any) error {
	for _, key := range slices.Sorted(maps.Keys(sum.Labels)) {
		err := query(c, nil, text+" WHERE key = ? AND value = ? AND status = ? AND started = ? AND id = ?",
			slices.Concat(args, []any{key, sum.Labels[key], string(sum.Status), sortable(sum.StartedAt), sum.ID})...)
		if err != nil {
			return err
		}
	}
	return nil
}
