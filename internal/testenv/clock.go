package testenv

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const installFaketime = "sudo apt-get install -y libfaketime"

// Clock is the wall clock of one server, or of all nodes of a cluster, which a test
// may set like an operator or a time service that jumps. Their monotonic clocks go on
// as before.
type Clock struct {
	tb   testing.TB
	file string
}

// RedisWithClock does what Redis does, for a server whose wall clock the test can
// set (libfaketime).
func RedisWithClock(tb testing.TB, settings ...string) (*RedisServer, *Clock) {
	tb.Helper()
	clock := newClock(tb)
	return startRedis(tb, newRedis(tb, settings), clock.env()), clock
}

func newClock(tb testing.TB) *Clock {
	tb.Helper()
	c := &Clock{tb: tb, file: filepath.Join(tb.TempDir(), "offset")}
	c.Set(0)
	return c
}

// env is what makes a program ask this clock.
func (c *Clock) env() []string {
	c.tb.Helper()
	return []string{
		"LD_PRELOAD=" + faketime(c.tb),
		"FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
}

// Set puts the clock ahead of the machine's, or behind it, from now on.
func (c *Clock) Set(ahead time.Duration) {
	c.tb.Helper()
	sign := "+"
	if ahead < 0 {
		sign = "-"
	}
	c.write(sign + strconv.FormatFloat(ahead.Abs().Seconds(), 'f', 3, 64))
}

// Freeze stops the clock at a time, to the microsecond, until it is set or frozen
// again. The library reads local time, and its fraction as a float: half a
// microsecond more keeps that from being rounded down to the one before.
func (c *Clock) Freeze(at time.Time) {
	c.tb.Helper()
	c.write(at.Truncate(time.Microsecond).Add(500 * time.Nanosecond).Local().Format("2006-01-02 15:04:05.000000000"))
}

func (c *Clock) write(text string) {
	c.tb.Helper()
	next := c.file + ".new"
	err := os.WriteFile(next, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(next, c.file) // the server reads it at each look at the clock
	}
	if err != nil {
		c.tb.Fatalf("set the clock: %v", err)
	}
}

// faketime returns the libraries to load first. Debian's redis-server allocates by
// jemalloc, which looks at the clock when it starts, and libfaketime allocates
// when it is first asked for the time: with the C library's own allocator in front
// neither waits for the other.
func faketime(tb testing.TB) string {
	tb.Helper()
	patterns := []string{"/lib/*/libc_malloc_debug.so.0", "/usr/lib/*/faketime/libfaketime.so.1"}
	found := make([]string, 0, len(patterns))
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern) // the pattern is well formed
		if len(paths) == 0 {
			tb.Fatalf("no %s; install it with: %s", pattern, installFaketime)
		}
		found = append(found, paths[0])
	}
	return strings.Join(found, " ")
}
