package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/limit/httplimit"
)

const proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"

// headerV2 is a header of version 2: command and version, family, what follows.
func headerV2(command, family byte, rest string) string {
	length := uint16(len(rest)) //nolint:gosec // at most 60 kB here
	return proxyV2 + string(binary.BigEndian.AppendUint16([]byte{command, family}, length)) + rest
}

// echo answers each request with the address it came from, over a listener that
// trusts these peers; it returns its address.
func echo(t *testing.T, timeout time.Duration, trusted ...string) string {
	t.Helper()
	p, err := httplimit.ParseProxies(trusted...)
	require.NoError(t, err)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Echo", r.RemoteAddr) }),
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(httpapi.ProxyProtocol(l, p, timeout)) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return l.Addr().String()
}

// say connects, sends the opening and a request, and returns the status and where the
// server says that it came from, or 0 if the connection ends without an answer.
func say(t *testing.T, addr, opening string) (status int, from, own string) {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(c, opening+"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", c.LocalAddr().String()
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode, answer.Header.Get("Echo"), c.LocalAddr().String()
}

func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	addr := echo(t, 0, "127.0.0.0/8")
	v4 := "\xcb\x00\x71\x09\x7f\x00\x00\x01\x12\x34\x00\x50" // 203.0.113.9:4660 to 127.0.0.1:80
	v6 := netip.MustParseAddr("2001:db8::9").As16()
	const peer = "peer"
	for name, c := range map[string]struct{ opening, want string }{
		"v1 TCP4":                     {"PROXY TCP4 203.0.113.9 127.0.0.1 4660 80\r\n", "203.0.113.9:4660"},
		"v1 TCP6":                     {"PROXY TCP6 2001:db8::9 ::1 4660 80\r\n", "[2001:db8::9]:4660"},
		"v1 UNKNOWN":                  {"PROXY UNKNOWN\r\n", peer},
		"v1 UNKNOWN with more":        {"PROXY UNKNOWN 203.0.113.9 127.0.0.1 4660 80\r\n", peer},
		"v2 TCP over IPv4":            {headerV2(0x21, 0x11, v4), "203.0.113.9:4660"},
		"v2 TCP over IPv4 with more":  {headerV2(0x21, 0x11, v4+"\x04\x00\x01\x00"), "203.0.113.9:4660"},
		"v2 TCP over IPv6":            {headerV2(0x21, 0x21, string(v6[:])+string(v6[:])+"\x12\x34\x00\x50"), "[2001:db8::9]:4660"},
		"v2 LOCAL":                    {headerV2(0x20, 0x00, ""), peer},
		"v2 LOCAL with an address":    {headerV2(0x20, 0x11, v4), peer},
		"v2 Unix socket":              {headerV2(0x21, 0x31, strings.Repeat("/tmp/a\x00\x00\x00", 24)), peer},
		"v2 an address of nobody":     {headerV2(0x21, 0x11, "\x00\x00\x00\x00\x7f\x00\x00\x01\x12\x34\x00\x50"), peer},
		"no header":                   {"", ""},
		"v1 damaged":                  {"PROXY TCP4 203.0.113.9 127.0.0.1 4660\r\n", ""},
		"v1 foreign family":           {"PROXY TCP4 2001:db8::9 ::1 4660 80\r\n", ""},
		"v1 without an end":           {"PROXY TCP4 " + strings.Repeat("1", 4096), ""},
		"v2 of an unknown family":     {headerV2(0x21, 0x13, v4), ""},
		"v2 too short":                {headerV2(0x21, 0x11, v4[:8]), ""},
		"v2 of 60 kB":                 {headerV2(0x21, 0x11, v4+strings.Repeat("\x04\x00\x01\x00", 15000)), ""},
		"v2 without a known version":  {headerV2(0x31, 0x11, v4), ""},
		"v2 PROXY without an address": {headerV2(0x21, 0x00, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, from, own := say(t, addr, c.opening)
			switch c.want {
			case "":
				require.Zero(t, status, "%s", from)
			case peer:
				require.Equal(t, own, from)
			default:
				require.Equal(t, c.want, from)
			}
		})
	}
}

// Only trusted peers may say where a client is.
func TestProxyProtocolFromAnybody(t *testing.T) {
	t.Parallel()
	addr := echo(t, 0, "192.0.2.1")
	status, from, own := say(t, addr, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, own, from)
	status, _, _ = say(t, addr, "PROXY TCP4 203.0.113.9 127.0.0.1 4660 80\r\n")
	require.Equal(t, http.StatusBadRequest, status)
	status, _, _ = say(t, addr, headerV2(0x20, 0, ""))
	require.Equal(t, http.StatusBadRequest, status)
}

// A peer that connects and says nothing, or half of a header, is not waited for.
func TestProxyProtocolDeadline(t *testing.T) {
	t.Parallel()
	addr := echo(t, time.Millisecond, "127.0.0.0/8")
	for _, opening := range []string{"", "PROXY TCP4", proxyV2[:7], headerV2(0x21, 0x11, "\xcb\x00\x71\x09\x7f\x00\x00\x01\x12\x34\x00\x50")[:20]} {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", addr)
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(c, opening)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, c)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "%q: the connection is still open", opening)
		require.NoError(t, c.Close())
	}
}

// tape is a connection from a trusted peer that says one thing and hangs up.
type tape struct {
	net.Conn
	said *bytes.Reader
}

func (c tape) Read(b []byte) (int, error) { return c.said.Read(b) }

func (tape) SetReadDeadline(time.Time) error { return nil }

func (tape) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7} }

func (tape) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8} }

type tapes struct {
	net.Listener
	next tape
}

func (l tapes) Accept() (net.Conn, error) { return l.next, nil }

// Whatever a trusted peer sends, its connection has an address that limits can
// count by, and no byte is read twice or invented.
func FuzzProxyProtocol(f *testing.F) {
	for _, s := range []string{
		"PROXY TCP4 203.0.113.9 127.0.0.1 4660 80\r\nGET", "PROXY TCP6 2001:db8::9 ::1 4660 80\r\n", "PROXY UNKNOWN\r\n", "PROXY TCP4", proxyV2,
		headerV2(0x21, 0x11, "\xcb\x00\x71\x09\x7f\x00\x00\x01\x12\x34\x00\x50") + "GET", headerV2(0x20, 0, ""), headerV2(0x21, 0x31, strings.Repeat("a", 216)),
		headerV2(0x21, 0x12, "\xcb\x00\x71\x09\x7f\x00\x00\x01\x12\x34\x00\x50"),
	} {
		f.Add([]byte(s))
	}
	trusted := httplimit.NewProxies(netip.MustParsePrefix("127.0.0.0/8"))
	f.Fuzz(func(t *testing.T, said []byte) {
		c, err := httpapi.ProxyProtocol(tapes{next: tape{said: bytes.NewReader(said)}}, trusted, 0).Accept()
		require.NoError(t, err)
		r := &http.Request{RemoteAddr: c.RemoteAddr().String()}
		require.True(t, httplimit.PeerIP(r).IsValid(), "%s", r.RemoteAddr)
		rest, err := io.ReadAll(io.LimitReader(c, 1<<20))
		if err == nil {
			require.True(t, bytes.HasSuffix(said, rest))
		} else {
			require.Empty(t, rest)
		}
	})
}
