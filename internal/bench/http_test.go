package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/config"
)

const (
	connections = 64
	attemptBody = `{"item":"shoe","quantity":1}`
)

// house is the whole server on the embedded default, in this process, so that it
// and a bare handler run under the same conditions.
type house struct {
	url, dir string
	api      *client.Client
	secret   []byte
}

func newHouse(b *testing.B, settings ...config.Flag) *house {
	b.Helper()
	h := &house{dir: b.TempDir()}
	loaded, err := config.Load(config.Sources{Flags: append([]config.Flag{
		{Name: "--data-dir", Key: "data_dir", Value: h.dir},
		{Name: "--api-listen", Key: "api.listen", Value: "127.0.0.1:0"},
		{Name: "--ops-listen", Key: "ops.listen", Value: "127.0.0.1:0"},
		{Name: "--log-level", Key: "log.level", Value: "error"},
	}, settings...)})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, loaded.Config, app.Output{Log: os.Stderr, Notes: io.Discard, Version: "bench"})
	}()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-ended)
	})
	require.Eventually(b, func() bool {
		raw, readErr := os.ReadFile(filepath.Join(h.dir, app.APIAddressFile))
		h.url = "http://" + strings.TrimSpace(string(raw))
		return readErr == nil
	}, 30*time.Second, 5*time.Millisecond)
	key, err := os.ReadFile(filepath.Join(h.dir, app.AdminKeyFile))
	require.NoError(b, err)
	h.api, err = client.New(client.Options{URL: h.url, Token: strings.TrimSpace(string(key))})
	require.NoError(b, err)
	h.secret, err = auth.ReadSecret(filepath.Join(h.dir, app.TokenKeyFile))
	require.NoError(b, err)
	return h
}

func (h *house) token(tb testing.TB, user string) string {
	tb.Helper()
	token, err := auth.Mint(h.secret, auth.Claims{
		User: user, Issuer: "doorbuster", Audience: "doorbuster", IssuedAt: time.Now(), Expires: time.Now().Add(time.Hour),
	})
	require.NoError(tb, err)
	return token
}

// soldOut opens a sale of one unit and sells it.
func (h *house) soldOut(b *testing.B) {
	b.Helper()
	openSale(b, h.api, 1)
	w := dial(b, h.url)
	status, err := w.do(post("/v1/sales/drop/orders", h.token(b, "owner"), "k", attemptBody))
	require.NoError(b, err)
	require.Equal(b, http.StatusCreated, status)
}

func openSale(tb testing.TB, api *client.Client, stock int64) {
	tb.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	_, err := api.CreateSale(tb.Context(), client.NewSale{
		ID: "drop", Title: "Autumn drop", StartsAt: now.Add(-time.Minute).Format(time.RFC3339), EndsAt: now.Add(time.Hour).Format(time.RFC3339),
		PerUserLimit: 1, Currency: "EUR", Items: []client.NewItem{{SKU: "shoe", Title: "Shoe, size 42", Price: 4900, Stock: stock}},
	})
	require.NoError(tb, err)
	_, err = api.Publish(tb.Context(), "drop")
	require.NoError(tb, err)
}

// refusals returns the requests of n buyers whom the sold-out sale turns away.
func (h *house) refusals(tb testing.TB, n int) [][]byte {
	tb.Helper()
	requests := make([][]byte, n)
	for i := range requests {
		user := "late-" + strconv.Itoa(i)
		requests[i] = post("/v1/sales/drop/orders", h.token(tb, user), "key-"+user, attemptBody)
	}
	return requests
}

// bare serves one plain net/http handler.
func bare(b *testing.B, handler http.HandlerFunc) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	require.NoError(b, err)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, Protocols: protocols}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() { require.NoError(b, server.Close()) })
	return "http://" + listener.Addr().String()
}

// BenchmarkRefusedBuy: buys refused after sell-out, with everything that a buy
// goes through, against a handler that only reads and decodes the same body.
// Goal: 0.55.
func BenchmarkRefusedBuy(b *testing.B) {
	for b.Loop() {
		h := newHouse(b)
		h.soldOut(b)
		refusal := []byte(`{"code":"sold_out"}`)
		url := bare(b, func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Item     string `json:"item"`
				Quantity int64  `json:"quantity"`
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write(refusal)
		})
		requests := h.refusals(b, connections)
		ours, theirs, factor := sideBySide(
			hammer(b, dialAll(b, h.url, connections), requests, http.StatusConflict),
			hammer(b, dialAll(b, url, connections), requests, http.StatusConflict),
		)
		note("refusals/s: doorbuster %.0f, bare handler %.0f", ours, theirs)
		ratio(b, "refused_buy", factor, 0.55)
	}
}

