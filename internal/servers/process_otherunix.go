//go:build unix && !linux

package servers

import "syscall"

func ownGroup(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
