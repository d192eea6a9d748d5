//go:build !linux

package checkpoint

var bootClock = processClock
