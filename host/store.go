package host

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/postgres"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/diagnostics"
)

// schemes are the stores that a URL can name.
var schemes = []string{"memory", "sqlite", "postgres", "postgresql", "jsonl"}

// MemoryStore is the URL of a store that is gone when the process ends.
const MemoryStore = "memory:"

// storeURL is a store's URL, taken apart.
type storeURL struct {
	scheme      string
	path        string // of sqlite and jsonl
	synchronous string // of sqlite
}

// OpenStore opens the store that a URL names, and makes it if need be:
//
//	memory:                             gone when the process ends
//	sqlite:PATH[?synchronous=normal]    see package checkpoint/sqlite
//	jsonl:DIR                           see package checkpoint/jsonl
//	postgres://…                        see package checkpoint/postgres
//
// Relative paths start at dir; "" is the working folder. Folders that are missing are made, for their owner
// only. The error shows paths, but no part of a postgres URL that may hold a password.
func OpenStore(ctx context.Context, url, dir string) (checkpoint.Store, error) {
	u, err := parseStore(url)
	if err != nil {
		return nil, err
	}
	path := within(dir, u.path)
	switch u.scheme {
	case "memory":
		return &checkpoint.Memory{}, nil
	case "jsonl":
		return opened(jsonl.Open(path))
	case "sqlite":
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("sqlite store: %w", err)
		}
		return opened(sqlite.Open(ctx, path, &sqlite.Options{Synchronous: u.synchronous}))
	}
	return opened(postgres.Open(ctx, url, nil))
}

// FindStore is OpenStore for a store that should be there: where it would make a file or a folder it
// returns an fs.ErrNotExist instead.
func FindStore(ctx context.Context, url, dir string) (checkpoint.Store, error) {
	u, err := parseStore(url)
	if err != nil {
		return nil, err
	}
	if u.path != "" {
		if _, err := os.Stat(within(dir, u.path)); err != nil {
			return nil, fmt.Errorf("%s store: %w", u.scheme, err)
		}
	}
	return OpenStore(ctx, url, dir)
}

// opened keeps a nil *T out of the interface.
func opened[T checkpoint.Store](s T, err error) (checkpoint.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// DefaultStore returns the URL of the store that the command uses by default: runs.db in
// $XDG_STATE_HOME/braise, or in ~/.local/state/braise where that variable is not an absolute path.
func DefaultStore() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the default store: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return "sqlite:" + filepath.Join(state, "braise", "runs.db"), nil
}

// CheckStore says what is wrong with a store's URL, as in the key store and the flag --store; it opens
// nothing. The error holds no more of a postgres URL than its scheme.
func CheckStore(url string) error {
	_, err := parseStore(url)
	return err
}

func parseStore(url string) (storeURL, error) {
	u, message, hint := splitStore(url)
	switch {
	case message == "":
		return u, nil
	case hint == "":
		return u, fmt.Errorf("store: %s", message)
	}
	return u, fmt.Errorf("store: %s\n  hint: %s", message, hint)
}

// splitStore takes a URL apart, or says in a message what is wrong with it.
func splitStore(text string) (u storeURL, message, hint string) {
	scheme, rest, ok := strings.Cut(text, ":")
	u.scheme = scheme
	switch {
	case !ok:
		return u, "a store is a URL that begins with its kind", `say "sqlite:runs.db" or "memory:"`
	case !slices.Contains(schemes, scheme):
		return u, fmt.Sprintf("unknown store %q", scheme), diagnostics.DidYouMean(scheme, schemes)
	}
	switch scheme {
	case "memory":
		if rest != "" {
			return u, `nothing may follow "memory:"`, ""
		}
	case "postgres", "postgresql":
		if !strings.HasPrefix(rest, "//") {
			return u, fmt.Sprintf("%q must be followed by \"//\"", scheme+":"), `say "postgres://user@host/database"`
		}
	case "jsonl":
		u.path = rest
	case "sqlite":
		var options string
		u.path, options, _ = strings.Cut(rest, "?")
		if problem := u.option(options); problem != nil {
			return u, problem.Error(), `say "sqlite:PATH?synchronous=normal"`
		}
	}
	if scheme == "jsonl" || scheme == "sqlite" {
		switch {
		case u.path == "":
			return u, fmt.Sprintf("a path must follow %q", scheme+":"), ""
		case strings.HasPrefix(u.path, "//") && !strings.HasPrefix(u.path, "///"):
			return u, fmt.Sprintf("no \"//\" may follow %q: it is followed by a path", scheme+":"),
				fmt.Sprintf("say %q", scheme+":"+strings.TrimPrefix(u.path, "//"))
		}
	}
	return u, "", ""
}

// option reads what stands behind the question mark of a sqlite URL.
func (u *storeURL) option(text string) error {
	options, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("the options of the store are malformed")
	}
	for name, values := range options {
		switch {
		case name != "synchronous":
			return fmt.Errorf("unknown option %q of the store", name)
		case len(values) > 1 || values[0] != "full" && values[0] != "normal":
			return fmt.Errorf(`synchronous is "full" or "normal", not %q`, strings.Join(values, ", "))
		}
		u.synchronous = values[0]
	}
	return nil
}
