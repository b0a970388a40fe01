//go:build unix && !linux

package lab

import "syscall"

// childAttributes keep Ctrl-C, which the terminal sends to a whole group of
// processes, away from the server: this process stops it in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
