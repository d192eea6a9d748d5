package machine

// Absorbed reports whether a body goes on after a failure of t: the step, or one around it, has an on_error for it, or
// stands where failures are collected. Otherwise the run fails. tells says that a call is told of failures inside it.
func (t *Task) Absorbed(tells func(*Task) bool) bool {
	for ; t != nil; t = t.frame.parent {
		if n := t.Node(); n != nil && (t.item >= 0 && n.Foreach.Collect || n.OnError.Continue || n.OnError.Set != nil) {
			return true
		}
		owner := t.frame.parent
		switch {
		case t.frame.of != nil: // in a finally
			return true
		case owner == nil:
		case owner.Node().Kind == Many && owner.Node().Fork.Mode != All,
			owner.Node().Kind == Again && owner.Node().Loop.Continue && !t.frame.between,
			owner.Node().Kind == Call && tells(owner):
			return true
		}
	}
	return false
}
