package serve

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// The limits of lists.
const (
	maxPage   = 200
	usualPage = 50
	maxCount  = 1000      // of the runs in a phase
	maxShown  = 256 << 10 // bytes of a value in a list or a view; larger ones are left out
)

// runParams choose runs.
func runParams() []param {
	return []param{
		oneOfMany("phase", "Runs in this phase.", phases...),
		text("recipe", "Runs of this recipe."),
		texts("label", "Runs with this label, as `key=value`."),
		texts("queue", "Runs of this queue; empty: of none."),
		text("parent", "Forks of this run."),
		text("q", "Runs whose ids begin with this text."),
		moment("from", "Runs that started at this time or later."),
		moment("to", "Runs that started before this time."),
		moment("due", "Runs in which something is due at this time."),
		flag("signalled", "Runs with a signal that nobody has carried out."),
	}
}

func oneOfMany(name, about string, words ...string) param {
	p := oneOf(name, about, words...)
	p.many = true
	return p
}

// pageParams choose a part of a list.
func pageParams() []param {
	return []param{number("limit", "How many. Defaults to 50.", 1, maxPage),
		text("after", "`next` of the page before.")}
}

// filter returns which runs are asked for.
func (c *call) filter() (checkpoint.Filter, error) {
	f := checkpoint.Filter{Parent: c.query.Get("parent"), Prefix: c.query.Get("q"), Queues: c.query["queue"],
		From: c.time("from"), To: c.time("to"), DueBefore: c.time("due"), Signalled: c.flag("signalled"),
		Oldest: c.flag("oldest")}
	for _, phase := range c.query["phase"] {
		f.Phases = append(f.Phases, checkpoint.Phase(phase))
	}
	for _, label := range c.query["label"] {
		key, v, ok := strings.Cut(label, "=")
		if !ok {
			return f, malformed("request.parameter", "parameter \"label\" cannot be %.40q\n  hint: it is key=value",
				label)
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		if old, twice := f.Labels[key]; twice && old != v {
			return f, malformed("request.parameter", "label %.40q is given with two values", key)
		}
		f.Labels[key] = v
	}
	var err error
	f.Recipe, err = c.recipe()
	return f, err
}

// recipe returns the recipe whose runs are asked for; "": any. Who sees the runs of some recipes only must name one.
func (c *call) recipe() (string, error) {
	name, ok := c.query.Get("recipe"), c.query.Has("recipe")
	switch {
	case ok && c.who.sees(name), !ok && c.who.recipes == nil:
		return name, nil
	case ok:
		return "", forbidden("access.recipe", "%q may not see recipe %.40q\n  hint: it may see %s", c.who.name,
			name, strings.Join(c.who.recipes, ", "))
	case len(c.who.recipes) == 1:
		return c.who.recipes[0], nil
	}
	return "", forbidden("access.recipe", "%q may see some recipes only"+
		"\n  hint: add the parameter recipe, one of %s", c.who.name, strings.Join(c.who.recipes, ", "))
}

// cursor is what the text of a cursor holds: a place in a list, and which list.
type cursor struct {
	At    time.Time `json:"at"`
	Run   string    `json:"run"`
	Pause string    `json:"pause,omitempty"`
	List  string    `json:"list"`
}

// list identifies what is listed: the path and all parameters but those of pages.
func (c *call) list() string {
	q := url.Values{}
	for name, values := range c.query {
		if name != "limit" && name != "after" {
			q[name] = values
		}
	}
	sum := sha256.Sum256([]byte(c.path + "?" + q.Encode()))
	return hex.EncodeToString(sum[:6])
}

// cursorText is what is shown of a place.
func (c *call) cursorText(at checkpoint.Cursor) string {
	text, err := json.Marshal(cursor{at.At, at.RunID, at.Pause, c.list()})
	if err != nil {
		panic(err) // no such time is in a journal
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// after returns the place behind which the list is asked for.
func (c *call) after() (checkpoint.Cursor, error) {
	text := c.query.Get("after")
	if text == "" {
		return checkpoint.Cursor{}, nil
	}
	var at cursor
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &at)
	}
	if err != nil || at.Run == "" {
		return checkpoint.Cursor{}, malformed("request.cursor", "parameter \"after\" is not a place in a list"+
			"\n  hint: it is next of the page before, as it came")
	}
	if at.List != c.list() {
		return checkpoint.Cursor{}, malformed("request.cursor", "parameter \"after\" is of another list"+
			"\n  hint: all parameters but limit are those of the page before")
	}
	return checkpoint.Cursor{At: at.At, RunID: at.Run, Pause: at.Pause}, nil
}

// listRuns answers GET /runs.
func (c *call) listRuns() error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	if f.After, err = c.after(); err != nil {
		return err
	}
	limit := c.number("limit", usualPage)
	f.Limit = limit + 1
	sums, err := c.store.List(c.r.Context(), f)
	if err != nil && len(sums) == 0 {
		return err
	} else if err != nil {
		c.logFailure(c.r.Context(), c.r, err) // runs that cannot be read do not hide the others
	}
	page := runs{Runs: []run{}}
	if len(sums) > limit {
		sums = sums[:limit]
		page.Next = c.cursorText(sums[limit-1].Cursor())
	}
	for _, s := range sums {
		r := runOf(s)
		if c.flag("now") {
			r.Now = c.now(c.r.Context(), s)
		}
		page.Runs = append(page.Runs, r)
	}
	switch {
	case f.After != (checkpoint.Cursor{}):
	case f.Phases == nil && page.Next == "" && err == nil: // the page has them all
		page.Counts = map[string]int{}
		for _, phase := range phases {
			page.Counts[phase] = 0
		}
		for _, s := range sums {
			page.Counts[string(s.Phase())]++
		}
	default:
		if page.Counts, err = c.counts(f); err != nil {
			return err
		}
	}
	return c.reply(http.StatusOK, page)
}

