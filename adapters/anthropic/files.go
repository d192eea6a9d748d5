package anthropic

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// source is where a file is: at a URL, or here.
type source struct {
	Type      string `json:"type"` // url, base64
	MediaType string `json:"media_type,omitempty"`
	URL       string `json:"url,omitempty"`
	Data      string `json:"data,omitempty"`
}

// images are the types that the API takes.
var images = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// fileBlocks are the blocks of files: images and PDFs as they are, texts as text.
func fileBlocks(files []runtime.File) (blocks []*block, err error) {
	for i, f := range files {
		b, err := fileBlock(f)
		if err != nil {
			return nil, fmt.Errorf("file %d %w", i+1, err)
		}
		if b.Type != "text" || strings.TrimSpace(b.Text) != "" {
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

func fileBlock(f runtime.File) (*block, error) {
	kind, isImage := "image", strings.HasPrefix(f.MediaType, "image/")
	if f.MediaType == "application/pdf" {
		kind = "document"
	}
	isText := strings.HasPrefix(f.MediaType, "text/")
	if !isImage && !isText && kind != "document" {
		return nil, fmt.Errorf("is of the type %s\n  hint: images, PDFs and texts can be sent", f.MediaType)
	}
	if !strings.HasPrefix(f.URL, "data:") {
		if isText {
			return nil, fmt.Errorf("is of the type %s, and only images and PDFs may be https URLs\n"+
				"  hint: give it as a data URL", f.MediaType)
		}
		return &block{Type: kind, Source: &source{Type: "url", URL: f.URL}}, nil
	}
	mediaType, data, err := value.DataURL(f.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case isText && !utf8.Valid(data):
		return nil, fmt.Errorf("is not UTF-8 text")
	case isText:
		return textBlock(string(data)), nil
	case isImage && !slices.Contains(images, mediaType):
		return nil, fmt.Errorf("is of the type %s\n  hint: images can be JPEG, PNG, GIF or WebP", mediaType)
	}
	return &block{Type: kind, Source: &source{"base64", mediaType, "", base64.StdEncoding.EncodeToString(data)}}, nil
}
