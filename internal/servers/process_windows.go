package servers

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

func ownGroup(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func askToEnd(p *os.Process) error {
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid)) //nolint:gosec // a process id
}

func unprivileged(...string) (attr *syscall.SysProcAttr, own func(path string) error, err error) {
	return nil, nil, errors.New("PostgreSQL is not started on Windows")
}