// counts returns how many runs a filter, its phases aside, lets through in each phase.
func (c *call) counts(f checkpoint.Filter) (map[string]int, error) {
	f.Phases = nil
	n, err := c.store.Count(c.r.Context(), f, maxCount)
	counts := map[string]int{}
	for _, phase := range phases {
		counts[phase] = n[checkpoint.Phase(phase)]
	}
	return counts, err
}

// listPauses answers GET /pauses.
func (c *call) listPauses() error {
	recipe, err := c.recipe()
	if err != nil {
		return err
	}
	limit := c.number("limit", usualPage)
	f := checkpoint.PauseFilter{Kind: c.query.Get("kind"), Recipe: recipe, Expiring: c.query.Get("sort") == "expiring",
		Limit: limit + 1}
	if f.After, err = c.after(); err != nil {
		return err
	}
	infos, err := c.store.Pauses(c.r.Context(), f)
	if err != nil {
		return err
	}
	page := pauses{Pauses: []pause{}}
	if len(infos) > limit {
		infos = infos[:limit]
		page.Next = c.cursorText(placeOf(infos[limit-1], f.Expiring))
	}
	for _, info := range infos {
		opened, err := resume.Opened(info.Opened)
		if err != nil {
			c.logFailure(c.r.Context(), c.r, err)
			continue // a damaged record does not hide the others
		}
		if c.flag("mine") && (byItself(&opened) || opened.Allows(c.who.name, c.who.groups, info.Summary.By) != nil) {
			continue
		}
		page.Pauses = append(page.Pauses, pauseOf(info.Summary, opened))
	}
	showLiving(page.Pauses)
	return c.reply(http.StatusOK, page)
}

// byItself reports whether a pause only waits for a time, or for a batch: nobody is asked.
func byItself(p *resume.Pause) bool {
	return !p.RetryAt.IsZero() && len(p.Decisions) == 0 || p.InBatch()
}

// placeOf returns the place behind a pause in a list.
func placeOf(info checkpoint.PauseInfo, expiring bool) checkpoint.Cursor {
	at := info.Opened.At
	if expiring {
		at = info.Pause.ExpiresAt
	}
	return checkpoint.Cursor{At: at, RunID: info.Summary.ID, Pause: info.Pause.ID}
}

// pauseOf returns what is shown of a pause.
func pauseOf(s checkpoint.Summary, p resume.Pause) pause {
	shown := pause{RunID: s.ID, Recipe: s.Recipe, ID: p.ID, Kind: p.Kind, Step: p.Step, Prompt: p.Prompt,
		Schema: p.Schema, Decisions: p.Decisions, Default: p.Default, Reason: p.Reason, Question: p.Question(),
		To: p.To, FourEyes: p.FourEyes, StartedBy: s.By,
		CreatedAt: p.CreatedAt, ExpiresAt: p.ExpiresAt, RetryAt: p.RetryAt}
	shown.Show = fitting("show", p.Show, &shown.Large)
	if p.Call != nil {
		shown.Call = &pauseCall{Tool: p.Call.Tool, Key: p.Call.Key, Attempt: p.Call.Attempt, At: p.Call.At,
			Owner: p.Call.Owner}
		shown.Call.Arguments = fitting("arguments", p.Call.Arguments, &shown.Large)
		shown.Call.Given = fitting("given", p.Call.Given, &shown.Large)
	}
	return shown
}

// fitting returns a value, or nil if it is large: then its size is noted.
func fitting(name string, v any, large *map[string]int64) any {
	if v == nil {
		return nil
	}
	size, err := value.Size(v, math.MaxInt)
	if err != nil || size > maxShown {
		if *large == nil {
			*large = map[string]int64{}
		}
		(*large)[name] = int64(size)
		return nil
	}
	return v
}

// load returns a run that the person sees, and its records behind the one with a number.
func (c *call) load(runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	s, recs, err := c.store.Load(c.r.Context(), runID, after)
	if err == nil && !c.who.sees(s.Recipe) {
		err = checkpoint.ErrNotFound
	}
	if errors.Is(err, checkpoint.ErrNotFound) {
		err = absent("run.notFound", "there is no run %q", runID)
	}
	return s, recs, err
}

// summary returns what the store has about the run of the path.
func (c *call) summary() (checkpoint.Summary, error) {
	s, _, err := c.load(c.r.PathValue("id"), math.MaxInt64)
	return s, err
}
