package drawing

import (
	"fmt"
	"strings"

	"github.com/braise-run/braise/internal/program"
)

// Mermaid draws steps as a mermaid flowchart: solid arrows carry data, dotted ones only order, bodies are subgraphs.
func Mermaid(steps []program.PlanStep) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	writeMermaid(&b, steps, "  ")
	return b.String()
}

func writeMermaid(b *strings.Builder, steps []program.PlanStep, indent string) {
	for _, s := range steps {
		label := fmt.Sprintf(`"%s<br/>%s"`, s.ID, mermaidText.Replace(s.Uses))
		if s.Finally {
			label = fmt.Sprintf(`"%s<br/>%s, at the end"`, s.ID, mermaidText.Replace(s.Uses))
		}
		switch {
		case len(s.Body) > 0:
			fmt.Fprintf(b, "%ssubgraph %s[%s]\n", indent, nodeID(s.ID), label)
			writeMermaid(b, s.Body, indent+"  ")
			fmt.Fprintf(b, "%send\n", indent)
		case s.When != "":
			fmt.Fprintf(b, "%s%s{{%s}}\n", indent, nodeID(s.ID), label)
		default:
			fmt.Fprintf(b, "%s%s[%s]\n", indent, nodeID(s.ID), label)
		}
	}
	for _, s := range steps {
		for _, e := range s.Needs {
			arrow := map[string]string{"data": "-->", "order": "-.->"}[e.Kind]
			fmt.Fprintf(b, "%s%s %s %s\n", indent, nodeID(e.Step), arrow, nodeID(s.ID))
		}
	}
}

// What a tool may be called, as text of a label.
var (
	mermaidText = strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ")
	dotText     = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ")
)

// nodeID turns a path into an identifier of mermaid: its ids cannot hold a slash, those of steps no
// capital, and "end" is a word of its own.
func nodeID(path string) string { return "s_" + strings.ReplaceAll(path, "/", "_S_") }
