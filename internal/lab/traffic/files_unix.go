//go:build unix

package traffic

import "syscall"

// OpenFiles returns how many files a process may have open, at most enough.
func OpenFiles(enough int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return enough
	}
	n := int(limit.Cur) //nolint:gosec // no limit at all is a number that does not fit
	if n <= 0 || n > enough {
		return enough
	}
	return n
}
