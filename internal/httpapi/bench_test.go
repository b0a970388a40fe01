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
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
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
