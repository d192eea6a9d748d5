package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// query has the arguments of a statement that is made for one filter. Such a statement does not stay prepared: the
// server plans it for what it asks for, and there are many of them.
type query struct{ args []any }

// arg returns the place of an argument.
func (q *query) arg(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args))
}

// limit returns the end of a statement that returns so many rows; 0 or less: all.
func (q *query) limit(n int) string {
	if n <= 0 {
		return ""
	}
	return " LIMIT " + q.arg(n)
}

// recipe returns the condition of a recipe. The index of runs has as much of a name as fits any page; labels have none,
// and there the server knows how many a name has.
func (q *query) recipe(table, name string) string {
	place := q.arg(name)
	if table != "r" {
		return " AND " + table + ".recipe = " + place
	}
	cond := " AND left(" + table + ".recipe, 100) = left(" + place + ", 100)"
	if len(name) >= 100 {
		cond += " AND " + table + ".recipe = " + place
	}
	return cond
}

// prefix returns the condition of the beginning of an id.
func (q *query) prefix(table, id string) string {
	last := len(id) - 1
	return fmt.Sprintf(" AND %s.id >= %s AND %[1]s.id < %[3]s", table, q.arg(id), q.arg(id[:last]+string(id[last]+1)))
}

// texts are those of a list that the server takes.
func texts(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(text string) bool { return !isText(text) })
}

// collect reads the rows of a statement that is made for one filter.
func collect[T any](
	ctx context.Context, s *Store, sql string, args []any, scan func(pgx.CollectableRow) (T, error),
) (all []T, err error) {
	err = s.reading(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, s.sql(sql), append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
		var err error
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres store: %w", err)
	}
	return all, nil
}

// isText reports whether the server takes texts; no run has others.
func isText(all ...string) bool {
	return !slices.ContainsFunc(all, func(s string) bool {
		return !utf8.ValidString(s) || strings.ContainsRune(s, 0)
	})
}

// possible reports whether any run could be what the filter asks for.
func possible(f checkpoint.Filter) bool {
	keys, values := labels(f.Labels)
	return isText(f.Recipe, f.Parent, f.After.RunID) && isText(keys...) && isText(values...) &&
		(f.Prefix == "" || isID(f.Prefix))
}

// everyStatus are the statuses that runs have.
var everyStatus = []checkpoint.Status{checkpoint.Queued, checkpoint.Running, checkpoint.Paused, checkpoint.OK,
	checkpoint.Failed, checkpoint.Cancelled}

// statuses returns the statuses that runs of a filter have. Nothing is due of a run that is over. part: of those that
// are running by their status, only some have the phases; the lease tells which.
func statuses(f checkpoint.Filter) (all []checkpoint.Status, part bool) {
	has := func(phase checkpoint.Phase) bool { return f.Phases == nil || slices.Contains(f.Phases, phase) }
	running, interrupted := has(checkpoint.PhaseRunning), has(checkpoint.PhaseInterrupted)
	for _, status := range everyStatus {
		phase := checkpoint.Summary{Status: status, Held: true}.Phase()
		if (has(phase) || status == checkpoint.Running && interrupted) && (f.DueBefore.IsZero() || !status.Ended()) {
			all = append(all, status)
		}
	}
	return all, running != interrupted
}

// few reports whether something leaves few runs.
func few(f checkpoint.Filter, lead []int64) bool {
	return lead != nil || f.Parent != "" || f.Prefix != "" && f.Labels == nil
}

// branches returns SELECTs without their columns: one for each status and each queue, as the indexes have those in
// order, and where few runs are left one for each status; the status "" is any. lead are the keys of runs of which no
// others can be meant; nil: not known. rows: the columns of runs are needed.
func (q *query) branches(f checkpoint.Filter, lead []int64, all []checkpoint.Status, rows bool) []string {
	from := q.from(f, lead, rows)
	queues := []string{""}
	if f.Queues != nil && !few(f, lead) {
		queues = nil
		for _, queue := range slices.Compact(slices.Sorted(slices.Values(texts(f.Queues)))) {
			queues = append(queues, " AND PLACE.queue = "+q.arg(queue))
		}
	}
	_, part := statuses(f)
	var branches []string
	for _, status := range all {
		b := from
		if status != "" {
			b += " AND PLACE.status = " + q.arg(string(status))
		}
		if status == checkpoint.Running && part && slices.Contains(f.Phases, checkpoint.PhaseRunning) {
			b += " AND r.until > statement_timestamp()" // and who is gone is found out here
		}
		for _, queue := range queues {
			branches = append(branches, strings.ReplaceAll(b+queue, "PLACE.", place(f)))
		}
	}
	return branches
}

// place is the table with what a filter asks for.
func place(f checkpoint.Filter) string {
	if len(f.Labels) > 0 {
		return "l0."
	}
	return "r."
}

