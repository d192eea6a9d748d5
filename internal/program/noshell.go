package program

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
)

// shellSigns are what only a shell makes something of.
var shellSigns = []string{"|", "||", "&&", ">", ">>", "2>", "2>&1"}

// takesSigns are programs that have arguments of that form.
var takesSigns = []string{"expr", "test", "["}

// warnNoShell warns about arguments of a program that only a shell would understand.
func (c *compiler) warnNoShell(argv *recipe.Value) {
	if argv == nil || !argv.IsList || len(argv.List) == 0 || slices.Contains(takesSigns, textOf(argv.List[0])) {
		return
	}
	for _, arg := range argv.List[1:] {
		if sign := textOf(arg); slices.Contains(shellSigns, sign) {
			c.list = append(c.list, diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindRecipe,
				Code: diagnostics.CodeArguments, Position: arg.Pos,
				Message: fmt.Sprintf("there is no shell: the program is given %q as an argument", sign),
				Hint:    `start one, if tools.exec.allow has it: argv: [sh, -c, "… ` + sign + ` …"]`})
			return
		}
	}
}

// textOf is a literal text; "": it is none.
func textOf(v *recipe.Value) string {
	text, _ := v.Scalar.(string)
	return text
}
