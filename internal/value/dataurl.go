package value

import (
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// IsPath reports whether the name of a file is a path, and no URL.
func IsPath(text string) bool { return text != "" && !strings.Contains(text, ":") }

// FileType returns the media type of the file behind an https URL, or in a data URL. That of an https URL is told by
// its ending, and image/* if that says nothing. That of a path is "": what is in the file tells it, see [ContentType].
func FileType(text string) (string, error) {
	if IsPath(text) {
		if !filepath.IsLocal(filepath.FromSlash(text)) {
			return "", errors.New("the path leaves the base folder")
		}
		return "", nil
	}
	if strings.HasPrefix(text, "data:") {
		media, _, err := DataURL(text)
		return media, err
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", errors.New("it is no https URL, no data URL and no path")
	}
	switch ending := strings.ToLower(path.Ext(u.Path)); ending {
	case ".pdf":
		return "application/pdf", nil
	case ".txt", ".md", ".csv", ".html", ".htm":
		return "text/plain", nil
	}
	return "image/*", nil
}

// ContentType returns the media type of what is in a file. The ending counts only for texts, as far as it is known.
func ContentType(name string, data []byte) string {
	media, _, _ := mime.ParseMediaType(http.DetectContentType(data))
	if !strings.HasPrefix(media, "text/") {
		return media
	}
	if !utf8.Valid(data) {
		return "application/octet-stream"
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".md":
		return "text/markdown"
	case ".csv":
		return "text/csv"
	case ".html", ".htm":
		return "text/html"
	}
	return "text/plain"
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
