package braise

import (
	"io/fs"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// Load reads a recipe with everything that it names, and compiles it: [recipe.Load] and [workflow.Compile] in one. file
// is slash-separated and below the root of fsys, such as "recipe.yaml" in os.DirFS(".") or in an embed.FS. The workflow
// is immutable and safe for concurrent runs. A program that knows its tools before the run calls the two itself: then
// literal arguments of the tools are checked too.
//
// The error is a *[diagnostics.Error] with every mistake, each with its position and, where there is one, a hint. The
// warnings of a recipe without mistakes are in the workflow's Diagnostics.
//
// [diagnostics.Error]: https://pkg.go.dev/github.com/braise-run/braise/diagnostics#Error
func Load(fsys fs.FS, file string) (*workflow.Workflow, error) {
	r, err := recipe.Load(fsys, file)
	if err != nil {
		return nil, err
	}
	return workflow.Compile(r, nil)
}
