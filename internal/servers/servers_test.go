package servers_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/servers"
)

func TestPortsAreGivenOnce(t *testing.T) {
	t.Parallel()
	port, err := servers.FreePort()
	require.NoError(t, err)
	_, err = new(net.ListenConfig).ListenPacket(t.Context(), "udp", servers.Loopback(port))
	require.Error(t, err, "by which other processes pass over it")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", servers.Loopback(port))
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestRedisKeepsItsPortOverACrash(t *testing.T) {
	t.Parallel()
	s := servers.NewRedis(t.TempDir(), "maxmemory 8mb")
	require.NoError(t, s.End(syscall.SIGKILL), "nothing runs yet")
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.End(syscall.SIGTERM)) })
	addr := s.Addr
	require.NoError(t, s.End(syscall.SIGKILL))
	require.NoError(t, s.End(syscall.SIGKILL), "a second time")
	require.NoError(t, s.Start(t.Context()))
	require.Equal(t, addr, s.Addr)
	require.Equal(t, "redis://"+addr, s.URL)
}

func TestRedisThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	s := servers.NewRedis(t.TempDir(), "no-such-setting 1")
	require.ErrorContains(t, s.Start(t.Context()), "no-such-setting")
}

func TestPostgresLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, err := servers.NewPostgres("fsync=on")
	require.NoError(t, err)
	require.False(t, s.Running())
	require.NoError(t, s.Start(t.Context()))
	require.NoError(t, s.Exec(t.Context(), "CREATE DATABASE shop"))
	require.GreaterOrEqual(t, s.Major(), 13)
	require.Contains(t, s.URL("shop"), "@"+s.Addr()+"/shop?")
	s.Discard()
	require.False(t, s.Running())
	require.Error(t, s.Exec(t.Context(), "SELECT 1"))
	s.Discard()
}

// A start that is given up, at whatever moment, leaves no server and no folder.
func TestPostgresWhoseStartIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond} {
		s, err := servers.NewPostgres()
		require.NoError(t, err)
		folder := s.Folder()
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if err = s.Start(ctx); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
		limit, stop := context.WithTimeout(t.Context(), servers.ReadyIn/2)
		ended := context.AfterFunc(limit, func() {}) // stopped in time if Discard does not wait for nobody
		s.Discard()
		require.True(t, ended(), "the keeper waited for a server that nobody has ended, given up after %v", after)
		stop()
		require.NoDirExists(t, folder)
		require.Empty(t, workingOn(t, folder))
	}
}

// workingOn returns the command lines of processes that name a folder.
func workingOn(t *testing.T, folder string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), folder) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func TestProgramsThatAreMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := servers.NewRedis(t.TempDir()).Start(t.Context())
	missing, ok := errors.AsType[*servers.MissingError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "redis-server is not installed", err.Error())
	require.Contains(t, missing.Hint(), "apt-get install -y redis-server")
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	never := errors.New("it does not")
	err := servers.Await(ctx, "the sun rises", func() error { return never })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, never)
	require.ErrorContains(t, err, "the sun rises")
}

func TestProcessThatDoesNotObeyIsKilled(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	p, err := servers.Start(exec.CommandContext(t.Context(), "sh", "-c", `trap "" TERM; : >"$0"; while :; do sleep 60; done`, ready), syscall.SIGKILL) //nolint:gosec // fixed words
	require.NoError(t, err)
	require.NoError(t, servers.Await(t.Context(), "it has set its trap", func() error {
		_, err := os.Stat(ready)
		return err
	}))
	require.True(t, p.Running())
	require.ErrorContains(t, p.Stop(50*time.Millisecond), "was killed")
	require.False(t, p.Running())
	require.NoError(t, p.Signal(syscall.SIGTERM), "it is gone")
	require.False(t, p.State().Success())
}

func TestServersSettingsAreNotInherited(t *testing.T) {
	t.Setenv("DOORBUSTER_LEDGER_URL", "sqlite:/srv/real.db")
	require.NotContains(t, servers.PlainEnvironment(), "DOORBUSTER_LEDGER_URL=sqlite:/srv/real.db")
	require.NotEmpty(t, servers.PlainEnvironment())
}
