package pgledger_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// proxy stands between a ledger and its server and cuts connections.
type proxy struct {
	server string
	mu     sync.Mutex
	// reply is asked before each part of what the server says is passed on; true
	// cuts the connection instead.
	reply func(part []byte) (cut bool)
}

// viaProxy returns the proxy and the world's URL that leads through it.
func (w *world) viaProxy(t *testing.T) (p *proxy, through string) {
	t.Helper()
	u, err := url.Parse(w.url)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a local listener
	require.NoError(t, err)
	p = &proxy{server: u.Host, reply: func([]byte) bool { return false }}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.server) //nolint:noctx // a local server
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	part := make([]byte, 1<<20)
	for {
		n, err := server.Read(part)
		if err != nil || p.cuts(part[:n]) {
			return
		}
		if _, err := client.Write(part[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) cuts(part []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reply(part)
}

func (p *proxy) cutWhen(reply func([]byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = reply
}

func committed(part []byte) bool { return bytes.Contains(part, []byte("COMMIT\x00")) }

// TestLostReply: when the answer to the commit is lost the outcome is unknown and
// said to be; the transaction is not begun anew, and the same call finds it done.
func TestLostReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, through := w.viaProxy(t)
	o := w.options()
	o.URL = through
	var begun atomic.Int64
	o.BeforeStatement = func(statement string) error {
		if statement == "begin" {
			begun.Add(1)
		}
		return nil
	}
	book := w.book(t, o)
	s := w.publish(t, book, "drop", 10)
	begun.Store(0)
	p.cutWhen(committed)
	_, err := book.Reserve(t.Context(), clicks(s, "k", "ann"))
	require.ErrorIs(t, err, pgledger.ErrUnknown)
	require.NotErrorIs(t, err, ledger.ErrConstraint)
	require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
	require.Equal(t, int64(1), begun.Load(), "it may have happened, so it is not repeated")
	p.cutWhen(func([]byte) bool { return false })
	out, err := book.Reserve(t.Context(), clicks(s, "k", "ann"))
	require.NoError(t, err)
	require.Equal(t, sale.Replayed, out.Results[0].Verdict)
	require.Equal(t, int64(9), out.Results[0].Left)
}

// TestLostBeforeTheCommit cuts the connection at every answer before that of the
// commit: nothing was done, so the transaction is begun anew and happens once.
func TestLostBeforeTheCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, through := w.viaProxy(t)
	o := w.options()
	o.URL = through
	book := w.book(t, o)
	s := w.publish(t, book, "drop", 1000)
	take(t, book, s, "warm") // statements are prepared
	cuts := 0
	for k := 1; ; k++ {
		answers, cut := 0, false
		p.cutWhen(func(part []byte) bool {
			answers++
			if answers == k && !committed(part) {
				cut = true
			}
			return answers == k && cut
		})
		out, err := book.Reserve(t.Context(), clicks(s, "k", strings.Repeat("u", k)))
		p.cutWhen(func([]byte) bool { return false })
		require.NoError(t, err, "cut at answer %d", k)
		require.Equal(t, sale.Taken, out.Results[0].Verdict)
		require.Equal(t, int64(1000-1-k), out.Results[0].Left, "once")
		if !cut {
			break
		}
		cuts++
	}
	require.Greater(t, cuts, 3)
}
