package agents

import "encoding/json"

// ApprovalKeys returns what an approval of a call for the run covers.
func ApprovalKeys(tool string, args json.RawMessage, plain []string) []string {
	g := gatedCall(tool, "", args)
	return g.keys(plain)
}

// Ran is how far a loop came, with what its execution was made of.
type Ran struct {
	*Result
	Snapshot snapshot
}

// Ran returns the result of the Execution, with the snapshot.
func (x *Execution) Ran() *Ran { return &Ran{x.Result(), x.root.snapshot()} }
