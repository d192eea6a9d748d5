// Command braise validates, plans, runs and tests recipes.
// docs/command.md describes commands, flags, exit codes and JSON shapes.
package main

import "github.com/braise-run/braise/internal/command"

func main() { command.Main() }
