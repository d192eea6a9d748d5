package mcp_test

import (
	"os"
	"os/exec"
	"testing"
)

// A program does not outlive the process that has opened it, however that ends.
func TestProgramDiesWithItsParent(t *testing.T) { diesWith(t, "parent") }

// trust 5.3: with a guard, nor does what the program has started.
func TestGuardedProgramsDieWithTheirParent(t *testing.T) { diesWith(t, "guarded") }

// diesWith kills a host, and waits until the program that TELLs is gone too.
func diesWith(t *testing.T, mode string) {
	t.Helper()
	addr, connected, gone := listenForEnd(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), modeVariable+"="+mode, "TELL="+addr)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Error(err)
	}
	<-connected
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = parent.Wait()
	<-gone
}
