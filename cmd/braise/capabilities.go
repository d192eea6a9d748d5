package main

import (
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// planWithCapabilities is a plan with what the host offers for it.
type planWithCapabilities struct {
	*workflow.Plan
	Capabilities []runtime.Capability `json:"capabilities"`
}