// from returns the part of a SELECT that branches have in common.
func (q *query) from(f checkpoint.Filter, lead []int64, rows bool) string {
	from, key, where := "SCHEMA.runs r", "r.key", ""
	keys, values := labels(f.Labels)
	for i, name := range keys { // an index of labels has the runs in order, and what most filters ask for
		if i == 0 {
			from, key = "SCHEMA.labels l0", "l0.run"
		} else {
			from += fmt.Sprintf(" JOIN SCHEMA.labels l%d ON l%[1]d.run = l0.run", i)
		}
		where += fmt.Sprintf(" AND l%d.key = %s AND l%[1]d.value = %[3]s", i, q.arg(name), q.arg(values[i]))
	}
	if keys != nil && (rows || f.Parent != "" || !f.DueBefore.IsZero()) {
		from += " JOIN SCHEMA.runs r ON r.key = l0.run"
	}
	cond := func(holds bool, format string, vals ...any) {
		if holds {
			for i, v := range vals {
				vals[i] = q.arg(v)
			}
			where += " AND " + fmt.Sprintf(format, vals...)
		}
	}
	if lead != nil {
		where += " AND " + key + " = ANY(" + q.arg(lead) + ")"
	}
	if f.Recipe != "" {
		where += q.recipe(strings.TrimSuffix(place(f), "."), f.Recipe)
	}
	cond(few(f, lead) && f.Queues != nil, "PLACE.queue = ANY(%s)", texts(f.Queues))
	cond(f.Parent != "", "r.parent <> '' AND r.parent = %s", f.Parent)
	if f.Prefix != "" {
		where += q.prefix("PLACE", f.Prefix)
	}
	cond(!f.From.IsZero(), "PLACE.started >= %s", stamp(f.From))
	cond(!f.To.IsZero(), "PLACE.started < %s", stamp(f.To))
	cond(!f.DueBefore.IsZero(), dueSQL, stamp(f.DueBefore))
	if f.Signalled {
		where += " AND EXISTS (SELECT FROM SCHEMA.signals s WHERE s.run = " + key + " AND NOT s.done)"
	}
	than := "<"
	if f.Oldest {
		than = ">"
	}
	cond(f.After != checkpoint.Cursor{}, "(PLACE.started, PLACE.id) "+than+" (%s, %s)",
		stamp(f.After.At), f.After.RunID)
	return " FROM " + from + " WHERE true" + where
}

// list returns the statement that lists rows of runs; "" when there can be none.
func (q *query) list(f checkpoint.Filter, lead []int64) string {
	all, _ := statuses(f)
	crowd := f.Recipe != "" || f.Queues != nil || f.Labels != nil || !f.DueBefore.IsZero()
	if f.Phases == nil && (few(f, lead) || !crowd) {
		all = []checkpoint.Status{""}
	}
	dir := " DESC"
	if f.Oldest {
		dir = ""
	}
	end := " ORDER BY started" + dir + ", id" + dir + q.limit(f.Limit)
	// The server does not find out by itself that a few of each are enough, nor what index has them in order.
	t := place(f)
	columns := strings.NewReplacer("r.id", t+"id", "r.started", t+"started").Replace(columnsSQL)
	order := strings.NewReplacer("started", t+"started", "id", t+"id").Replace(end)
	var some []string
	for _, b := range q.branches(f, lead, all, true) {
		some = append(some, "(SELECT "+columns+b+order+")")
	}
	if some == nil {
		return ""
	}
	return "SELECT u.*, clock_timestamp() FROM (" + strings.Join(some, " UNION ALL ") + ") AS u" + end
}

