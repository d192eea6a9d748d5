package gemini

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// blob is a file in the request.
type blob struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"` // base64
}

// fileData is a file at a URL.
type fileData struct {
	MIMEType string `json:"mimeType,omitempty"` // "": the API asks the server
	URI      string `json:"fileUri"`
}

// fileParts are the parts of files: texts as text, all others as they are.
func fileParts(files []runtime.File) (parts []*part, err error) {
	for i, f := range files {
		p, err := filePart(f)
		if err != nil {
			return nil, fmt.Errorf("file %d %w", i+1, err)
		}
		if p.Text == nil || strings.TrimSpace(*p.Text) != "" {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// media are the types, or groups of them, that models take. Which images, sounds and films is up to the model.
var media = []string{"image", "audio", "video", "application/pdf"}

func filePart(f runtime.File) (*part, error) {
	group, subtype, _ := strings.Cut(f.MediaType, "/")
	isText := group == "text"
	if !isText && !slices.Contains(media, group) && !slices.Contains(media, f.MediaType) {
		return nil, fmt.Errorf("is of the type %s\n  hint: images, audio, video, PDFs and texts can be sent",
			f.MediaType)
	}
	if !strings.HasPrefix(f.URL, "data:") {
		p := &part{FileData: &fileData{URI: f.URL}}
		if subtype != "*" {
			p.FileData.MIMEType = f.MediaType
		}
		return p, nil
	}
	mediaType, data, err := value.DataURL(f.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case isText && !utf8.Valid(data):
		return nil, fmt.Errorf("is not UTF-8 text")
	case isText:
		return textPart(string(data)), nil
	}
	return &part{InlineData: &blob{mediaType, base64.StdEncoding.EncodeToString(data)}}, nil
}
