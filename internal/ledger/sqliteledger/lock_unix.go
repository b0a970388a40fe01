//go:build unix

package sqliteledger

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the lock of an open file, which ends with it.
func lockFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		default:
			return err
		}
	}
}
