package redisconn_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// check opens a server and checks it against a clock that is ahead of ours.
func check(t *testing.T, url string, ahead time.Duration) (redisconn.Report, error) {
	t.Helper()
	ledger := func(context.Context) (time.Time, error) { return time.Now().Add(ahead), nil }
	return redisconn.Check(t.Context(), open(t, redisconn.Options{URL: url}), ledger)
}

func TestGoodServer(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "maxmemory 100mb", "min-replicas-to-write 0")
	report, err := check(t, s.URL, 0)
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	require.Len(t, report.Servers, 1)
	got := report.Servers[0]
	require.Equal(t, s.Addr, got.Addr)
	require.Equal(t, s.Info("redis_version"), got.Version)
	require.Equal(t, "noeviction", got.Policy)
	require.EqualValues(t, 100<<20, got.MaxMemory)
	require.True(t, got.AppendOnly)
	require.Equal(t, "everysec", got.AppendSync)
	require.Positive(t, got.Clock.Within)
	require.Contains(t, report.String(), "Redis "+s.Addr+": version "+got.Version+", noeviction, clock ")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	primary := plain(t)
	for name, tt := range map[string]struct{ setting, want string }{
		"eviction": {"maxmemory-policy allkeys-lru", "may evict keys (maxmemory-policy allkeys-lru)"},
		// Without TTLs it evicts nothing of ours, but nobody keeps watch over that.
		"volatile": {"maxmemory-policy volatile-ttl", "may evict keys (maxmemory-policy volatile-ttl)"},
		"replica":  {testenv.ReplicaOf(primary), "is a replica"},
		"node":     {"cluster-enabled yes", "is a node of a cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := plain(t, tt.setting)
			report, err := check(t, s.URL, 0)
			require.ErrorIs(t, err, redisconn.ErrUnfit)
			require.NotErrorIs(t, err, redisconn.ErrUnavailable)
			e, ok := errors.AsType[*sale.Error](err)
			require.True(t, ok)
			require.Equal(t, sale.CodeIllegalState, e.Code)
			require.Contains(t, e.Message, "Redis "+s.Addr+" "+tt.want)
			require.NotEmpty(t, e.Hint)
			require.Len(t, report.Servers, 1)
		})
	}
}

// A policy that was changed while the server ran is what counts.
func TestPolicyInForce(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	s.Must("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	_, err := check(t, s.URL, 0)
	require.ErrorContains(t, err, "allkeys-random")
}

func TestFindings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings []string
		level    redisconn.Level
		want     string
	}{
		"nothing kept":   {[]string{"appendonly no"}, redisconn.Warning, "keeps nothing over a restart"},
		"snapshots":      {[]string{"appendonly no", "save 3600 1"}, redisconn.Warning, "keeps snapshots only"},
		"unsynced":       {[]string{"appendfsync no"}, redisconn.Note, "when the system likes"},
		"nothing told":   {[]string{"appendonly no", `rename-command CONFIG ""`}, redisconn.Warning, "does not tell whether it keeps snapshots"},
		"forbidden told": {[]string{"appendonly no", "user default on nopass ~* &* +@all -config"}, redisconn.Warning, "does not tell whether it keeps snapshots"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := check(t, testenv.Redis(t, tt.settings...).URL, 0)
			require.NoError(t, err)
			require.Len(t, report.Findings, 1)
			require.Equal(t, tt.level, report.Findings[0].Level)
			require.Contains(t, report.Findings[0].Message, tt.want)
			require.NotEmpty(t, report.Findings[0].Hint)
			require.Contains(t, report.String(), string(tt.level)+": "+report.Findings[0].Message)
		})
	}
}

func TestForbiddenConfigIsNoTrouble(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, `rename-command CONFIG ""`)
	report, err := check(t, s.URL, 0)
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	require.Equal(t, "noeviction", report.Servers[0].Policy)
	require.False(t, report.Servers[0].SnapshotsKnown)

	s = testenv.Redis(t, `rename-command CONFIG ""`, "maxmemory-policy allkeys-lfu")
	_, err = check(t, s.URL, 0)
	require.ErrorIs(t, err, redisconn.ErrUnfit)
}

func TestReplicasWithoutAMinimum(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t)
	replica := testenv.Redis(t, testenv.ReplicaOf(primary))
	replica.AwaitInfo("master_link_status", "up")
	report, err := check(t, primary.URL, 0)
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Equal(t, redisconn.Note, report.Findings[0].Level)
	require.Empty(t, report.Warnings())
	require.EqualValues(t, 1, report.Servers[0].Replicas)
	primary.Must("CONFIG", "SET", "min-replicas-to-write", "1")
	report, err = check(t, primary.URL, 0)
	require.NoError(t, err)
	require.Empty(t, report.Findings)
}

func TestClocksApart(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	for ahead, want := range map[time.Duration]string{time.Hour: "behind the ledger's", -time.Hour: "ahead of the ledger's"} {
		report, err := check(t, s.URL, ahead)
		require.NoError(t, err)
		require.InDelta(t, -ahead, report.Servers[0].Clock.By, float64(report.Servers[0].Clock.Within+time.Millisecond))
		require.Len(t, report.Warnings(), 1)
		require.Contains(t, report.Findings[0].Message, want)
	}
	client := open(t, redisconn.Options{URL: s.URL})
	report, err := redisconn.Check(t.Context(), client, nil)
	require.NoError(t, err)
	require.Zero(t, report.Servers[0].Clock, "without a ledger nothing is compared")
	_, err = redisconn.Check(t.Context(), client, func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no ledger") })
	require.ErrorContains(t, err, "no ledger")
	s.Kill()
	_, err = redisconn.Check(t.Context(), client, nil)
	require.ErrorIs(t, err, redisconn.ErrUnavailable)
}

// Only one version is installed here, so it is given another number on its way.
func TestOldVersionIsRefused(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	version := s.Info("redis_version")
	for number, fits := range map[string]bool{"6": false, "5": false, "8": true, "x": false} {
		other := number + version[1:]
		_, err := check(t, "redis://"+disguise(t, s.Addr, "redis_version:"+version, "redis_version:"+other), 0)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, redisconn.ErrUnfit)
		require.ErrorContains(t, err, "is version "+other)
	}
}

// disguise passes connections on to a server, and replaces a text of equal length
// in its answers.
func disguise(t *testing.T, addr, before, after string) string {
	t.Helper()
	require.Len(t, after, len(before))
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	serve := func(client net.Conn) {
		defer func() { _ = client.Close() }()
		var dialer net.Dialer
		server, err := dialer.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if _, err = client.Write(bytes.ReplaceAll(buf[:n], []byte(before), []byte(after))); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
	return listener.Addr().String()
}
