package bench_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// apart puts this process on one core, and servers on another, until the benchmark ends.
// Where they share cores the figure is one of the kernel's, which lets servers wait
// for their callers.
func apart(b *testing.B, servers ...int) {
	b.Helper()
	if runtime.NumCPU() < 2 {
		b.Skip("needs a core for the servers and one for their callers")
	}
	var before unix.CPUSet
	require.NoError(b, unix.SchedGetaffinity(0, &before))
	procs := runtime.GOMAXPROCS(1)
	pin(b, os.Getpid(), core(0))
	for _, pid := range servers {
		pin(b, pid, core(1))
	}
	b.Cleanup(func() {
		pin(b, os.Getpid(), before)
		runtime.GOMAXPROCS(procs)
	})
}

func core(n int) (set unix.CPUSet) {
	set.Set(n)
	return set
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
			require.NoError(b, unix.SchedSetaffinity(id, &cores))
		}
	}
}
