package traffic

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// fileAlarm is a timer of the kernel's that is read like a file, exact to some ten
// microseconds. Go's own timers wake a process that otherwise waits for the network up
// to a millisecond late, which is more than a fast server needs for its answer.
type fileAlarm struct {
	file *os.File
	fd   int
	rung atomic.Bool
}

func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerAlarm()
	}
	return &fileAlarm{file: os.NewFile(uintptr(fd), "timer"), fd: fd}
}

func (a *fileAlarm) wait(d time.Duration) {
	a.set(d)
	if a.rung.Swap(false) {
		return // before it was set; who rings later sets it again
	}
	var times [8]byte
	_, _ = a.file.Read(times[:]) // how often it went off, or that it is closed
	a.rung.Store(false)          // whoever rang is heard
}

func (a *fileAlarm) ring() {
	a.rung.Store(true)
	a.set(0)
}

func (a *fileAlarm) set(d time.Duration) {
	// Zero would switch it off. In range by construction, so it cannot fail.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(d)))}
	_ = unix.TimerfdSettime(a.fd, 0, &spec, nil)
}

func (a *fileAlarm) close() { _ = a.file.Close() }
