// Command braise is the command of the module above, with an engine for temporal:// URLs: runs on a Temporal cluster.
// docs/command.md describes commands, flags, exit codes and JSON shapes, and docs/cluster.md what a cluster does.
package main

import "github.com/braise-run/braise/internal/command"

func main() { command.Main(engine{}) }
