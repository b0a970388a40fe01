package bench_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// apart puts this process on one core, and servers on another, until the benchmark ends.
// Where they share cores the figure is one of the kernel's, which lets servers wait
// for their callers.
func apart(b *testing.B, servers ...int) {
	b.Helper()
	twoCores(b)
	var before unix.CPUSet
	require.NoError(b, unix.SchedGetaffinity(0, &before))
	ours, theirs := core(b, 0), core(b, 1)
	procs := runtime.GOMAXPROCS(1)
	pin(b, os.Getpid(), ours)
	for _, pid := range servers {
		pin(b, pid, theirs)
	}
	b.Cleanup(func() {
		pin(b, os.Getpid(), before)
		runtime.GOMAXPROCS(procs)
	})
}

// twoCores passes over a benchmark where its parts would share a core, and says so: its
// figure would be of the kernel's.
func twoCores(b *testing.B) {
	b.Helper()
	if runtime.NumCPU() < 2 {
		note("%s: not measured, it needs two cores", b.Name())
		b.SkipNow()
	}
}

// core returns one of the cores that this process may use, counted from 0.
func core(b *testing.B, n int) (one unix.CPUSet) {
	b.Helper()
	var all unix.CPUSet
	require.NoError(b, unix.SchedGetaffinity(0, &all))
	for i := range 8 * int(unsafe.Sizeof(all)) {
		if !all.IsSet(i) {
			continue
		}
		if n == 0 {
			one.Set(i)
			return one
		}
		n--
	}
	require.Fail(b, "there are not so many cores")
	return one
}

// pin keeps a process on some cores: the threads that it has, and so those that they
// make.
func pin(b *testing.B, pid int, cores unix.CPUSet) {
	b.Helper()
	for range 2 { // one may have been made in between
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		require.NoError(b, err)
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			require.NoError(b, err)
			if err = unix.SchedSetaffinity(id, &cores); !errors.Is(err, unix.ESRCH) { // it has ended
				require.NoError(b, err)
			}
		}
	}
}
