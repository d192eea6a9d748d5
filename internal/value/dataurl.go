package value

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// IsPath reports whether the name of a file is a path, and no URL.
func IsPath(text string) bool { return text != "" && !strings.Contains(text, ":") }

// FileType returns the media type of the file behind an https URL, or in a data URL. That of an https URL, whose
// host must be public, is told by its ending, and image/* if that says nothing. That of a path is "": what is in the
// file tells it, see [ContentType].
func FileType(text string) (string, error) {
	if IsPath(text) {
		if !filepath.IsLocal(filepath.FromSlash(text)) {
			return "", errors.New("the path leaves the base folder")
		}
		return "", nil
	}
	if strings.HasPrefix(text, "data:") {
		media, data, err := DataURL(text)
		if err == nil {
			err = checkContent(media, data)
		}
		if err != nil {
			return "", err
		}
		return media, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", errors.New("it is no https URL, no data URL and no path")
	}
	if isLocal(u.Hostname()) {
		return "", errors.New("the host of the URL is not on the public internet")
	}
	switch ending := strings.ToLower(path.Ext(u.Path)); ending {
	case ".pdf":
		return pdf, nil
	case ".txt", ".md", ".csv", ".html", ".htm":
		return "text/plain", nil
	}
	return "image/*", nil
}

// ContentType returns the media type of what is in a file. The ending counts only for texts, as far as it is known. It
// is an error if a picture or a PDF, by its ending, is none.
func ContentType(name string, data []byte) (string, error) {
	ending := strings.ToLower(path.Ext(name))
	if err := checkContent(claims[ending], data); err != nil {
		return "", err
	}
	media := Sniff(data)
	if !strings.HasPrefix(media, "text/") {
		return media, nil
	}
	if !utf8.Valid(data) {
		return "application/octet-stream", nil
	}
	switch ending {
	case ".md":
		return "text/markdown", nil
	case ".csv":
		return "text/csv", nil
	case ".html", ".htm":
		return "text/html", nil
	}
	return "text/plain", nil
}

// claims are the media types that endings of names stand for, of what [http.DetectContentType] recognises.
var claims = map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
	".webp": "image/webp", ".bmp": "image/bmp", ".pdf": pdf}

const pdf = "application/pdf"

// checkContent returns an error if data is not what its media type says. A picture may be one of another type.
func checkContent(media string, data []byte) error {
	is := Sniff(data)
	switch kind, _, _ := strings.Cut(media, "/"); {
	case !slices.Contains(slices.Collect(maps.Values(claims)), media): // which nobody can tell
		return nil
	case media == pdf && is != pdf:
		return fmt.Errorf("it is no PDF: what is in it is %s", is)
	case kind == "image" && !strings.HasPrefix(is, "image/"):
		return fmt.Errorf("it is no picture: what is in it is %s", is)
	}
	return nil
}

// Sniff returns the media type of data by its first bytes.
func Sniff(data []byte) string {
	media, _, _ := mime.ParseMediaType(http.DetectContentType(data))
	return media
}

// NameFile adds the name of a file to the text that it goes with, for those who get no files: a line of its own. That
// of a data URL is its media type.
func NameFile(text, url string) string {
	if media, isData := strings.CutPrefix(url, "data:"); isData {
		url, _, _ = strings.Cut(media, ";")
	}
	return strings.TrimPrefix(text+"\n[file: "+url+"]", "\n")
}

// DataURL decodes a data URL in base64: data:image/png;base64,….
func DataURL(text string) (media string, data []byte, err error) {
	head, body, found := strings.Cut(strings.TrimPrefix(text, "data:"), ",")
	head, isBase64 := strings.CutSuffix(head, ";base64")
	if !found || !isBase64 {
		return "", nil, errors.New("a data URL begins like data:image/png;base64,")
	}
	media, _, err = mime.ParseMediaType(head)
	if kind, sub, _ := strings.Cut(media, "/"); err != nil || kind == "" || sub == "" {
		return "", nil, errors.New("the media type of the data URL is not like image/png")
	}
	if data, err = base64.StdEncoding.DecodeString(body); err != nil || len(data) == 0 {
		return "", nil, errors.New("what is in the data URL is not base64")
	}
	return media, data, nil
}
