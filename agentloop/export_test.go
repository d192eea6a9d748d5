package agentloop

// ApprovalKeys is approvalKeys.
var ApprovalKeys = approvalKeys
