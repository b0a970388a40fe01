package bench_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wire is a keep-alive connection that sends requests made in advance. It costs
// a fraction of what net/http's client costs, so that the server is measured.
type wire struct {
	net.Conn
	r *bufio.Reader
}

func dial(tb testing.TB, url string) *wire {
	tb.Helper()
	var d net.Dialer
	c, err := d.DialContext(tb.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	return &wire{Conn: c, r: bufio.NewReaderSize(c, 4096)}
}

// do sends one request and returns the status of the answer; the body is read
// and dropped.
func (w *wire) do(request []byte) (int, error) {
	if _, err := w.Write(request); err != nil {
		return 0, err
	}
	status, length := 0, -1
	for first := true; ; first = false {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case first:
			if len(line) < len("HTTP/1.1 200") {
				return 0, errors.New("short status line")
			}
			status, err = strconv.Atoi(string(line[9:12]))
			if err != nil {
				return 0, err
			}
		case len(line) == 0:
			if length < 0 {
				return 0, fmt.Errorf("answer %d has no length", status)
			}
			_, err = w.r.Discard(length)
			return status, err
		case len(line) > 15 && bytes.EqualFold(line[:15], []byte("Content-Length:")):
			length, err = strconv.Atoi(string(bytes.TrimSpace(line[15:])))
			if err != nil {
				return 0, err
			}
		}
	}
}

// get builds a GET request.
func get(path, token string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: bench\r\n", path)
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// post builds a POST request with a JSON body.
func post(path, token, key, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, len(body))
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}
	if key != "" {
		fmt.Fprintf(&b, "Idempotency-Key: %s\r\n", key)
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// hammer sends each connection's request again and again for a time and returns
// answers a second. Every answer must have the status wanted.
func hammer(tb testing.TB, wires []*wire, requests [][]byte, want int) func(time.Duration) float64 {
	tb.Helper()
	return func(d time.Duration) float64 {
		var answers atomic.Int64
		var stop atomic.Bool
		alarm := time.AfterFunc(d, func() { stop.Store(true) })
		defer alarm.Stop()
		start := time.Now()
		var wg sync.WaitGroup
		for i, w := range wires {
			wg.Go(func() {
				for n := i; !stop.Load(); n += len(wires) {
					status, err := w.do(requests[n%len(requests)])
					if err != nil || status != want {
						if !errors.Is(err, io.EOF) || status != want {
							tb.Errorf("status %d, %v", status, err)
						}
						return
					}
					answers.Add(1)
				}
			})
		}
		wg.Wait()
		return float64(answers.Load()) / time.Since(start).Seconds()
	}
}

func dialAll(tb testing.TB, url string, n int) []*wire {
	tb.Helper()
	wires := make([]*wire, n)
	for i := range wires {
		wires[i] = dial(tb, url)
	}
	return wires
}
