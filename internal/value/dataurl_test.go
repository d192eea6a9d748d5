package value_test

import (
	"testing"

	"github.com/braise-run/braise/internal/value"
)

func TestFileType(t *testing.T) {
	const noURL, outside, noData, noMedia = "it is no https URL, no data URL and no path", "the path leaves the base folder", "a data URL begins like data:image/png;base64,",
		"the media type of the data URL is not like image/png"
	for _, tt := range []struct{ name, url, want, err string }{
		{"png", "data:image/png;base64,AAAA", "image/png", ""},
		{"parameters", "data:text/plain;charset=utf-8;base64,aGk=", "text/plain", ""},
		{"upper case", "data:IMAGE/PNG;base64,AAAA", "image/png", ""},
		{"https", "https://example.com/a.PNG?x=1", "image/*", ""},
		{"https without an ending", "https://example.com/a", "image/*", ""},
		{"a PDF", "https://example.com/a.pdf", "application/pdf", ""},
		{"a text", "https://example.com/a.md", "text/plain", ""},
		{"http", "http://example.com/a.png", "", noURL},
		{"a path", "scan.png", "", ""},
		{"a path with folders", "scans/../scans/50% off.png", "", ""},
		{"out of the folder", "../scan.png", "", outside},
		{"out of the folder later", "a/../../scan.png", "", outside},
		{"an absolute path", "/etc/passwd", "", outside},
		{"a drive", "C:/scan.png", "", noURL},
		{"file", "file:///scan.png", "", noURL},
		{"credentials", "https://a:b@example.com/a.png", "", noURL},
		{"no host", "https:///a.png", "", noURL},
		{"empty", "", "", noURL},
		{"no base64", "data:image/png,AAAA", "", noData},
		{"no comma", "data:image/png;base64", "", noData},
		{"no media type", "data:;base64,AAAA", "", noMedia},
		{"half a media type", "data:image;base64,AAAA", "", noMedia},
		{"bad base64", "data:image/png;base64,A*", "", "what is in the data URL is not base64"},
		{"nothing", "data:image/png;base64,", "", "what is in the data URL is not base64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := value.FileType(tt.url)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != tt.want || text != tt.err {
				t.Errorf("got %q, %q, want %q, %q", got, text, tt.want, tt.err)
			}
		})
	}
}
