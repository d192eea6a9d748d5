package agents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
)

const defaultBudget = 1000

// layerKey names what a layer of this run is of.
func (f *frame) layerKey(y *agentloop.Layer) string {
	key := "global"
	switch y.Scope {
	case "thread":
		key = "thread/" + f.memory.Thread
	case "resource":
		key = "resource/" + cmp.Or(f.memory.Resource, f.memory.Thread)
	case "execution":
		key = "execution/" + f.execution.terms.RunID + "/" + f.path
	}
	return y.ID + "/" + key
}

// homeless says which layer is of a thread or a resource where the loop has none: all runs would share it. A resource
// that is not named is the thread.
func (f *frame) homeless() error {
	for i := range f.loop.Layers {
		y := &f.loop.Layers[i]
		has := f.memory.Thread
		if y.Scope == "resource" {
			has = cmp.Or(f.memory.Resource, has)
		}
		if has == "" && (y.Scope == "thread" || y.Scope == "resource") {
			return f.outside(runtime.CategoryConfig, "agent.layerScope",
				fmt.Errorf("layer %q of agent %q has the scope %s, and the agent has no thread"+
					"\n  hint: give it a memory with a thread, or the layer the scope global or execution",
					y.ID, f.loop.Name, y.Scope))
		}
	}
	return nil
}

// wantLayer asks for a call of a layer's function; a failure is reported.
func (f *frame) wantLayer(j *Job, y *agentloop.Layer, then func(Reply)) {
	j.Name, j.Key = y.ID, f.layerKey(y)
	f.want(j, func(r Reply) {
		if r.Err != nil {
			f.warn(diagnostics.CodeLayerDisabled, "%s %q failed: %v",
				strings.Replace(string(j.Op), "layer", "memory layer", 1), y.ID, r.Err)
		}
		then(r)
	})
}

// ready readies the layers, in order.
func (f *frame) ready() {
	if f.layer == len(f.loop.Layers) {
		slices.SortStableFunc(f.layers, func(a, b *agentloop.Layer) int { return cmp.Compare(a.Slot, b.Slot) })
		if f.layer, f.stage = 0, reloading; f.execution.cut != nil {
			f.finish(f.execution.cut)
		}
		return
	}
	y := &f.loop.Layers[f.layer]
	if f.layer++; y.Init == nil {
		f.layers = append(f.layers, y)
		return
	}
	f.wantLayer(&Job{Op: InitLayer}, y, func(r Reply) {
		if r.Err == nil {
			f.layers = append(f.layers, y)
		}
	})
}

// recall asks the layers, once; false: that is done.
func (f *frame) recall() bool {
	s := f.state()
	if len(f.layers) == 0 || slices.Contains(s.Gathered, LayersLoaded) {
		return false
	}
	if f.layer == len(f.layers) {
		f.record(Event{Kind: LayersLoaded, Text: strings.Join(f.recalled, "\n\n")})
		return true
	}
	y := f.layers[f.layer]
	if f.layer++; y.Recall == nil {
		return true
	}
	f.wantLayer(&Job{Op: RecallLayer, Text: s.Start.task()}, y, func(r Reply) {
		if f.execution.cut != nil {
			f.finish(f.execution.stopped)
			return
		}
		if text := runes(r.Text, 4*cmp.Or(y.Budget, defaultBudget)); r.Err == nil && text != "" {
			f.recalled = append(f.recalled, text)
		}
	})
	return true
}

// dispose disposes of layers in reverse, also when the run is being cancelled.
func (f *frame) dispose() {
	if f.layer == 0 {
		f.stage = closing
		return
	}
	f.layer--
	if y := &f.loop.Layers[f.layer]; y.Dispose != nil {
		f.wantLayer(&Job{Op: DisposeLayer}, y, func(Reply) {})
	}
}
