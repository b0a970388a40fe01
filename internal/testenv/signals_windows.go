package testenv

import "syscall"

// Windows can pause no process by a signal; sending these is an error.
const (
	pauseSignal  = syscall.Signal(0)
	resumeSignal = syscall.Signal(0)
)