// lead returns the keys of the runs among which all are that a filter can let through, when something that it asks for
// leaves few; else nil. The server would not begin there by itself: it does not know how few they are, and might look
// through all runs of a queue, or with a label. Without labels, it has an index for each thing but two.
func (s *Store) lead(ctx context.Context, f checkpoint.Filter) (keys []int64, err error) {
	for _, sql := range leads(f) {
		var q query
		text := sql(&q)
		err = s.reading(ctx, func(conn *pgx.Conn) (err error) {
			rows, _ := conn.Query(ctx, s.sql(text+q.limit(most+1)), q.args...)
			keys, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("postgres store: %w", err)
		}
		if len(keys) <= most {
			return keys, nil
		}
	}
	return nil, nil
}

// leads returns the statements, without their limits, that find the runs for each thing that may leave few.
func leads(f checkpoint.Filter) (all []func(q *query) string) {
	if f.Signalled {
		all = append(all, func(*query) string {
			return "SELECT DISTINCT run FROM SCHEMA.signals WHERE NOT done ORDER BY run"
		})
	}
	if !f.DueBefore.IsZero() {
		all = append(all, func(q *query) string {
			return "SELECT key FROM SCHEMA.runs WHERE due <> '' AND due <= " + q.arg(stamp(f.DueBefore)) +
				" ORDER BY due"
		})
	}
	if len(f.Labels) == 0 {
		return all
	}
	runs := func(cond func(q *query) string) {
		all = append(all, func(q *query) string { return "SELECT r.key FROM SCHEMA.runs r WHERE true" + cond(q) })
	}
	if f.Recipe != "" {
		runs(func(q *query) string { return q.recipe("r", f.Recipe) })
	}
	if f.Queues != nil {
		runs(func(q *query) string { return " AND r.queue = ANY(" + q.arg(texts(f.Queues)) + ")" })
	}
	if f.Prefix != "" {
		runs(func(q *query) string { return q.prefix("r", f.Prefix) })
	}
	keys, values := labels(f.Labels)
	for i := range keys[1:] { // the server begins with the first one where it is rare
		all = append(all, func(q *query) string {
			return "SELECT run FROM SCHEMA.labels WHERE key = " + q.arg(keys[i+1]) +
				" AND value = " + q.arg(values[i+1])
		})
	}
	return all
}

// search calls use with what leads to the runs of a filter, unless there can be none.
func (s *Store) search(ctx context.Context, f checkpoint.Filter, use func(lead []int64) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	if !possible(f) {
		return nil
	}
	lead, err := s.lead(ctx, f)
	if err != nil || lead != nil && len(lead) == 0 {
		return err
	}
	return use(lead)
}

// most is how many rows List reads at once where the lease decides.
const most = 1000

// List implements checkpoint.Store. It reads the summaries alone.
func (s *Store) List(ctx context.Context, f checkpoint.Filter) (all []checkpoint.Summary, err error) {
	var failed []error
	match := f
	match.DueBefore, match.Signalled = time.Time{}, false // as the signals say, which the server has
	err = s.search(ctx, f, func(lead []int64) error {
		for page := f; ; {
			var q query
			sql := q.list(page, lead)
			if sql == "" {
				return nil
			}
			runs, err := collect(ctx, s, sql, q.args, scanHead)
			if err != nil {
				return err
			}
			for _, h := range runs {
				page.After = checkpoint.Cursor{At: h.at(), RunID: h.lease.RunID}
				if sum, err := h.summary(); err != nil {
					failed = append(failed, err)
				} else if match.Match(sum) && (f.Limit <= 0 || len(all) < f.Limit) {
					all = append(all, sum)
				}
			}
			if f.Limit <= 0 || len(runs) < page.Limit || len(all) >= f.Limit {
				return nil
			}
			page.Limit = max(page.Limit, min(2*page.Limit, most)) // those that do not count leave room for others
		}
	})
	if err != nil {
		return nil, err
	}
	return all, errors.Join(failed...)
}

// count returns the statement that counts runs; "" when there can be none. Of those that are running by their status
// it counts all: how many are held is found out here.
func (q *query) count(f checkpoint.Filter, lead []int64, most int) string {
	all, _ := statuses(f)
	var some []string
	for _, status := range all {
		running := status == checkpoint.Running
		for _, b := range q.branches(f, lead, []checkpoint.Status{status}, running) {
			if running {
				some = append(some, "SELECT r.status, r.owner, max(r.until), statement_timestamp(), count(*)"+b+
					" GROUP BY r.status, r.owner, r.until > statement_timestamp()")
			} else {
				some = append(some, "SELECT "+q.arg(string(status))+"::text, '', now(), now(), count(*) FROM (SELECT"+b+
					q.limit(most)+") AS u")
			}
		}
	}
	return strings.Join(some, " UNION ALL ")
}

// Count implements checkpoint.Querier. It counts runs that cannot be read, too.
func (s *Store) Count(ctx context.Context, f checkpoint.Filter, most int) (map[checkpoint.Phase]int, error) {
	f.After = checkpoint.Cursor{}
	counts := map[checkpoint.Phase]int{}
	err := s.search(ctx, f, func(lead []int64) error {
		var q query
		sql := q.count(f, lead, most)
		if sql == "" {
			return nil
		}
		groups, err := collect(ctx, s, sql, q.args, pgx.RowToStructByPos[group])
		for _, g := range groups {
			held := checkpoint.Lease{Owner: g.Owner, Until: g.Until}.Held(g.Now)
			sum := checkpoint.Summary{Status: g.Status, Held: held}
			if phase := sum.Phase(); g.N > 0 && (f.Phases == nil || slices.Contains(f.Phases, phase)) {
				counts[phase] += g.N
				if most > 0 {
					counts[phase] = min(most, counts[phase])
				}
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// group is a number of runs.
type group struct {
	Status checkpoint.Status
	Owner  string
	Until  time.Time
	Now    time.Time
	N      int
}
