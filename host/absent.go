package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
)

// Parts of a configuration that need a variable which is not set are absent. In their places stand adapters that say
// so, for the diagnostics before the first step, and fail when they are called anyway.

// notConfigured is the error about an absent part.
func notConfigured(code diagnostics.Code, what, why string) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: string(code),
		Err: fmt.Errorf("%s is not configured: %s", what, why)}
}

// absentModel is a model that is absent, and why.
type absentModel string

func (m absentModel) Metadata() runtime.Metadata { return runtime.Metadata{Missing: string(m)} }

func (m absentModel) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	return nil, notConfigured(diagnostics.CodeMissingModel, fmt.Sprintf("model %q", req.Model), string(m))
}

// absentPort is a retriever or a loader of skills that is absent, and why.
type absentPort string

func (p absentPort) Metadata() runtime.Metadata { return runtime.Metadata{Missing: string(p)} }

func (p absentPort) Retrieve(context.Context, string, int) ([]runtime.Document, error) {
	return nil, notConfigured(diagnostics.CodeMissingRetriever, "the retriever", string(p))
}

func (p absentPort) Load(context.Context, []string) ([]runtime.Skill, error) {
	return nil, notConfigured(diagnostics.CodeMissingCapability, "the folder of skills", string(p))
}

// checkOfAbsent has the parts and names of the checks about what may be absent, models and servers apart.
var checkOfAbsent = map[string][]Check{
	"exec":      {{Part: "tool", Name: "exec.run"}},
	"file":      {{Part: "tool", Name: "file.read"}, {Part: "tool", Name: "file.write"}},
	"http":      {{Part: "tool", Name: "http.request"}},
	"retriever": {{Part: "retriever"}},
	"skills":    {{Part: "skill"}},
	"store":     {{Part: "store"}},
	"engine":    {{Part: "engine"}},
	"serve":     {{Part: "serve"}},
	"telemetry": {{Part: "telemetry"}},
	"notify":    {{Part: "notify"}},
}

// absentCheck is the check of a part that is absent, and why.
func absentCheck(why string) Check {
	message, hint, _ := strings.Cut(why, "\n  hint: ")
	return Check{Status: CheckFail, Message: "it is not configured: " + message, Hint: hint}
}

// examineAbsent puts what is absent into the checks.
func (c *Config) examineAbsent(checks []Check) []Check {
	for _, part := range slices.Sorted(maps.Keys(c.absent)) {
		for _, of := range checkOfAbsent[part] {
			check := absentCheck(c.absent[part])
			check.Part, check.Name = of.Part, of.Name
			if part == "telemetry" || part == "serve" || part == "notify" {
				check.Status = CheckWarn // runs work without it
			}
			i := slices.IndexFunc(checks, func(c Check) bool { return c.Part == of.Part && c.Name == of.Name })
			if i < 0 {
				checks = append(checks, check)
			} else {
				checks[i] = check
			}
		}
	}
	return checks
}
