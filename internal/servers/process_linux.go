package servers

import "syscall"

func ownGroup(last syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: last}
}
