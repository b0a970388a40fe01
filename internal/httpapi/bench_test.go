package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
)

// wire is the client of the benchmarks: one connection, requests rendered
// before, answers read just as far as needed. It is the same on both sides of
// every comparison.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(tb testing.TB, url string) *wire {
	tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(tb, err)
	return &wire{conn: conn, in: bufio.NewReader(conn)}
}

// ask sends a request and returns the status of its answer.
func (w *wire) ask(request []byte) (int, error) {
	if _, err := w.conn.Write(request); err != nil {
		return 0, err
	}
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, err
	}
	length := 0
	for {
		line, err = w.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) == 2 {
			break
		}
		if name := []byte("Content-Length: "); bytes.HasPrefix(line, name) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(name):]))); err != nil {
				return 0, err
			}
		}
	}
	_, err = w.in.Discard(length)
	return status, err
}

// crowd sends requests over 64 connections and expects one status.
func crowd(b *testing.B, url string, requests [][]byte, status int) {
	b.Helper()
	b.SetParallelism(32)
	b.ReportAllocs()
	var turn atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		w := dial(b, url)
		defer func() { _ = w.conn.Close() }()
		for pb.Next() {
			got, err := w.ask(requests[turn.Add(1)%uint64(len(requests))])
			if err != nil || got != status {
				b.Errorf("status %d, error %v", got, err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

// attempts renders buys of a thousand buyers.
func attempts(b *testing.B) [][]byte {
	b.Helper()
	const body = `{"item":"unit","quantity":1}`
	out := make([][]byte, 1000)
	for i := range out {
		out[i] = fmt.Appendf(nil, "POST /v1/sales/drop/orders HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nAuthorization: %s\r\nIdempotency-Key: 0b9f7a52-%d\r\nContent-Length: %d\r\n\r\n%s",
			buyer(b, fmt.Sprint("user-", i)), i, len(body), body)
	}
	return out
}

func soldOut(b *testing.B) *world {
	b.Helper()
	w := buildWorld(b, asServed())
	w.openSale(b, "drop", 1)
	want[client.Order](b, http.StatusCreated, w.buy(b, buyer(b, "winner"), "drop", "k", one))
	w.buy(b, buyer(b, "loser"), "drop", "k", one).requireCode(b, http.StatusConflict, "sold_out")
	return w
}

// The goal: at least 0.55 of BenchmarkBareDecode.
func BenchmarkRefusedBuy(b *testing.B) {
	w := soldOut(b)
	requests := attempts(b)
	b.ResetTimer()
	crowd(b, w.server.URL, requests, http.StatusConflict)
}

// BenchmarkBareDecode is what reading and decoding the same body costs by itself.
func BenchmarkBareDecode(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a client.Attempt
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusConflict)
	}))
	defer srv.Close()
	requests := attempts(b)
	b.ResetTimer()
	crowd(b, srv.URL, requests, http.StatusConflict)
}

func looks() [][]byte { return [][]byte{[]byte("GET /v1/sales/drop HTTP/1.1\r\nHost: shop\r\n\r\n")} }

// The goal: at least 0.7 of BenchmarkBareBody.
func BenchmarkSaleDetails(b *testing.B) {
	w := soldOut(b)
	b.ResetTimer()
	crowd(b, w.server.URL, looks(), http.StatusOK)
}

// BenchmarkBareBody is what sending the same body costs by itself.
func BenchmarkBareBody(b *testing.B) {
	w := soldOut(b)
	body := w.call(b, nobody, "GET /v1/sales/drop", "").body
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, bytes.NewReader(body))
	}))
	defer srv.Close()
	b.ResetTimer()
	crowd(b, srv.URL, looks(), http.StatusOK)
}

// inFile is the world as a server runs it, on a database file whose clock starts
// at nine.
func inFile(b *testing.B) settings {
	b.Helper()
	begun := time.Now()
	nine := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	store, err := sqliteledger.Open(b.Context(), sqliteledger.Options{
		Path: b.TempDir() + "/ledger.db", Migrate: true, Clock: func() time.Time { return nine.Add(time.Since(begun)) },
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, store.Close()) })
	s := asServed()
	s.store = store
	return s
}

// BenchmarkIsolation offers buys over many more connections than saturate them, and looks
// at the sale over a few. The goal: the slowest hundredth of buys takes at least
// twice as long as that of looks.
func BenchmarkIsolation(b *testing.B) {
	w := buildWorld(b, inFile(b))
	w.openSale(b, "drop", 1_000_000)
	const buyers, lookers = 768, 8
	wires := make([]*wire, buyers+lookers)
	for i := range wires {
		wires[i] = dial(b, w.server.URL)
		defer func() { _ = wires[i].conn.Close() }()
	}
	var turn atomic.Int64
	var bought, looked latencies
	b.ResetTimer()
	deadline := time.Now().Add(max(time.Second, min(5*time.Second, time.Duration(b.N)*time.Millisecond)))
	var wg sync.WaitGroup
	for i, c := range wires {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				if i < lookers {
					looked.time(b, http.StatusOK, func() (int, error) { return c.ask(looks()[0]) })
					continue
				}
				request := purchase(w.shop, turn.Add(1))
				bought.time(b, http.StatusCreated, func() (int, error) { return c.ask(request) })
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(len(bought.all))/b.Elapsed().Seconds(), "buys/s")
	b.ReportMetric(bought.p99().Seconds()*1000, "buy-p99-ms")
	b.ReportMetric(looked.p99().Seconds()*1000, "look-p99-ms")
	b.ReportMetric(bought.p99().Seconds()/looked.p99().Seconds(), "isolation")
}

// purchase renders the buy of another user each time, on his behalf.
func purchase(shop string, n int64) []byte {
	body := fmt.Sprintf(`{"quantity":1,"on_behalf_of":"user-%d"}`, n)
	return fmt.Appendf(nil, "POST /v1/sales/drop/orders HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nAuthorization: %s\r\nIdempotency-Key: key-%d\r\nContent-Length: %d\r\n\r\n%s",
		shop, n, len(body), body)
}

// latencies gathers how long calls took.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *latencies) time(b *testing.B, status int, call func() (int, error)) {
	b.Helper()
	begun := time.Now()
	got, err := call()
	took := time.Since(begun)
	if err != nil || got != status {
		b.Errorf("status %d, error %v", got, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, took)
}

func (l *latencies) p99() time.Duration {
	slices.Sort(l.all)
	return l.all[len(l.all)*99/100]
}
