package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// application marks a file as a store of journals, see PRAGMA application_id.
const application = 0x42524153

// file is an open file.
type file struct {
	path  string
	conn  *sqlite.Conn // that writes
	name  string       // of the file, for more connections
	flags sqlite.OpenFlags
	info  os.FileInfo // when it was opened
	size  int64       // when it was checked last
}

// openFile opens a file for writing and brings its tables up to date. A file that cannot be written to, or stands in a
// folder where that is so, is opened for reading.
func openFile(ctx context.Context, path string, o Options) (*file, error) {
	f := &file{path: path, name: path, flags: sqlite.OpenReadWrite}
	err := f.open(ctx, o, func() error { return prepare(f.conn, o.Synchronous) })
	if err == nil || !mayBeRead(err) || ctx.Err() != nil {
		return f, err
	}
	// Without readonly_shm the index of the log is made beside it, for which a full disk has no room.
	for _, query := range []string{"mode=ro", "mode=ro&readonly_shm=1", "immutable=1"} {
		if query == "immutable=1" && hasLog(path) {
			err = fmt.Errorf("%w\n  hint: beside it is a write-ahead log (-wal), which cannot be read here: "+
				"copy both to a folder where files can be made", err)
			break
		}
		f.name, f.flags = (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: query}).String(),
			sqlite.OpenReadOnly|sqlite.OpenURI
		reading := f.open(ctx, o, func() error { return checkTables(f.conn) })
		if reading == nil || errors.Is(reading, checkpoint.ErrVersion) {
			return f, reading
		}
	}
	return nil, err
}

// mayBeRead reports whether a file that cannot be opened for writing may be one that can be read: the folder or the
// file is protected, or the disk is full.
func mayBeRead(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultReadOnly, sqlite.ResultCantOpen, sqlite.ResultIOErr, sqlite.ResultFull:
		return true
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// hasLog reports whether a file has a write-ahead log that is not empty.
func hasLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

// open opens the connection that writes.
func (f *file) open(ctx context.Context, o Options, prepare func() error) error {
	var err error
	if f.flags == sqlite.OpenReadWrite {
		if err := makeFile(f.path); err != nil {
			return err
		}
	}
	if f.info, err = os.Stat(f.path); err != nil {
		return err
	}
	if f.conn, err = sqlite.OpenConn(f.name, f.flags); err != nil {
		return err
	}
	f.conn.SetBusyTimeout(o.Wait)
	f.conn.SetInterrupt(ctx.Done())
	err = unlocked(o.Wait, prepare)
	if err == nil {
		err = f.check(f.conn)
	}
	if err != nil {
		f.conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return err
	}
	f.conn.SetInterrupt(nil)
	f.conn.SetBusyTimeout(0) // the writer waits by itself
	remember(f.path)
	return nil
}

// check returns an error when the file is not what it was: what is written now would be in no file, or in a part of
// one. VACUUM makes a file smaller; then it has the pages that it should have.
func (f *file) check(c *sqlite.Conn) error {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the file was removed: %w", err)
	case err != nil:
		return err
	case !os.SameFile(info, f.info):
		return errors.New("the file was replaced by another one")
	}
	if info.Size() < f.size {
		var pages, size int64
		err := query(c, func(stmt *sqlite.Stmt) error { pages = stmt.ColumnInt64(0); return nil }, "PRAGMA page_count")
		if err == nil {
			err = query(c, func(stmt *sqlite.Stmt) error { size = stmt.ColumnInt64(0); return nil }, "PRAGMA page_size")
		}
		if err != nil || info.Size() == 0 || info.Size() < pages*size {
			return fmt.Errorf("the file was cut from %d bytes to %d", f.size, info.Size())
		}
	}
	f.size = info.Size()
	return nil
}

// stores are the files that have been stores in this process.
var stores sync.Map

func remember(path string) { stores.Store(path, true) }

// checkEmpty refuses a file that was emptied: SQLite would take it for a new one, and remove its log.
func checkEmpty(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() > 0 {
		return err
	}
	if _, was := stores.Load(path); was || hasLog(path) {
		return fmt.Errorf("%w: the file is empty, and was a store before\n"+
			"  hint: remove it and its -wal to begin with a new one", checkpoint.ErrCorrupt)
	}
	return nil
}

// making keeps a file that is being made from other calls of Open: to close it would take away the locks that
// they have on it.
var making sync.Mutex

// makeFile makes an empty file that only its owner can read. SQLite gives its other files the same rights.
func makeFile(path string) error {
	making.Lock()
	defer making.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return checkEmpty(path)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// checkTables returns an error when the tables are not those of this version.
func checkTables(c *sqlite.Conn) error {
	version, err := checkVersion(c)
	if err == nil && version < len(migrations) {
		err = fmt.Errorf("%w: its tables have version %d, not %d, and cannot be brought up to date here",
			checkpoint.ErrVersion, version, len(migrations))
	}
	return err
}

func prepare(c *sqlite.Conn, synchronous string) error {
	version, err := checkVersion(c)
	if err != nil {
		return err
	}
	mode := ""
	err = query(c, func(stmt *sqlite.Stmt) error { mode = stmt.ColumnText(0); return nil }, "PRAGMA journal_mode = wal")
	if err == nil && mode != "wal" {
		err = fmt.Errorf("no write-ahead log is possible here (%s)", mode)
	}
	if err != nil {
		return err
	}
	for _, text := range pragmas(synchronous) {
		if err := query(c, nil, text); err != nil {
			return err
		}
	}
	if version == len(migrations) {
		return nil
	}
	return inTransaction(c, "BEGIN IMMEDIATE", func() error { return migrate(c) })
}

// pragmas are the settings of the connection that writes.
func pragmas(synchronous string) []string {
	return []string{
		"PRAGMA synchronous = " + synchronous,
		// These two matter on macOS only, where fsync alone leaves data in the disk's cache.
		"PRAGMA fullfsync = on",
		"PRAGMA checkpoint_fullfsync = on",
		// Many runs at the same time write to as many pages: these are to stay in memory (16 MB), and to be
		// changed several times in the log (32 MB) before they are copied to the file.
		"PRAGMA cache_size = -16384",
		"PRAGMA wal_autocheckpoint = 8192",
	}
}

// checkVersion returns the version of a file's tables. What it reads is of one moment: another process
// may be making them.
func checkVersion(c *sqlite.Conn) (_ int, err error) {
	if err := query(c, nil, "SAVEPOINT version"); err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, query(c, nil, "RELEASE version")) }()
	var app, version, tables int64
	for text, n := range map[string]*int64{
		"PRAGMA application_id":              &app,
		"PRAGMA user_version":                &version,
		"SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := query(c, func(stmt *sqlite.Stmt) error { *n = stmt.ColumnInt64(0); return nil }, text); err != nil {
			return 0, err
		}
	}
	switch {
	case app != application && (app != 0 || version != 0 || tables != 0):
		return 0, errors.New("it is a database of another program")
	case version < 0 || version > int64(len(migrations)):
		return 0, fmt.Errorf("%w: its tables have version %d, not %d", checkpoint.ErrVersion, version, len(migrations))
	}
	return int(version), nil
}
