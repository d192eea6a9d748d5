package agents

import "encoding/json"

// ApprovalKeys returns what an approval of a call for the run covers.
func ApprovalKeys(tool string, args json.RawMessage, plain []string) []string {
	g := gatedCall(tool, "", args)
	return g.keys(plain)
}
