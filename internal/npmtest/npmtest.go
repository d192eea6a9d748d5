// Package npmtest installs programs of npm for tests.
package npmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program returns the path of a program of a package of npm at one version, as File does.
func Program(t testing.TB, pkg, version, program string) string {
	t.Helper()
	return File(t, pkg, version, filepath.Join(".bin", program))
}

// File returns the path of a file, below node_modules, of a package of npm at one version. It is installed once, into
// the user's cache folder. Where that cannot be done the test is skipped, but fails where the variable
// CI is true: there npm has to be.
func File(t testing.TB, pkg, version, name string) string {
	t.Helper()
	give := t.Skipf
	if os.Getenv("CI") == "true" {
		give = t.Fatalf
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		give("no cache folder: %v", err)
	}
	dir := filepath.Join(cache, "braise-test", filepath.Base(pkg)+"-"+version)
	path := filepath.Join(dir, "node_modules", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		give("npm is needed to install %s", pkg)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "new-") // others may be at it too
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	install := exec.CommandContext(t.Context(), npm, "install", "--prefix", fresh, "--ignore-scripts",
		"--no-audit", "--no-fund", pkg+"@"+version)
	if out, err := install.CombinedOutput(); err != nil {
		give("npm install %s@%s: %v\n%s", pkg, version, err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
