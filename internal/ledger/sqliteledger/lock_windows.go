package sqliteledger

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// beyond is the place of the locked byte: a lock keeps others from reading it,
// and the process number before it shall be read.
const beyond = 1 << 30

// lockFile takes the lock of an open file, which ends with it.
func lockFile(f *os.File) error {
	err := windows.LockFileEx(
		windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: beyond},
	)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
