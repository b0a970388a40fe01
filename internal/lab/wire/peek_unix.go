//go:build unix

package wire

import (
	"errors"
	"syscall"
)

// peek tells whether bytes wait to be read, and whether the other end is still there.
// The socket does not block.
func peek(fd uintptr) (waiting, open bool) {
	var one [1]byte
	n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
	return n > 0, n > 0 || errors.Is(err, syscall.EAGAIN)
}
