package program

// DelegateTools returns the names of the tools by which an agent delegates, in the order of its delegates.
func DelegateTools(def *agentDef) []string {
	names := make([]string, len(def.delegates))
	for i, id := range def.delegates {
		names[i] = "delegate_" + delegateName(id)
	}
	return names
}
