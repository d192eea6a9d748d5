package agents

// ApprovalKeys is approvalKeys.
var ApprovalKeys = approvalKeys
