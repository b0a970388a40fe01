package lab

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// childAttributes keep Ctrl-C, which the console sends to a whole group of
// processes, away from the server: this process stops it in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// askToEnd asks a process to end in order.
func askToEnd(p *os.Process) error {
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid)) //nolint:gosec // a process id
}

// openFiles returns how many files a process may have open, at most enough.
func openFiles(enough int) int { return enough }
