// Package soak has tests only. They run many processes of the braise command on one store, kill, stop and cut them off,
// and compare what happened outside of them with what their runs say:
//
//	go test ./internal/soak -soak 5m -soak.seed 7
package soak
