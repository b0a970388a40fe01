package traffic

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// mirror is a connection without a network: each request is answered at once.
type mirror struct {
	net.Conn
	answer []byte
}

func (*mirror) Write(p []byte) (int, error)  { return len(p), nil }
func (m *mirror) Read(p []byte) (int, error) { return copy(p, m.answer), nil }
func (*mirror) SetDeadline(time.Time) error  { return nil }
func (*mirror) Close() error                 { return nil }

// refused asks the same for everybody.
type refused struct{ request []byte }

func (r *refused) Request(dst []byte, _ *Step) []byte { return append(dst, r.request...) }

func (*refused) Heard(_ *Step, a *wire.Answer, err error) Outcome {
	if err != nil || a.Status != http.StatusConflict {
		return Outcome{Class: Failed, Verdict: "failed"}
	}
	return Outcome{Class: Refused, Verdict: "sold_out"}
}

// mirrors is a target that answers at once.
func mirrors() []*wire.Target {
	m := &mirror{answer: []byte("HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nDate: Mon, 30 Nov 2026 09:00:00 GMT\r\n" +
		"Server-Timing: gate;dur=0.012, engine;dur=0.003\r\nCache-Control: no-store\r\nContent-Length: 20\r\n\r\n{\"code\":\"sold_out\"}\n")}
	return []*wire.Target{{Dialer: func(context.Context) (net.Conn, error) { return m, nil }}}
}

// burst is a plan of n buys that are all due at once.
func burst(tb testing.TB, n int) []Visit {
	tb.Helper()
	p := Profile{Buyers: n}
	plan, err := p.Plan(1)
	require.NoError(tb, err)
	return plan
}

// BenchmarkOpenLoop is what a visit costs beside the network.
func BenchmarkOpenLoop(b *testing.B) {
	plan := burst(b, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	r, err := Run(b.Context(), mirrors(), plan, &refused{request: make([]byte, 400)}, Options{Connections: 64})
	require.NoError(b, err)
	require.Equal(b, int64(b.N), r.Verdicts[Buy]["sold_out"])
}

// A visit costs no memory once the books are open.
func TestVisitsCostNoMemory(t *testing.T) { //nolint:paralleltest // it counts allocations
	allocated := func(visits int) uint64 {
		plan := burst(t, visits)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Run(t.Context(), mirrors(), plan, &refused{request: make([]byte, 400)}, Options{Connections: 8})
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	few := allocated(1000)
	require.InDelta(t, few, allocated(21_000), 2000, "20,000 visits more")
}

// BenchmarkPlan is what drawing a visit costs.
func BenchmarkPlan(b *testing.B) {
	p := Profile{Buyers: 100_000, From: 1, To: 2e6, Length: time.Second, DoubleClick: .1}
	for b.Loop() {
		_, err := p.Plan(1)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/visit")
}
