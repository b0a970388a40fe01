package testenv

import (
	"os/exec"
	"syscall"
)

// dieWithParent asks the system to kill the program when this process ends in
// whatever way.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
