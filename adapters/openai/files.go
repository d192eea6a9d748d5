package openai

import (
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// contentPart is a part of what a user says.
type contentPart struct {
	Type  string                   `json:"type"`
	Text  string                   `json:"text,omitempty"`
	Image *sdk.ChatMessageImageURL `json:"image_url,omitempty"`
	File  *filePart                `json:"file,omitempty"`
}

type filePart struct {
	Name string `json:"filename"`
	Data string `json:"file_data"` // a data URL
}

// contentParts encodes a text and the files that go with it: images and PDFs as they are, texts as text.
func contentParts(msg runtime.Message) ([]contentPart, error) {
	var parts []contentPart
	if msg.Text != "" {
		parts = append(parts, contentPart{Type: "text", Text: msg.Text})
	}
	for i, f := range msg.Files {
		data := strings.HasPrefix(f.URL, "data:")
		switch {
		case strings.HasPrefix(f.MediaType, "image/"):
			parts = append(parts, contentPart{Type: "image_url", Image: &sdk.ChatMessageImageURL{URL: f.URL}})
		case f.MediaType == "application/pdf" && data:
			name := fmt.Sprintf("file%d.pdf", i+1)
			parts = append(parts, contentPart{Type: "file", File: &filePart{name, f.URL}})
		default:
			text, err := textOf(i, f, "images")
			if err != nil {
				return nil, err
			}
			parts = append(parts, contentPart{Type: "text", Text: text})
		}
	}
	return parts, nil
}

// textOf is the text in a file that cannot be sent as it is. urls are the kinds of files that may be https URLs.
func textOf(i int, f runtime.File, urls string) (string, error) {
	switch data := strings.HasPrefix(f.URL, "data:"); {
	case strings.HasPrefix(f.MediaType, "text/") && data:
		_, text, err := value.DataURL(f.URL)
		if err != nil || !utf8.Valid(text) {
			return "", fmt.Errorf("file %d is not UTF-8 text", i+1)
		}
		return string(text), nil
	case !data:
		return "", fmt.Errorf("file %d is of the type %s, and only %s may be https URLs\n"+
			"  hint: give it as a data URL", i+1, f.MediaType, urls)
	}
	return "", fmt.Errorf("file %d is of the type %s\n  hint: images, PDFs and texts can be sent", i+1, f.MediaType)
}
