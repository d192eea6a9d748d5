package agentloop

// Watch has f look at the live state after every event.
func (in *Input) Watch(f func(*State)) { in.watch = f }

// The parts that have tests of their own.
var (
	ApprovalKeys = approvalKeys
	FencedBlock  = fencedBlock
)
