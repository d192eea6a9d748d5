// Package pages contains only tests, for systems with bash. They type the sessions in the pages of docs, and compare
// the output with that in the pages.
//
// A page is read from top to bottom, in an empty folder:
//
//   - A block after a line that ends in the name of a file and a colon is that file; with the language diff, it
//     changes the file.
//   - In a block with the language console, each line that begins with "$ " is typed into one shell. The output must be
//     that in the page; "…" matches any text, and alone on a line any lines. A command without output in the page must
//     succeed.
//   - The port 7411 is replaced by a free one.
//   - Blocks in other languages are for the reader, but a complete recipe must compile.
//
// With -update, sessions whose output differs are rewritten in the pages:
//
//	go test ./internal/pages -run TestPages/quickstart -update
package pages

//go:generate go test -run "TestDemo|TestExpressions|TestToolsPage|TestPlanPicture" . -update
