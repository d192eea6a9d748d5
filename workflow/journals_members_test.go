package workflow_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// unwritten are members that events can have, and no journal has.
var unwritten = []string{
	"agent.event.events.pause.token",       // a token is in no journal
	"agent.event.events.pause.default",     // only steps have forms
	"agent.event.events.read",              // no agent of the cases has more memory than it takes
	"run.input.doubts.call.pids",           // processes are looked for when somebody asks
	"run.redefined.doubts.call.pids",       // likewise
	"agent.event.events.pause.fourEyes",    // only steps have it
	"call.ended.calls", "call.given.calls", // these are younger than the editions
	"agent.event.events.start.late",                            // it is younger than the editions
	"run.execution.limits.items", "run.execution.limits.steps", // nor have the cases limits
	"run.execution.limits.outputBytes", "run.execution.limits.runBytes",
	"run.ended.error.category",
	"agent.event.events.messages.files", // memories keep their names
	"agent.event.events.messages.files.media_type", "agent.event.events.messages.files.url",
	"agent.event.events.messages.files.sha256", "agent.event.events.messages.files.bytes", // tools have returned these
	"agent.event.events.start.files.sha256", "agent.event.events.start.files.bytes",
	"agent.event.events.start.before.files.sha256", "agent.event.events.start.before.files.bytes",
	"pause.answered.restart", "run.restarted.generation", // the cases have no resume adapter that restarts a run
}

// Every member that a record can have is in one of the journals. The name of a member begins with the kind of its record.
func TestJournalsHaveEveryMember(t *testing.T) {
	has := map[string]bool{}
	for _, rec := range journalRecords(t) {
		addMembers(t, has, string(rec.Kind), rec.Data)
	}
	for _, name := range membersInSources(t) {
		if never := slices.Contains(unwritten, name); has[name] == never {
			t.Errorf("some journal has %s: %v, want %v", name, has[name], !never)
		}
	}
}

// journalRecords are the records of all editions.
func journalRecords(t *testing.T) (all []checkpoint.Record) {
	t.Helper()
	for _, edition := range editions {
		for _, c := range journalCases(t, edition) {
			store := openJournals(t, filepath.Join(c.dir, "store"))
			runs, err := store.List(t.Context(), checkpoint.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			for _, sum := range runs {
				_, recs, err := store.Load(t.Context(), sum.ID, 0)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, recs...)
			}
			store.Close()
		}
	}
	return all
}

// free is the name of what may have any name.
const free = "free"

// membersInSources are the names of all members that journal.Encode writes: it gets an event of each kind that has
// all that it can have.
func membersInSources(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	for _, kind := range kindsInSources(t) {
		e, err := journal.Decode(checkpoint.Record{Kind: checkpoint.Kind(kind), Data: json.RawMessage(`{"pause":"p","kind":"human"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, stored := e.What.(journal.Created); stored || e.What == nil {
			continue
		}
		what := reflect.New(reflect.TypeOf(e.What)).Elem()
		fill(t, what)
		e.What, e.At = what.Interface().(journal.What), journalNoon
		rec, err := journal.Encode(e)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		addMembers(t, names, kind, rec.Data)
	}
	if len(names) < 100 {
		t.Errorf("the sources have %d members only", len(names))
	}
	return slices.DeleteFunc(value.SortedKeys(names), func(name string) bool { return strings.Contains(name+".", "."+free+".") })
}

var journalNoon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

// fill gives everything in v a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(journalNoon))
		return
	case json.RawMessage:
		v.SetBytes([]byte("true"))
		return
	case resume.Interrupt:
		v.Set(reflect.ValueOf(resume.Restart))
		return
	case resume.Kind:
		v.Set(reflect.ValueOf(resume.Human))
		return
	case resume.Next:
		v.Set(reflect.ValueOf(resume.Answered))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(free)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		fill(t, elem)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(free), elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(t, v.Field(i))
			}
		}
	case reflect.Interface:
		if v.Type() == reflect.TypeFor[error]() {
			v.Set(reflect.ValueOf(errors.New("gone")))
		} else {
			v.Set(reflect.ValueOf(true))
		}
	default:
		t.Fatalf("nothing is known of %s", v.Type())
	}
}

// addMembers adds the names of the members of a record, or of a value in it.
func addMembers(t *testing.T, names map[string]bool, kind string, text []byte) {
	t.Helper()
	if text == nil {
		return
	}
	v, err := value.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	var add func(name string, v any)
	add = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, member := range v {
				names[name+"."+key] = true
				add(name+"."+key, member)
			}
		case []any:
			for _, member := range v {
				add(name, member)
			}
		}
	}
	add(kind, v)
}
