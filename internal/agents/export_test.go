package agents

import "slices"

// ApprovalKeys is approvalKeys.
var ApprovalKeys = approvalKeys

// ProgramsThatRunOthers returns the programs for which runsOthers is true by their names, sorted.
func ProgramsThatRunOthers() []string {
	return slices.Sorted(slices.Values(slices.Concat(wrappers, shells, runners)))
}