// BenchmarkGate: the same refusals with the gate, its default limits and a thousand
// buyers behind a thousand addresses, against the house without a gate. Goal: the
// gate adds at most 15 percent.
func BenchmarkGate(b *testing.B) {
	for b.Loop() {
		const buyers = 1024
		proxy := config.Flag{Key: "api.trusted_proxies", Value: "127.0.0.1"}
		guarded := newHouse(b, proxy)
		open := newHouse(b, proxy, config.Flag{Key: "gate.mode", Value: "off"})
		load := func(h *house) func(time.Duration) float64 {
			h.soldOut(b)
			requests := h.refusals(b, buyers)
			for i := range requests {
				from := fmt.Sprintf("X-Forwarded-For: 20.%d.%d.7\r\nContent-Type:", i/256, i%256)
				requests[i] = bytes.Replace(requests[i], []byte("Content-Type:"), []byte(from), 1)
			}
			return hammer(b, dialAll(b, h.url, connections), requests, http.StatusConflict)
		}
		with, without, factor := sideBySide(load(guarded), load(open))
		note("refusals/s: with the gate %.0f, without %.0f", with, without)
		ratio(b, "gate_refused_buy", factor, 0.85)
	}
}

// BenchmarkSaleDetails: GET of a sale against a handler that writes the same
// bytes. Goal: 0.7.
func BenchmarkSaleDetails(b *testing.B) {
	for b.Loop() {
		h := newHouse(b)
		openSale(b, h.api, 100)
		page := fetch(b, h.url+"/v1/sales/drop")
		url := bare(b, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(page)
		})
		requests := [][]byte{get("/v1/sales/drop", "")}
		ours, theirs, factor := sideBySide(
			hammer(b, dialAll(b, h.url, connections), requests, http.StatusOK),
			hammer(b, dialAll(b, url, connections), requests, http.StatusOK),
		)
		note("sale details/s: doorbuster %.0f, bare handler %.0f", ours, theirs)
		ratio(b, "sale_details", factor, 0.7)
	}
}

func fetch(b *testing.B, url string) []byte {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(b, err)
	resp, err := http.DefaultClient.Do(request)
	require.NoError(b, err)
	defer func() { require.NoError(b, resp.Body.Close()) }()
	page, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	return page
}

// BenchmarkFlat: heap and goroutines after 1.1 million refused attempts of ten
// thousand buyers, against those after the first hundred thousand. Goals: the
// later is at most a tenth larger.
func BenchmarkFlat(b *testing.B) {
	for b.Loop() {
		h := newHouse(b)
		h.soldOut(b)
		wires := dialAll(b, h.url, connections)
		requests := h.refusals(b, 10_000)
		send(b, wires, requests, 100_000)
		heap, routines := weigh()
		send(b, wires, requests, 1_000_000)
		heapAfter, routinesAfter := weigh()
		runtime.KeepAlive(requests) // weighed both times
		note("heap %.1f MiB, then %.1f MiB; goroutines %d, then %d", mib(heap), mib(heapAfter), routines, routinesAfter)
		ratio(b, "flat_heap", float64(heap)/float64(heapAfter), 0.9)
		ratio(b, "flat_goroutines", float64(routines)/float64(routinesAfter), 0.9)
	}
}

// send spreads n requests over the connections.
func send(b *testing.B, wires []*line, requests [][]byte, n int) {
	b.Helper()
	done := make(chan struct{}, len(wires))
	for i, w := range wires {
		go func() {
			for k := i; k < n; k += len(wires) {
				status, err := w.do(requests[k%len(requests)])
				if err != nil || status != http.StatusConflict {
					b.Errorf("status %d, %v", status, err)
					break
				}
			}
			done <- struct{}{}
		}()
	}
	for range wires {
		<-done
	}
}

func weigh() (heap uint64, goroutines int) {
	runtime.GC()
	runtime.GC() // the second one empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }
