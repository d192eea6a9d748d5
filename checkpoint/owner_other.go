//go:build !linux

package checkpoint

func machine() (boot, namespace string) { return "", "" }

func started(int) (start string, gone bool) { return "", false }
