package agentloop

// Watch has f look at the live state after every event.
func (in *Input) Watch(f func(*State)) { in.watch = f }

// ApprovalKeys is approvalKeys.
var ApprovalKeys = approvalKeys
