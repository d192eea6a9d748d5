package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/runtime"
)

func ExampleFileSecrets() {
	dir, err := os.MkdirTemp("", "secrets") // in a container, /run/secrets
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "CRM_TOKEN"), []byte("correct horse\n"), 0o400); err != nil {
		fmt.Println(err)
		return
	}
	secrets := runtime.FileSecrets(dir)
	token, err := secrets.Secret(context.Background(), "CRM_TOKEN")
	fmt.Printf("%q %v\n", token, err)
	names, err := secrets.Names()
	fmt.Println(names, err)
	// Output:
	// "correct horse" <nil>
	// [CRM_TOKEN] <nil>
}

// mounted makes a folder as Kubernetes mounts one: links to links into a folder of a version.
func mounted(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	version := filepath.Join(dir, "..2024_05_01_10_00_00.123")
	if err := os.Mkdir(version, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(version), filepath.Join(dir, "..data")); err != nil {
		t.Skip(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(version, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFileSecrets(t *testing.T) {
	large := strings.Repeat("x", runtime.MaxSecretBytes)
	dir := mounted(t, map[string]string{"TOKEN": "correct horse\r\n\n", "pem": "a\nb\n", "large": large, "larger": large + "x",
		"empty": "", "blank": "\n", "odd": "\xff\xfea\x00", "tls.key": "k", "_1": " a "})
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	secrets, shown := runtime.FileSecrets(dir), filepath.ToSlash(dir)
	for _, tt := range []struct {
		name, want, err string
		none            bool // the error is one of ErrNoSecret
	}{
		{"TOKEN", "correct horse", "", false},
		{"pem", "a\nb", "", false},
		{"_1", " a ", "", false},
		{"large", large, "", false},
		{"larger", "", "the file " + shown + "/larger: it has more than 65536 bytes", false},
		{"empty", "", "the file " + shown + "/empty is empty", false},
		{"blank", "", "the file " + shown + "/blank is empty", false},
		{"odd", "", "the file " + shown + "/odd is not text in UTF-8", false},
		{"absent", "", `"absent": no such secret: there is no file ` + shown + "/absent", true},
		{"gone", "", `"gone": no such secret: there is no file ` + shown + "/gone", true},
		{"folder", "", `"folder": no such secret: there is no file ` + shown + "/folder", true},
		{"tls.key", "", `"tls.key": no such secret: a name has letters, digits and _`, true},
		{"../TOKEN", "", `"../TOKEN": no such secret: a name has letters, digits and _`, true},
		{"..data", "", `"..data": no such secret: a name has letters, digits and _`, true},
		{"", "", `"": no such secret: a name has letters, digits and _`, true},
	} {
		got, err := secrets.Secret(t.Context(), tt.name)
		if said := fmt.Sprint(err); got != tt.want || errors.Is(err, runtime.ErrNoSecret) != tt.none ||
			said != tt.err && (err != nil || tt.err != "") {
			t.Errorf("%q: got %.20q, %v; want %.20q, %s", tt.name, got, err, tt.want, tt.err)
		}
	}
	names, err := secrets.Names()
	want := []string{"TOKEN", "_1", "blank", "empty", "gone", "large", "larger", "odd", "pem", "tls.key"}
	if diff := cmp.Diff(want, names); diff != "" || err != nil {
		t.Errorf("names: %v (-want +got):\n%s", err, diff)
	}
	if names, err := runtime.FileSecrets(filepath.Join(dir, "none")).Names(); names != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v, %v", names, err)
	}
}

// A new version of the folder counts from the next question on.
func TestFileSecretsAreReadAtUse(t *testing.T) {
	dir := mounted(t, map[string]string{"TOKEN": "old"})
	secrets := runtime.FileSecrets(dir)
	for _, want := range []string{"old", "new"} {
		if got, err := secrets.Secret(t.Context(), "TOKEN"); got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		version := filepath.Join(dir, "..2025")
		if err := os.MkdirAll(version, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(version, "TOKEN"), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Base(version), filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
}
