package agentloop

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
)

// Layer is a piece of memory beside the conversation. All its functions may be nil. One that fails is
// a finding, and nothing else: after a failed Init the layer is left out of the run.
type Layer struct {
	ID     string
	Slot   int    // layers are recalled in this order, and of equal slots in that of the list
	Scope  string // what the layer is shared by: thread, resource, global or execution
	Budget int    // tokens of what it recalls, four bytes each; 0: 1000

	Init    func(ctx context.Context, key string) error
	Recall  func(ctx context.Context, key, task string) (string, error)        // once, before the first step
	Store   func(ctx context.Context, key string, own []runtime.Message) error // once, when the loop succeeds
	Dispose func(ctx context.Context, key string) error                        // always
}

const defaultBudget = 1000

func (l *Loop) validateLayers(who string, bad func(string, ...any)) {
	seen := map[string]bool{"": true}
	for _, y := range l.Layers {
		if seen[y.ID] {
			bad("%s: layer %q has no id of its own", who, y.ID)
		}
		seen[y.ID] = true
		if !slices.Contains([]string{"thread", "resource", "global", "execution"}, y.Scope) {
			bad("%s: layer %q: unknown scope %q\n  hint: it is thread, resource, global or execution", who, y.ID, y.Scope)
		}
		if y.Budget < 0 {
			bad("%s: layer %q: its budget is negative", who, y.ID)
		}
	}
}

// layerKey names what a layer of this run is of.
func (f *frame) layerKey(y *Layer) string {
	key := "global"
	switch y.Scope {
	case "thread":
		key = "thread/" + f.memory.Thread
	case "resource":
		key = "resource/" + cmp.Or(f.memory.Resource, f.memory.Thread)
	case "execution":
		key = "execution/" + f.in.RunID + "/" + f.path
	}
	return y.ID + "/" + key
}

// openLayers readies the layers, in order, and returns those to dispose of.
func (f *frame) openLayers(ctx context.Context) ([]*Layer, error) {
	var opened []*Layer
	f.layers = nil
	for i := range f.loop.Layers {
		y := &f.loop.Layers[i]
		opened = append(opened, y)
		if err := f.ofLayer(ctx, y, "init", func(ctx context.Context, key string) error {
			if y.Init == nil {
				return nil
			}
			return y.Init(ctx, key)
		}); err != nil {
			continue
		}
		f.layers = append(f.layers, y)
	}
	slices.SortStableFunc(f.layers, func(a, b *Layer) int { return cmp.Compare(a.Slot, b.Slot) })
	return opened, ctx.Err()
}

// ofLayer calls a function of a layer; what goes wrong is reported.
func (f *frame) ofLayer(ctx context.Context, y *Layer, what string, call func(ctx context.Context, key string) error) error {
	_, err := guard(ctx, f, 0, what+" of layer", y.ID, func(ctx context.Context) (any, error) {
		return nil, call(ctx, f.layerKey(y))
	})
	if err != nil {
		f.warn(diagnostics.CodeLayerDisabled, "%s of memory layer %q failed: %v", what, y.ID, err)
	}
	return err
}

// recall asks the layers, once.
func (f *frame) recall(ctx context.Context) error {
	if len(f.layers) == 0 || slices.Contains(f.state.Gathered, LayersLoaded) {
		return nil
	}
	var texts []string
	for _, y := range f.layers {
		if y.Recall == nil {
			continue
		}
		text := ""
		err := f.ofLayer(ctx, y, "recall", func(ctx context.Context, key string) (err error) {
			text, err = y.Recall(ctx, key, f.state.Start.Prompt)
			return err
		})
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		if text = runes(text, 4*cmp.Or(y.Budget, defaultBudget)); err == nil && text != "" {
			texts = append(texts, text)
		}
	}
	return f.record(Event{Kind: LayersLoaded, Text: strings.Join(texts, "\n\n")})
}

// storeLayers lets the layers keep what the loop added.
func (f *frame) storeLayers(ctx context.Context) error {
	own := f.state.Messages[f.state.Own:]
	for _, y := range f.layers {
		if y.Store == nil {
			continue
		}
		_ = f.ofLayer(ctx, y, "store", func(ctx context.Context, key string) error { return y.Store(ctx, key, slices.Clone(own)) })
		if ctx.Err() != nil {
			return stopped(ctx)
		}
	}
	return nil
}

// closeLayers disposes of layers in reverse, also when the run is being cancelled.
func (f *frame) closeLayers(ctx context.Context, opened []*Layer) {
	for _, y := range slices.Backward(opened) {
		if y.Dispose != nil {
			_ = f.ofLayer(context.WithoutCancel(ctx), y, "dispose", y.Dispose)
		}
	}
}
