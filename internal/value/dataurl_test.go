package value_test

import (
	"testing"

	"github.com/braise-run/braise/internal/value"
)

func TestFileType(t *testing.T) {
	const private = "the host of the URL is not on the public internet"
	const noURL, outside, noData, noMedia = "it is no https URL, no data URL and no path", "the path leaves the base folder", "a data URL begins like data:image/png;base64,",
		"the media type of the data URL is not like image/png"
	for _, tt := range []struct{ name, url, want, err string }{
		{"png", "data:image/png;base64,iVBORw0KGgo=", "image/png", ""},
		{"parameters", "data:text/plain;charset=utf-8;base64,aGk=", "text/plain", ""},
		{"upper case", "data:IMAGE/PNG;base64,iVBORw0KGgo=", "image/png", ""},
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
		{"a picture of another type", "data:image/png;base64,R0lGODlh", "image/png", ""},
		{"no picture", "data:image/png;base64,aGk=", "", "it is no picture: what is in it is text/plain"},
		{"no PDF", "data:application/pdf;base64,R0lGODlh", "", "it is no PDF: what is in it is image/gif"},
		{"a type that nobody can tell", "data:image/heic;base64,AAAA", "image/heic", ""},
		{"localhost", "https://LOCALHOST:8080/a.png", "", private},
		{"below localhost", "https://a.localhost./a.png", "", private},
		{"a private address", "https://10.0.0.1/a.png", "", private},
		{"metadata of a cloud", "https://[::ffff:169.254.169.254]/a.png", "", private},
		{"a public address", "https://8.8.8.8/a.png", "image/*", ""},
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

func TestContentType(t *testing.T) {
	for _, tt := range []struct{ name, content, want, err string }{
		{"a.png", "\x89PNG\r\n\x1a\n", "image/png", ""},
		{"a.PNG", "GIF89a", "image/gif", ""},
		{"a", "\xff\xd8\xff", "image/jpeg", ""},
		{"a.webp", "RIFF\x00\x00\x00\x00WEBPVP", "image/webp", ""},
		{"a.jpg", "<html>", "", "it is no picture: what is in it is text/html"},
		{"a.bmp", "\x00\x01", "", "it is no picture: what is in it is application/octet-stream"},
		{"a.pdf", "%PDF-1.7", "application/pdf", ""},
		{"a.pdf", "%PDX", "", "it is no PDF: what is in it is text/plain"},
		{"a.md", "# Hi", "text/markdown", ""},
		{"a.csv", "a,b", "text/csv", ""},
		{"a.htm", "a", "text/html", ""},
		{"a.txt", "caf\xe9", "application/octet-stream", ""},
		{"a.zip", "PK\x03\x04", "application/zip", ""},
	} {
		got, err := value.ContentType(tt.name, []byte(tt.content))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.want || text != tt.err {
			t.Errorf("%s: got %q, %q, want %q, %q", tt.name, got, text, tt.want, tt.err)
		}
	}
}
