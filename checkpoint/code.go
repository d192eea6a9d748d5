package checkpoint

import "errors"

// codes are the codes of the errors of a store, in the order in which they are looked for.
var codes = []struct {
	err  error
	code string
}{
	{ErrExists, "run.exists"},
	{ErrBusy, "run.busy"},
	{ErrFenced, "run.fenced"},
	{ErrNotFound, "run.notFound"},
	{ErrConflict, "run.fenced"}, // another owner has written
	{ErrToken, "resume.invalidToken"},
	{ErrCorrupt, "journal.corrupt"},
	{ErrVersion, "journal.version"},
}

// Code returns the code under which an outcome reports an error of a store: that of the first of the
// errors of this package in its chain that has one, else "store.failed". It is "" for nil.
func Code(err error) string {
	if err == nil {
		return ""
	}
	for _, known := range codes {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return "store.failed"
}
