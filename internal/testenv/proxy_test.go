package testenv_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

// through connects to Redis by way of a proxy; nothing is sent twice.
func through(t *testing.T, p *testenv.Proxy) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{p.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true, PipelineMultiplex: -1,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func do(t *testing.T, client rueidis.Client, words ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return client.Do(ctx, client.B().Arbitrary(words...).Build()).Error()
}

func happens(t *testing.T, what <-chan struct{}) {
	t.Helper()
	select {
	case <-what:
	case <-t.Context().Done():
		t.Fatal("the test ended first")
	case <-time.NewTimer(20 * time.Second).C:
		t.Fatal("it did not happen")
	}
}

func TestLostReply(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	p := testenv.NewProxy(t, s.Addr)
	client := through(t, p)
	require.NoError(t, do(t, client, "INCR", "n"))
	lost := p.Lose(testenv.Replies, 2, "INCR")
	require.NoError(t, do(t, client, "PING"), "others pass")
	require.Error(t, do(t, client, "INCR", "n"))
	require.Equal(t, "2", s.Must("GET", "n"), "it was executed, once, before the client heard of the reset")
	require.NoError(t, do(t, client, "PING"), "a new connection")
	require.Error(t, do(t, client, "INCR", "n"))
	happens(t, lost)
	require.NoError(t, do(t, client, "INCR", "n"))
	require.Equal(t, "4", s.Must("GET", "n"))
}

func TestLostReplyOfALongRequest(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	p := testenv.NewProxy(t, s.Addr)
	client := through(t, p)
	value := strings.Repeat("x", 3<<20)
	lost := p.Lose(testenv.Replies, 1, "long")
	require.Error(t, do(t, client, "SET", "long", value))
	happens(t, lost)
	require.Equal(t, "3145728", s.Must("STRLEN", "long"))
	require.NoError(t, do(t, client, "PING"), "connected again, with a handshake")
	lost = p.DropReplies(1)
	require.Error(t, do(t, client, "DEL", "long"))
	happens(t, lost)
	require.Equal(t, "0", s.Must("EXISTS", "long"))
}

func TestLostRequest(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	p := testenv.NewProxy(t, s.Addr)
	client := through(t, p)
	lost := p.Lose(testenv.Requests, 1, "INCR")
	require.Error(t, do(t, client, "INCR", "n"))
	happens(t, lost)
	require.Empty(t, s.Must("GET", "n"))
	require.NoError(t, do(t, client, "INCR", "n"))
}

func TestHeldReplies(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	p := testenv.NewProxy(t, s.Addr)
	client := through(t, p)
	held := p.Hold(testenv.Replies)
	forwarded := p.Forwarded("INCR")
	answer := make(chan error, 1)
	go func() { answer <- do(t, client, "INCR", "n") }()
	happens(t, forwarded)
	happens(t, held)
	require.Equal(t, "1", s.Must("GET", "n"))
	require.Empty(t, answer)
	p.Pass()
	require.NoError(t, <-answer)
}

func TestHeldBehindARequest(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	p := testenv.NewProxy(t, s.Addr)
	p.HoldBehind("PING")
	p.Pass()
	forwarded := p.HoldBehind("INCR")
	client := through(t, p) // the greeting comes through
	require.NoError(t, do(t, client, "PING"), "Pass has ended that")
	answer := make(chan error, 1)
	go func() { answer <- do(t, client, "INCR", "n") }()
	happens(t, forwarded)
	require.Eventually(t, func() bool { return s.Must("GET", "n") == "1" }, 5*time.Second, time.Millisecond)
	require.Empty(t, answer)
	p.Pass()
	require.NoError(t, <-answer)
	require.NoError(t, do(t, client, "INCR", "n"), "once")
}

func TestHeldRequests(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	p := testenv.NewProxy(t, s.Addr)
	client := through(t, p)
	held := p.Hold(testenv.Requests)
	answer := make(chan error, 1)
	go func() { answer <- do(t, client, "INCR", "n") }()
	happens(t, held)
	require.Empty(t, s.Must("GET", "n"))
	p.Cut()
	require.Error(t, <-answer)
	require.ErrorIs(t, do(t, client, "INCR", "n"), syscall.ECONNREFUSED)
	require.Zero(t, p.Links())
	p.Pass()
	require.NoError(t, do(t, client, "INCR", "n"))
	require.Equal(t, "1", s.Must("GET", "n"))
}

func TestDelay(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	p := testenv.NewProxy(t, s.Addr)
	client := through(t, p)
	const wait = 30 * time.Millisecond
	p.Delay(testenv.Replies, wait)
	start := time.Now()
	require.NoError(t, do(t, client, "PING"))
	require.GreaterOrEqual(t, time.Since(start), wait)
}

func TestLostCommitOfPostgres(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	p := testenv.NewProxy(t, s.Addr())
	url := strings.Replace(s.URL, s.Addr(), p.Addr, 1)
	direct, err := pgx.Connect(t.Context(), s.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = direct.Close(context.WithoutCancel(t.Context())) })
	_, err = direct.Exec(t.Context(), "CREATE TABLE t (x int)")
	require.NoError(t, err)
	count := func() (rows int) {
		require.NoError(t, direct.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&rows))
		return rows
	}
	insert := func() error {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		defer func() { _ = conn.Close(t.Context()) }()
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "INSERT INTO t SELECT unnest($1::int[])", []int{1, 2, 3})
		require.NoError(t, err)
		return tx.Commit(t.Context())
	}
	require.NoError(t, insert())
	lost := p.Lose(testenv.Replies, 1, "commit")
	require.Error(t, insert())
	happens(t, lost)
	require.Equal(t, 6, count(), "the transaction was committed")
	lost = p.Lose(testenv.Requests, 1, "commit")
	require.Error(t, insert())
	happens(t, lost)
	require.Equal(t, 6, count(), "the transaction was not committed")
}

// A protocol that the proxy does not know goes through piece by piece.
func TestUnknownProtocol(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	got := make(chan string, 2)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			got <- line
			_, _ = io.WriteString(conn, "answer to "+line)
			_ = conn.Close()
		}
	}()
	p := testenv.NewProxy(t, listener.Addr().String())
	ask := func(line string) string {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", p.Addr)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, line)
		require.NoError(t, err)
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}
	require.Equal(t, "answer to hello\n", ask("hello\n"))
	require.Equal(t, "hello\n", <-got)
	p.DropReplies(1)
	require.Empty(t, ask("again\n"))
	require.Equal(t, "again\n", <-got)
}
