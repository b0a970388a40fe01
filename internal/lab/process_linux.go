package lab

import "syscall"

// childAttributes keep Ctrl-C, which the terminal sends to a whole group of
// processes, away from the server: this process stops it in order. If this
// process is killed, the kernel stops the server.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
