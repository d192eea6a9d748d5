package workflow

import "math"

// drawCall counts the calls of a model: each gets the least number, from 1, that no other has. So a
// call that a crash interrupted gets its number again.
func (r *run) drawCall(model string) int {
	r.drawMutex.Lock()
	defer r.drawMutex.Unlock()
	d := r.drawnOf(model)
	for d.free < len(d.made) && d.made[d.free] {
		d.free++
	}
	if d.free == len(d.made) {
		d.made = append(d.made, false)
	}
	d.made[d.free] = true
	return d.free + 1
}

// markDrawn notes a call of an earlier leg.
func (r *run) markDrawn(model string, n int) {
	if n < 1 || n > math.MaxInt32 {
		return
	}
	d := r.drawnOf(model)
	for len(d.made) < n {
		d.made = append(d.made, false)
	}
	d.made[n-1] = true
}

func (r *run) drawnOf(model string) *drawn {
	d := r.drawn[model]
	if d == nil {
		if d = new(drawn); r.drawn == nil {
			r.drawn = map[string]*drawn{}
		}
		r.drawn[model] = d
	}
	return d
}

// drawn are the calls of a model.
type drawn struct {
	made []bool // by number, from 1: that call was
	free int    // where in made the first may be that was not
}
