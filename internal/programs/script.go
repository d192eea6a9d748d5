package programs

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxScript is how many bytes of a script are read.
const maxScript = 64 << 10

// script adds what a script of a shell runs. It is read as one of Bash; what other shells take for something else is
// hidden.
func (l *line) script(text string) {
	l.depth++
	defer func() { l.depth-- }()
	if len(text) > maxScript || l.depth > maxDepth || strings.ContainsRune(text, 0) {
		l.hidden()
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil || len(file.Stmts) == 0 {
		l.hidden()
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			l.call(n)
		case *syntax.Assign:
			l.assign(n)
		case *syntax.DeclClause:
			if !slices.Contains([]string{"export", "readonly", "local"}, n.Variant.Value) {
				l.hidden() // it may reckon
			}
		case *syntax.ForClause:
			if each, ok := n.Loop.(*syntax.WordIter); ok && !harmless(each.Name.Value) {
				l.hidden()
			}
		// What is reckoned with may be a text that holds a command. Other shells take words of a [[ ]] for commands.
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop, *syntax.TestClause,
			*syntax.ArrayExpr:
			l.hidden()
		case *syntax.ParamExp:
			if n.Index != nil || n.Slice != nil || n.Excl || n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
				l.hidden()
			}
		}
		return true
	})
}

// harmless reports whether a text is the name of a variable that neither programs nor shells look at.
var harmless = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`).MatchString

// setOptions are options that change neither how words are read nor what they are for.
var setOptions = regexp.MustCompile(`^(?:[-+][eux]+|-o pipefail|-euo pipefail|-eo pipefail)(?: -o pipefail)?$`)

func (l *line) assign(a *syntax.Assign) {
	if a.Index != nil || a.Naked && a.Name == nil || a.Name != nil && !harmless(a.Name.Value) {
		l.hidden() // PATH, LD_PRELOAD, …, or an option of export
	}
}

// call adds what a simple command of a script runs.
func (l *line) call(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		return
	}
	argv := make([]string, len(c.Args))
	for i, w := range c.Args {
		argv[i] = text(w)
	}
	l.simple(argv)
}

// simple adds what the words of a simple command run: a builtin of the shell, or a program.
func (l *line) simple(argv []string) {
	name, args := argv[0], argv[1:]
	switch name {
	case "eval":
		if slices.Contains(args, unknown) {
			l.hidden()
			return
		}
		l.script(strings.Join(args, " "))
	case "trap":
		switch {
		case len(args) == 0 || slices.Contains([]string{"-", "", "-l", "-p"}, args[0]):
		case args[0] == unknown || strings.HasPrefix(args[0], "-"):
			l.hidden()
		default:
			l.script(args[0])
		}
	case "builtin", "command", "exec":
		for name == "command" && len(args) > 0 && slices.Contains([]string{"-v", "-V", "-p"}, args[0]) {
			args = args[1:]
		}
		switch {
		case len(args) == 0: // exec >file
		case strings.HasPrefix(args[0], "-"):
			l.hidden()
		default:
			l.simple(args)
		}
	case ".", "source", "alias", "hash", "enable", "complete", "compgen", "bind", "fc", "mapfile", "readarray",
		"coproc", "select", "function", "declare", "typeset", "nameref", "let":
		l.hidden() // it reads a file, or changes what a name runs, or reckons
	case "set":
		if len(args) > 0 && !setOptions.MatchString(strings.Join(args, " ")) {
			l.hidden()
		}
	case "read", "unset", "getopts", "export", "readonly", "local":
		for _, a := range args {
			if a != "-r" && !harmless(a) {
				l.hidden()
			}
		}
	case ":", "break", "cd", "continue", "dirs", "exit", "popd", "pushd", "return", "shift", "times", "ulimit", "umask",
		"wait":
	case "printf":
		if len(args) > 0 && (args[0] == unknown || strings.HasPrefix(args[0], "-v")) {
			l.hidden() // -v takes an index, which may hold a command
		}
		l.names = append(l.names, name)
	case "test", "[":
		if slices.Contains(args, "-v") || len(args) > 1 && args[0] == unknown && option(args[1]) {
			l.hidden()
		}
		l.names = append(l.names, name)
	default:
		l.command(argv)
	}
}

// text is what a word of a script says; unknown where only the shell knows.
func text(w *syntax.Word) string {
	if w.Lit() == "[" {
		return "["
	}
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "*?[]{}~!`") {
				return unknown
			}
			for i := 0; i < len(p.Value); i++ {
				if p.Value[i] == '\\' && i+1 < len(p.Value) {
					i++
				}
				b.WriteByte(p.Value[i])
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return unknown
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || p.Dollar || strings.ContainsAny(lit.Value, "\\`") {
					return unknown
				}
				b.WriteString(lit.Value)
			}
		default:
			return unknown
		}
	}
	return b.String()
}
