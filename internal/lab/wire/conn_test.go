package wire

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func soon() time.Time { return time.Now().Add(30 * time.Second) }

func dial(t *testing.T, target *Target) *Conn {
	t.Helper()
	c, err := target.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func parsed(t *testing.T, url string) *Target {
	t.Helper()
	target, err := ParseTarget(url)
	require.NoError(t, err)
	return target
}

// What net/http's server says comes over whole: bodies of any size, chunked or with
// their length, flushed in any pieces, one after the other on one connection.
func TestAgainstNetHTTP(t *testing.T) {
	t.Parallel()
	type said struct {
		status int
		length bool
		parts  [][]byte
	}
	say := make(chan said, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := <-say
		asked, err := io.ReadAll(r.Body)
		if err != nil || string(asked) != "body of the request" || r.URL.Path != "/base/x" {
			s.status = http.StatusTeapot
		}
		var all int
		for _, part := range s.parts {
			all += len(part)
		}
		if s.length {
			w.Header().Set("Content-Length", strconv.Itoa(all))
		}
		w.WriteHeader(s.status)
		for _, part := range s.parts {
			_, _ = w.Write(part)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer server.Close()
	target := parsed(t, server.URL+"/base/")
	c := dial(t, target)
	request := fmt.Appendf(nil, "POST %s/x HTTP/1.1\r\nHost: %s\r\nContent-Length: 19\r\n\r\nbody of the request", target.Prefix, target.Host)
	rapid.Check(t, func(rt *rapid.T) {
		s := said{
			status: rapid.SampledFrom([]int{200, 201, 202, 409, 410, 429, 503, 204, 304}).Draw(rt, "status"),
			length: rapid.Bool().Draw(rt, "length"),
			parts: rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) []byte {
				return bytes.Repeat([]byte{rapid.Byte().Draw(rt, "byte")}, rapid.IntRange(0, 50_000).Draw(rt, "size"))
			}), 0, 5).Draw(rt, "parts"),
		}
		want := bytes.Join(s.parts, nil)
		if s.status == http.StatusNoContent || s.status == http.StatusNotModified {
			s.length, s.parts, want = false, nil, nil
		}
		say <- s
		var a Answer
		require.NoError(rt, c.Do(request, soon(), &a))
		require.Equal(rt, s.status, a.Status)
		require.True(rt, bytes.Equal(want, a.Body), "%d bytes, not %d", len(a.Body), len(want))
		require.False(rt, a.Close)
	})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	var name, protocol string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, protocol = r.TLS.ServerName, r.TLS.NegotiatedProtocol
		_, _ = io.WriteString(w, "hello")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the first try
	server.StartTLS()
	defer server.Close()
	target := parsed(t, server.URL)
	target.TLS.ServerName = "example.com" // the test server's certificate is for it
	_, err := target.Dial(t.Context())
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError), "a certificate that nobody knows")

	target.TLS.RootCAs = x509.NewCertPool()
	target.TLS.RootCAs.AddCert(server.Certificate())
	c := dial(t, target)
	for range 3 {
		var a Answer
		require.NoError(t, c.Do([]byte("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n"), soon(), &a))
		assert.Equal(t, "hello", string(a.Body))
	}
	assert.Equal(t, []string{"example.com", "http/1.1"}, []string{name, protocol})
	assert.Equal(t, "127.0.0.1", parsed(t, server.URL).TLS.ServerName)
}

// The deadline holds, to the instant, wherever it lies to the one before; and what
// it breaks off too early, because the network knows an older one, goes on.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newConn(near, near)
		delays := make(chan time.Duration)
		var server sync.WaitGroup
		defer func() {
			_, _ = c.Close(), far.Close()
			close(delays)
			server.Wait()
		}()
		server.Go(func() {
			requests := bufio.NewReader(far)
			for delay := range delays {
				if _, err := http.ReadRequest(requests); err != nil {
					return
				}
				<-time.After(delay) //nolint:forbidigo // in a bubble of fake time
				_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		ask := func(delay, limit time.Duration) (time.Duration, error) {
			delays <- delay
			begun := time.Now()
			var a Answer
			err := c.Do([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), begun.Add(limit), &a)
			return time.Since(begun), err
		}
		for range 3 {
			for _, delay := range []time.Duration{0, 100 * time.Millisecond, 999 * time.Millisecond} {
				took, err := ask(delay, time.Second)
				require.NoError(t, err)
				require.Equal(t, delay, took)
			}
		}
		// A stricter one, and a laxer one.
		_, err := ask(9*time.Millisecond, 10*time.Millisecond)
		require.NoError(t, err)
		_, err = ask(9*time.Second, 10*time.Second)
		require.NoError(t, err)
		// Nothing for long: the deadline that the network knows is over.
		_, err = ask(0, 100*time.Millisecond)
		require.NoError(t, err)
		<-time.After(99 * time.Millisecond) //nolint:forbidigo // in a bubble of fake time
		_, err = ask(90*time.Millisecond, 100*time.Millisecond)
		require.NoError(t, err)

		took, err := ask(time.Minute, 100*time.Millisecond)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 100*time.Millisecond, took)
	})
}

