package recipe

import (
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
)

// links checks a list of files.
func (w *walker) links(n *yamlnode.Node) {
	if n.Kind == yamlnode.List && len(n.Items) == 0 {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q may not be empty", n.Key)
	}
	for _, item := range w.List(n) {
		if text := w.Text(item); text == "" || isTemplate(item) {
			continue
		} else if _, err := value.FileType(text); err != nil {
			w.Errorf(item.Pos, diagnostics.CodeInvalidValue,
				"give a path below tools.file.base, https://… or data:image/png;base64,…",
				"%q takes files: %v", n.Key, err)
		}
	}
}

// model checks the arguments of a step of kind model.
func (w *walker) model(n *yamlnode.Node) {
	fields := w.arguments(n, modelObject, true)
	w.shown(fields)
	w.asks(n, fields, "model")
}

// asks refuses a step of the kind model or agent in which nobody says anything.
func (w *walker) asks(n *yamlnode.Node, fields map[string]*yamlnode.Node, kind string) {
	messages := fields["messages"]
	if none := messages == nil || messages.Kind == yamlnode.List && len(messages.Items) == 0; none &&
		fields != nil && fields["prompt"] == nil {
		w.Errorf(n.Pos, diagnostics.CodeMissingKey, "", "a step of kind %q needs %q or %q", kind, "prompt", "messages")
	}
}

// shown refuses files that a model or agent step shows where they have no place.
func (w *walker) shown(fields map[string]*yamlnode.Node) {
	if images := fields["images"]; images != nil && fields["prompt"] == nil {
		w.Errorf(images.Pos, diagnostics.CodeInvalidValue, "messages have files of their own",
			"%q goes with %q", "images", "prompt")
	}
	if fields["messages"] == nil {
		return
	}
	for _, m := range fields["messages"].Items {
		files, role := child(m, "files"), child(m, "role")
		if files != nil && role != nil && !isTemplate(role) && role.Value != "user" {
			w.Errorf(files.Pos, diagnostics.CodeInvalidValue, "", "only messages of the user have files")
		}
	}
}
