package redislock_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/locktest"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// holderAt makes this binary a holder: it locks "n" at the address, prints the
// fence, waits for a line, and prints whether it believes that it holds the lock.
const holderAt = "REDISLOCK_TEST_HOLDER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(holderAt); addr != "" {
		if err := hold(addr); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:forbidigo // a child has no caller
		}
		return
	}
	// Most tests wait, for a lease or a server, so more of them run at a time than
	// there are processors.
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n != nil && n.Value.String() == n.DefValue {
		_ = n.Value.Set("6") // it is a number
	}
	goleak.VerifyTestMain(m)
}

func hold(addr string) error {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := redislock.New(c, redislock.Options{})
	if err != nil {
		return err
	}
	l, err := lock.New(s, lock.Config{})
	if err != nil {
		return err
	}
	lease, err := l.Lock(context.Background(), "n", lock.WithLease(time.Second))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, uint64(lease.Fence()))
	if _, err = bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, lease.Err())
	_, _ = fmt.Fprintln(os.Stdout, lease.Unlock(context.Background()))
	return l.Close(context.Background())
}

// holder is another process that holds the lock.
type holder struct {
	cmd   *exec.Cmd
	out   *bufio.Reader
	in    io.Writer
	fence lock.Fence
}

func startHolder(t *testing.T, addr string) *holder {
	t.Helper()
	h := &holder{cmd: exec.CommandContext(t.Context(), os.Args[0])} //nolint:gosec // this binary
	h.cmd.Env = append(os.Environ(), holderAt+"="+addr)
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	require.NoError(t, err)
	h.out = bufio.NewReader(out)
	h.in, err = h.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, h.cmd.Start())
	t.Cleanup(func() {
		_ = h.cmd.Process.Signal(syscall.SIGCONT)
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	})
	n, err := strconv.ParseUint(h.line(t), 10, 64)
	require.NoError(t, err)
	h.fence = lock.Fence(n)
	return h
}

func (h *holder) line(t *testing.T) string {
	t.Helper()
	line, err := h.out.ReadString('\n')
	require.NoError(t, err)
	return line[:len(line)-1]
}

// C43: a holder is stopped past its lease while another one works. It does not
// touch the next holder's lock, knows of its loss as soon as it runs again, and
// what it still sends with its fence is refused.
func TestC43HolderStopped(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	old := startHolder(t, s.Addr)
	require.NoError(t, old.cmd.Process.Signal(syscall.SIGSTOP))
	l := locker(t, store(t, single(t, s.Addr), redislock.Options{}), lock.Config{})
	next, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	var register locktest.Register
	require.True(t, register.Write(next.Fence(), "next"))
	require.NoError(t, old.cmd.Process.Signal(syscall.SIGCONT))
	require.False(t, register.Write(old.fence, "old"))
	_, err = io.WriteString(old.in, "\n")
	require.NoError(t, err)
	require.Equal(t, lock.ErrLost.Error(), old.line(t))
	require.Equal(t, lock.ErrLost.Error(), old.line(t), "its Unlock")
	require.NoError(t, next.Check(t.Context()), "which has not touched the next one")
	value, _ := register.Read()
	require.Equal(t, "next", value)
}

// N07: a holder that is killed stands in the way for its lease.
func TestN07HolderKilled(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	old := startHolder(t, s.Addr)
	l := locker(t, store(t, single(t, s.Addr), redislock.Options{}), lock.Config{})
	_, err := l.TryLock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, old.cmd.Process.Kill())
	next, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.Greater(t, next.Fence(), old.fence)
}