// A server that reads nothing does not hold a crowd longer than its deadline.
func TestDeadlineOfWriting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		c := newConn(near, near)
		defer func() { _ = c.Close() }()
		var a Answer
		begun := time.Now()
		require.ErrorIs(t, c.Do([]byte("GET"), begun.Add(time.Second), &a), os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

// Deadlines that move with the clock are told to the network now and then only.
func TestDeadlinesAreCheap(t *testing.T) {
	t.Parallel()
	s := &scripted{}
	c := newConn(s, s)
	start := time.Now()
	for i := range 1000 {
		s.answer = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		var a Answer
		require.NoError(t, c.Do([]byte("x"), start.Add(time.Duration(i)*time.Millisecond), &a))
	}
	assert.LessOrEqual(t, s.deadlines, 5)
}

// A connection that the server closed, or spoke on, while it stood idle is known
// before a buyer is sent over it.
func TestUsable(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	for name, act := range map[string]func(far net.Conn){
		"closed": func(far net.Conn) { _ = far.Close() },
		"spoken": func(far net.Conn) { _, _ = io.WriteString(far, "HTTP/1.1 408 Request Timeout\r\n\r\n") },
	} {
		c := dial(t, parsed(t, "http://"+listener.Addr().String()))
		far, err := listener.Accept()
		require.NoError(t, err)
		assert.True(t, c.Usable(), name)
		act(far)
		require.Eventually(t, func() bool { return !c.Usable() }, 30*time.Second, time.Millisecond, name)
		_ = far.Close()
	}
	near, far := net.Pipe()
	assert.True(t, newConn(near, near).Usable())
	_, _ = near.Close(), far.Close()
}

func TestClosedBeneath(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	c := dial(t, parsed(t, "http://"+listener.Addr().String()))
	asked := make(chan struct{})
	go func() {
		far, acceptErr := listener.Accept()
		if acceptErr == nil {
			_, _ = far.Read(make([]byte, 10))
			close(asked)
			<-t.Context().Done()
			_ = far.Close()
		}
	}()
	go func() {
		<-asked
		_ = c.Close()
	}()
	var a Answer
	require.ErrorIs(t, c.Do([]byte("GET"), soon(), &a), net.ErrClosed)
}

// In the steady state a request costs no memory, whatever its answer's framing, and
// a large answer's memory is given back.
func TestMemory(t *testing.T) { //nolint:paralleltest // it counts allocations
	body := bytes.Repeat([]byte("x"), 200)
	s := &scripted{}
	c := newConn(s, s)
	for name, text := range map[string]string{
		"length":  fmt.Sprintf("HTTP/1.1 409 Conflict\r\nServer-Timing: gate;dur=1\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"chunked": fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		"interim": fmt.Sprintf("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
	} {
		answer, request, deadline := []byte(text), []byte("request"), soon()
		var a Answer
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			s.answer = answer
			s.said.Reset()
			if err := c.Do(request, deadline, &a); err != nil || len(a.Body) != len(body) {
				t.Errorf("%v, %d bytes", err, len(a.Body))
			}
		}), name)
	}
	var a Answer
	s.answer = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", maxBody, make([]byte, maxBody))
	require.NoError(t, c.Do([]byte("x"), soon(), &a))
	require.Len(t, a.Body, maxBody)
	s.answer = []byte("HTTP/1.1 204 No Content\r\n\r\n")
	require.NoError(t, c.Do([]byte("x"), soon(), &a))
	assert.Len(t, c.buf, firstBuffer)
}

func BenchmarkParse(b *testing.B) {
	text := []byte("HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nDate: Mon, 30 Nov 2026 09:00:00 GMT\r\n" +
		"Server-Timing: gate;dur=0.012, engine;dur=0.003\r\nCache-Control: no-store\r\nContent-Length: 20\r\n\r\n{\"code\":\"sold_out\"}\n")
	s := &scripted{}
	c := newConn(s, s)
	deadline := soon()
	var a Answer
	b.ReportAllocs()
	for b.Loop() {
		s.answer = text
		s.said.Reset()
		if err := c.Do(text, deadline, &a); err != nil {
			b.Fatal(err)
		}
	}
}
