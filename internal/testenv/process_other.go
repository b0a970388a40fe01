//go:build !linux

package testenv

import "os/exec"

// dieWithParent does nothing where the system has no such promise: there a test
// process that is killed leaves its servers behind.
func dieWithParent(*exec.Cmd) {}
