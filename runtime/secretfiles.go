package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/regular"
)

// MaxSecretBytes is how large the file of a secret may be.
const MaxSecretBytes = 64 << 10

// FileSecrets is a folder whose files are Secrets, as Docker and Kubernetes mount them: the secret TOKEN is the text of
// the file TOKEN, without line ends behind it. A file is read each time that it is asked for, and links are followed. A
// file that cannot be read, is larger than [MaxSecretBytes], empty, or not UTF-8 is an error that names it.
type FileSecrets string

// secretName is what recipes can name.
var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Secret returns the text of the file name. The error wraps ErrNoSecret if there is no such file.
func (s FileSecrets) Secret(_ context.Context, name string) (string, error) {
	if !secretName.MatchString(name) {
		return "", fmt.Errorf("%q: %w: a name has letters, digits and _", name, ErrNoSecret)
	}
	path := filepath.Join(string(s), name)
	shown := filepath.ToSlash(path)
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return "", fmt.Errorf("%q: %w: there is no file %s", name, ErrNoSecret, shown)
	}
	data, err := regular.ReadFileUpTo(path, MaxSecretBytes)
	text := strings.TrimRight(string(data), "\r\n")
	switch pathErr, ok := errors.AsType[*fs.PathError](err); {
	case ok:
		return "", fmt.Errorf("the file %s: %w", shown, pathErr.Err)
	case err != nil:
		return "", fmt.Errorf("the file %s: %w", shown, err)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("the file %s is not text in UTF-8", shown)
	case text == "":
		return "", fmt.Errorf("the file %s is empty", shown)
	}
	return text, nil
}

// Names returns the names of the files, sorted, also of those that no recipe can name, such as tls.key. Folders are
// passed over, and what begins with a dot, such as the folders in which Kubernetes keeps versions.
func (s FileSecrets) Names() ([]string, error) {
	entries, err := os.ReadDir(string(s))
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(string(s), entry.Name()))
		if err == nil && info.IsDir() {
			continue
		}
		names = append(names, entry.Name())
	}
	return names, err
}
