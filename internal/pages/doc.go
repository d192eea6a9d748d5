// Package pages has tests only, for systems with bash: they type the sessions of the pages in docs, and compare what
// appears with what the pages show.
//
// A page is read from top to bottom, in an empty folder:
//
//   - A block under a line that ends in the name of a file and a colon is that file; in the language diff, it changes
//     the file.
//   - In a block of the language console, each line that begins with "$ " is typed into one shell. What the page shows
//     below it must appear; "…" stands for any text, and alone in a line for any lines. A command below which nothing
//     is shown must succeed.
//   - The port 7411 stands for a free one.
//   - Blocks of other languages are for the reader, except that a whole recipe must compile.
//
// With -update, sessions that show something else are rewritten in the pages:
//
//	go test ./internal/pages -run TestPages/quickstart -update
package pages

//go:generate go test -run "TestDemo|TestExpressions|TestToolsPage|TestPlanPicture" . -update
