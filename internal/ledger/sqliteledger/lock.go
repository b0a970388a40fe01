package sqliteledger

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// ErrLocked says that another process serves the ledger.
var ErrLocked = errors.New("sqliteledger: the ledger is locked by another process")

// FileLock keeps other servers away from a ledger; make one with Lock.
type FileLock struct{ file *os.File }

// Lock makes this process the one that serves the ledger at path, by a lock on
// the file <path>.lock. It is separate from Open since looking (audit) and small
// writes (a new API key) are welcome beside a running server. The system drops
// the lock when the process ends, however it ends; the file stays, and means
// nothing by itself. While another process holds the lock the error wraps
// ErrLocked and has a hint.
func Lock(path string) (*FileLock, error) {
	path, err := prepare(path)
	if err != nil {
		return nil, err
	}
	path += ".lock"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("sqliteledger: lock: %w", err)
	}
	switch err := lockFile(f); {
	case errors.Is(err, ErrLocked):
		return nil, errors.Join(taken(f, path), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("sqliteledger: lock %s: %w", path, err), f.Close())
	}
	if err := sign(f); err != nil {
		return nil, errors.Join(fmt.Errorf("sqliteledger: lock %s: %w", path, err), f.Close())
	}
	return &FileLock{file: f}, nil
}

// Unlock lets others serve the ledger. Repeated, it returns os.ErrClosed.
func (l *FileLock) Unlock() error { return l.file.Close() }

// sign leaves the number of this process, for the message that others get.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func taken(f *os.File, path string) error {
	holder := "another process"
	if raw, err := io.ReadAll(io.LimitReader(f, 32)); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			holder = "process " + strconv.Itoa(pid)
		}
	}
	return &sale.Error{
		Code: sale.CodeUnavailable, Message: holder + " serves this ledger already (" + path + ")",
		Hint: "stop it, or give this one another file in ledger.url", Err: ErrLocked,
	}
}
