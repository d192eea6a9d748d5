package builtin

import "os"

// OnSync has f called in place of syncing a file or folder, until restore is called.
func OnSync(f func(*os.File) error) (restore func()) {
	syncFile = f
	return func() { syncFile = (*os.File).Sync }
}
