package bench_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// line is a connection of the lab's crowds. It costs a fraction of what net/http's
// client costs, so that the server is measured.
type line struct {
	*wire.Conn
	answer wire.Answer
}

// answerIn bounds one answer.
const answerIn = 30 * time.Second

func dial(tb testing.TB, url string) *line {
	tb.Helper()
	target, err := wire.ParseTarget(url)
	require.NoError(tb, err)
	conn, err := target.Dial(tb.Context())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	return &line{Conn: conn}
}

// do sends one request and returns the status of the answer.
func (l *line) do(request []byte) (int, error) {
	err := l.Do(request, time.Now().Add(answerIn), &l.answer)
	return l.answer.Status, err
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
func hammer(tb testing.TB, wires []*line, requests [][]byte, want int) func(time.Duration) float64 {
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
						tb.Errorf("status %d, %v", status, err)
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

func dialAll(tb testing.TB, url string, n int) []*line {
	tb.Helper()
	wires := make([]*line, n)
	for i := range wires {
		wires[i] = dial(tb, url)
	}
	return wires
}
