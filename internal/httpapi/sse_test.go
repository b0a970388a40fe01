package httpapi_test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/httpapi"
)

// sseMessage is one message of a stream; a comment has only a comment.
type sseMessage struct {
	id, event, data, comment string
}

// listening is one open stream.
type listening struct {
	messages chan sseMessage // closed at the end of the stream
	resp     *http.Response
}

func (w *world) listen(t *testing.T, who, slug string, headers ...string) *listening {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/v1/sales/"+slug+"/events", http.NoBody)
	require.NoError(t, err)
	if who != nobody {
		r.Header.Set("Authorization", who)
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	resp, err := w.http.Do(r) //nolint:bodyclose // close does it
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	l := &listening{messages: make(chan sseMessage, 100), resp: resp}
	t.Cleanup(l.close)
	go func() {
		defer close(l.messages)
		var m sseMessage
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			name, value, _ := strings.Cut(in.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case in.Text() == "":
				if m != (sseMessage{}) {
					l.messages <- m
				}
				m = sseMessage{}
			case name == "":
				m.comment = "heartbeat"
			case name == "id":
				m.id = value
			case name == "event":
				m.event = value
			case name == "data":
				m.data = value
			}
		}
	}()
	return l
}

func (l *listening) close() { _ = l.resp.Body.Close() }

// next returns the next message of this kind.
func (l *listening) next(t *testing.T, kind string) sseMessage {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for {
		select {
		case m, open := <-l.messages:
			require.True(t, open, "the stream has ended")
			if m.event == kind {
				return m
			}
		case <-deadline.C:
			t.Fatalf("no %s came", kind)
		}
	}
}

func (l *listening) ends(t *testing.T) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for {
		select {
		case _, open := <-l.messages:
			if !open {
				return
			}
		case <-deadline.C:
			t.Fatal("the stream goes on")
		}
	}
}

func (w *world) sse(t *testing.T, m sseMessage, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(m.data), into))
	require.NoError(t, w.spec.validate("#/components/schemas/"+strings.ToUpper(m.event[:1])+m.event[1:], []byte(m.data)))
}

func TestStreamOfASale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 5)
	l := w.listen(t, nobody, "drop")
	var s client.Sale
	w.sse(t, l.next(t, "sale"), &s)
	require.EqualValues(t, 5, s.Items[0].Left, "the first message comes at once")
	want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u1"), "drop", "k", one))
	w.sse(t, l.next(t, "sale"), &s)
	require.EqualValues(t, 4, s.Items[0].Left)
	want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+office+"/drop/pause", ""))
	w.sse(t, l.next(t, "sale"), &s)
	require.Equal(t, "paused", s.Status)
	want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+office+"/drop/close", ""))
	want[client.Order](t, http.StatusOK, w.call(t, w.admin, "POST /v1/admin/orders/"+
		want[client.Page[client.Order]](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/orders", "")).Data[0].ID+"/cancel", ""))
	require.Equal(t, http.StatusNoContent, w.call(t, w.admin, "DELETE "+office+"/drop", "", "If-Match", "*").status)
	l.ends(t) // with the sale
	w.call(t, nobody, "GET /v1/sales/drop/events", "").requireCode(t, http.StatusNotFound, "sale_not_found")
}

func TestStreamOfABuyer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 50, func(n *client.NewSale) { n.PerUserLimit = 10 })
	u1 := buyer(t, "u1")
	first := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "k1", one))
	want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u2"), "drop", "k1", one))

	l := w.listen(t, u1, "drop")
	var o client.Order
	w.sse(t, l.next(t, "order"), &o)
	require.Equal(t, first, o, "a new stream begins with what the buyer has")
	second := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "k2", one))
	m := l.next(t, "order")
	w.sse(t, m, &o)
	require.Equal(t, second, o)
	require.NotEmpty(t, m.id)
	l.close()

	// While the stream is away one order is paid, the other cancelled; others buy.
	want[client.PaymentResult](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+first.ID+"/payments", `{"payment_id":"p1","status":"succeeded","amount":1000,"currency":"EUR"}`))
	want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u3"), "drop", "k1", one))
	want[client.Order](t, http.StatusOK, w.call(t, u1, "POST /v1/orders/"+second.ID+"/cancel", ""))

	back := w.listen(t, u1, "drop", "Last-Event-ID", m.id)
	states := map[string]string{}
	last := m.id
	for range 2 {
		m = back.next(t, "order")
		w.sse(t, m, &o)
		states[o.ID] = o.State
		require.Greater(t, len(m.id)*100+int(m.id[len(m.id)-1]), len(last)*100+int(last[len(last)-1]), "ids grow")
		last = m.id
	}
	require.Equal(t, map[string]string{first.ID: "paid", second.ID: "cancelled"}, states, "what was missed comes, and nothing of others")

	// An id that never was begins anew.
	reset := w.listen(t, u1, "drop", "Last-Event-ID", "999999")
	for range 2 {
		w.sse(t, reset.next(t, "order"), &o)
	}
	w.call(t, w.shop, "GET /v1/sales/drop/events", "").requireCode(t, http.StatusForbidden, "forbidden")
	w.call(t, u1+"x", "GET /v1/sales/drop/events", "").requireCode(t, http.StatusUnauthorized, "unauthenticated")
}

func TestStreamEndsWithTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 5)
	l := w.listen(t, token(t, auth.Claims{User: "u1", Issuer: issuer, Audience: audience, Expires: time.Now().Add(2 * time.Second)}), "drop")
	l.next(t, "sale")
	l.ends(t)
}

func TestStreamHeartbeatOutlivesTimeouts(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{
		options: httpapi.Options{Streams: httpapi.StreamLimits{Heartbeat: 50 * time.Millisecond}},
		server:  func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond },
	})
	w.openSale(t, "drop", 5)
	l := w.listen(t, nobody, "drop")
	for range 12 { // three times as long as either timeout
		m, open := <-l.messages
		require.True(t, open)
		if m.event == "" {
			require.Equal(t, "heartbeat", m.comment)
		}
	}
}

func TestStreamCaps(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{options: httpapi.Options{
		Streams: httpapi.StreamLimits{Total: 5, PerIP: 3, PerUser: 2}, TrustedProxies: []string{"127.0.0.1"},
	}})
	w.openSale(t, "drop", 5)
	from := func(ip string) []string { return []string{"X-Forwarded-For", ip} }
	try := func(who, ip string) answer {
		return w.call(t, who, "GET /v1/sales/drop/events", "", from(ip)...)
	}
	u1 := buyer(t, "u1")
	first := w.listen(t, u1, "drop", from("192.0.2.1")...)
	w.listen(t, u1, "drop", from("192.0.2.2")...)
	a := try(u1, "192.0.2.3")
	a.requireCode(t, http.StatusTooManyRequests, "too_many_streams")
	require.NotEmpty(t, a.header.Get("Retry-After"))
	w.listen(t, nobody, "drop", from("2001:db8::1")...)
	w.listen(t, nobody, "drop", from("2001:db8::2")...)
	w.listen(t, nobody, "drop", from("2001:db8::ffff:1")...)
	try(nobody, "2001:db8::3").requireCode(t, http.StatusServiceUnavailable, "busy")
	first.close()
	require.Eventually(t, func() bool { return w.streams(t) == 4 }, 5*time.Second, 10*time.Millisecond)
	try(nobody, "2001:db8::3").requireCode(t, http.StatusTooManyRequests, "too_many_streams")
	w.listen(t, u1, "drop", from("192.0.2.3")...)
}

func TestStreamCapsComeBeforeTheLookUp(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{options: httpapi.Options{Streams: httpapi.StreamLimits{PerIP: 1}}})
	w.openSale(t, "drop", 5)
	invented := func() answer { return w.call(t, nobody, "GET /v1/sales/invented/events", "") }
	invented().requireCode(t, http.StatusNotFound, "sale_not_found")
	invented().requireCode(t, http.StatusNotFound, "sale_not_found")
	w.listen(t, nobody, "drop")
	invented().requireCode(t, http.StatusTooManyRequests, "too_many_streams")
}

func TestHeadOfAStreamHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 5)
	a := w.call(t, nobody, "HEAD /v1/sales/drop/events", "")
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "text/event-stream", a.header.Get("Content-Type"))
	require.Equal(t, http.StatusOK, w.call(t, nobody, "GET /v1/sales/drop", "").status, "the connection is free for more")
	require.Eventually(t, func() bool { return w.streams(t) == 0 }, 5*time.Second, 10*time.Millisecond)
}

func (w *world) streams(t *testing.T) int {
	t.Helper()
	return want[client.Stats](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/stats", "")).Streams
}

// pipes is a listener of connections without buffers: what is not read blocks
// the writer at once.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func TestSlowReaderIsCutOff(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{options: httpapi.Options{Streams: httpapi.StreamLimits{Write: 100 * time.Millisecond}}})
	w.openSale(t, "drop", 5)
	reader := w.listen(t, nobody, "drop")
	reader.next(t, "sale")
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: w.api.Public(), ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(p) }()
	defer func() { _ = srv.Close() }()
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close() }()
	p.conns <- theirs
	_, err := ours.Write([]byte("GET /v1/sales/drop/events HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return strings.Contains(w.metrics(t), "doorbuster_http_streams_cut_total 1\n") && w.streams(t) == 1
	}, patience, 10*time.Millisecond, "a reader who does not read must go")
	want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u1"), "drop", "k", one))
	reader.next(t, "sale") // the others are not held up
}

func TestStreamsEndAtShutdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 5)
	anonymous, own := w.listen(t, nobody, "drop"), w.listen(t, buyer(t, "u1"), "drop")
	anonymous.next(t, "sale")
	own.next(t, "sale")
	w.feed.Close()
	anonymous.ends(t)
	own.ends(t)
	w.call(t, nobody, "GET /v1/sales/drop/events", "").requireCode(t, http.StatusServiceUnavailable, "unavailable")
}
