package program

import (
	"fmt"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// needFiles notes the files that a step shows one of some models.
func (s *stepCompiler) needFiles(with *recipe.Value, models ...string) {
	files := []*recipe.Field{with.Field("images")}
	if f := with.Field("messages"); f != nil {
		for _, m := range f.Value.List {
			files = append(files, m.Field("files"))
		}
	}
	for _, f := range files {
		if f == nil {
			continue
		}
		for _, model := range models {
			s.need(useOption, "files "+model, f.Value.Pos, s.path())
		}
		for _, item := range f.Value.List {
			text, _ := item.Scalar.(string)
			if value.HoldsExpression(text) {
				continue
			}
			if value.IsPath(text) {
				s.need(usePort, FilesPort, item.Pos, s.path())
			} else if media, err := value.FileType(text); err == nil {
				for _, model := range models {
					s.need(useOption, "files:"+media+" "+model, item.Pos, s.path())
				}
			}
		}
	}
}

// Files reads the files of a prompt or a message. The URL of a local file is its path, and it has no media type yet.
func Files(v any) ([]runtime.File, error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("must be a list of files, not %s", value.TypeName(v))
	}
	var files []runtime.File
	for i, one := range list {
		text, _ := one.(string)
		media, err := value.FileType(text)
		if err != nil {
			return nil, fmt.Errorf("must be a list of files; number %d: %w", i+1, err)
		}
		files = append(files, runtime.File{URL: text, MediaType: media})
	}
	return files, nil
}
