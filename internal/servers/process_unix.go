//go:build unix

package servers

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

func askToEnd(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// unprivileged returns how to start a program that refuses to be run by root,
// as the first of the users that exists, and a function that gives a path to
// that user. For anybody but root the program is simply run.
func unprivileged(names ...string) (attr *syscall.SysProcAttr, own func(path string) error, err error) {
	attr = &syscall.SysProcAttr{Setpgid: true} // see Start
	if os.Getuid() != 0 {
		return attr, func(string) error { return nil }, nil
	}
	for _, name := range names {
		u, lookupErr := user.Lookup(name)
		if lookupErr != nil {
			err = errors.Join(err, lookupErr)
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr != nil || gidErr != nil {
			err = errors.Join(err, uidErr, gidErr)
			continue
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // numbers of the system's own
		return attr, func(path string) error { return os.Chown(path, uid, gid) }, nil
	}
	return nil, nil, fmt.Errorf("there is no user to run a server as instead of root: %w", err)
}
