// Package soak contains only tests. They run many processes of the braise command on one store, kill, stop and
// disconnect them, and compare the external effects with the records of the runs:
//
//	go test ./internal/soak -soak 5m -soak.seed 7
package soak
