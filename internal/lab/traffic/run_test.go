package traffic

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// Over real sockets, everybody is counted once.
func TestRunOverSockets(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server-Timing", "gate;dur=0.051, engine;dur=1.5")
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	target, err := wire.ParseTarget(server.URL + "/x")
	require.NoError(t, err)
	p := Profile{Buyers: 200, Spread: 100 * time.Millisecond, Refreshes: 500, Before: 100 * time.Millisecond, Bots: .1, BotClicks: 3, DoubleClick: .1}
	plan, err := p.Plan(7)
	require.NoError(t, err)
	c := &script{think: time.Millisecond, ready: make(map[int32]time.Duration)}
	r, err := Run(t.Context(), []*wire.Target{target}, plan, c, Options{Connections: 20, Timeout: time.Minute, Drain: time.Minute})
	require.NoError(t, err)
	const buys = 200 + 2*20 + 18
	assert.Equal(t, map[string]int64{"taken": buys}, r.Verdicts[Buy])
	assert.Equal(t, map[string]int64{"paid": buys}, r.Verdicts[Pay])
	assert.Equal(t, map[string]int64{"seen": 50}, r.Verdicts[Look])
	assert.Equal(t, int64(buys), r.Stages["engine"].TotalCount())
	assert.InDelta(t, 1500, r.Stages["engine"].Mean(), 1)
	assert.InDelta(t, 51, r.Stages["gate"].Mean(), .1)
	assert.Equal(t, -100*time.Millisecond, r.First)
	assert.Zero(t, r.Abandoned)
}

// A server that hangs up on a connection that stands idle, without a word, costs no
// visit: the crowd looks before it sends.
func TestHangsUpUnannounced(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			far, acceptErr := listener.Accept()
			if acceptErr != nil {
				return
			}
			serving.Go(func() {
				if _, readErr := http.ReadRequest(bufio.NewReader(far)); readErr == nil {
					_, _ = io.WriteString(far, "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")
				}
				_ = far.Close()
			})
		}
	})
	target, err := wire.ParseTarget("http://" + listener.Addr().String())
	require.NoError(t, err)
	r, err := Run(t.Context(), []*wire.Target{target}, every(4, 200*time.Millisecond), &script{}, Options{Connections: 1, Followers: 1})
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"sold_out": 4}, r.Verdicts[Buy])
	assert.Equal(t, int64(5), r.Dialed)
	require.NoError(t, listener.Close())
	serving.Wait()
}

// A server that hangs up just as a request comes, on a connection that stood idle, is
// asked once more, as browsers do; if it does so again, the visit has failed.
func TestHangsUpAsTheRequestComes(t *testing.T) {
	t.Parallel()
	for again, want := range map[bool]map[string]int64{false: {"sold_out": 4}, true: {"no_answer": 4}} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var serving sync.WaitGroup
		serving.Go(func() {
			var asked sync.Map // by what is asked for: visits may come together
			for {
				far, acceptErr := listener.Accept()
				if acceptErr != nil {
					return
				}
				serving.Go(func() {
					if req, readErr := http.ReadRequest(bufio.NewReader(far)); readErr == nil {
						if _, before := asked.LoadOrStore(req.URL.String(), true); before && !again {
							_, _ = io.WriteString(far, "HTTP/1.1 409 Conflict\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
						}
					}
					_ = far.Close()
				})
			}
		})
		target, err := wire.ParseTarget("http://" + listener.Addr().String())
		require.NoError(t, err)
		// Each visit finds a connection that is open and has stood idle.
		r, err := Run(t.Context(), []*wire.Target{target}, every(4, 100*time.Millisecond), &script{}, Options{Connections: 4, Followers: 1})
		require.NoError(t, err)
		assert.Equal(t, want, r.Verdicts[Buy])
		require.NoError(t, listener.Close())
		serving.Wait()
	}
}

// A server that keeps up is measured to the instant: visits leave when they are due,
// however many connections wait.
func TestOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(1000, time.Millisecond), takes(5*time.Millisecond))
		r := w.run(t, t.Context())
		assert.Equal(t, int64(1000), answers(r, Accepted))
		assert.Equal(t, int64(1000), r.Late.TotalCount())
		assert.Equal(t, int64(1), r.Late.Max())
		for _, h := range []int64{r.Waited[Accepted].Min(), r.Waited[Accepted].Max(), r.Served[Accepted].Min(), r.Served[Accepted].Max()} {
			assert.InDelta(t, 5000, h, 5)
		}
		for i, s := range w.shops[0].heard {
			require.Equal(t, time.Duration(i)*time.Millisecond, s.Due)
		}
		assert.Equal(t, int64(100), within(r, 0, 100*time.Millisecond).Offered)
		assert.Equal(t, w.opts.Start.UnixNano(), r.Start.UnixNano())
		assert.Equal(t, int64(12), r.Dialed)
		assert.Zero(t, r.Queued)
	})
}

// Coordinated omission: the server stands still for half a second. Only ten requests
// were under way, but everybody who was due in that time has waited.
func TestStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const begins, ends = time.Second, 1500 * time.Millisecond
		var w *world
		w = newWorld(every(3000, time.Millisecond), func(Step) (int, string) {
			if now := time.Since(w.opts.Start); now >= begins && now < ends {
				pass(ends - now)
			}
			pass(time.Millisecond)
			return http.StatusConflict, ""
		})
		r := w.run(t, t.Context())
		require.Equal(t, int64(3000), answers(r, Refused))
		served, waited := longer(r.Served[Refused], 250*time.Millisecond), longer(r.Waited[Refused], 250*time.Millisecond)
		assert.Equal(t, int64(10), served, "the requests that were under way")
		assert.GreaterOrEqual(t, waited, int64(250), "everybody who was due in the first half of the stall")
		assert.InDelta(t, 501_000, r.Waited[Refused].Max(), 1000)
		assert.Greater(t, r.Late.Max(), int64(400_000))
		assert.Equal(t, int64(10), within(r, begins, ends).Sent)
		assert.Equal(t, int64(500), within(r, begins, ends).Offered)
		assert.GreaterOrEqual(t, r.Queued, int64(400), "those who were due in the stall, and found no connection")
	})
}

// Where there is a connection for each visit, none stands in line: neither slow answers
// nor the connections of what follows, nor visits that fail without one, say otherwise.
func TestNobodyQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(10, 0), takes(time.Second))
		w.script.think, w.opts.Followers = time.Millisecond, 10
		r := w.run(t, t.Context())
		assert.Equal(t, int64(10), answers(r, Settled))
		assert.Zero(t, r.Queued)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(100, 10*time.Millisecond), takes(5*time.Millisecond))
		time.AfterFunc(time.Until(w.opts.Start)+507*time.Millisecond, func() { w.shops[0].close(true) })
		r := w.run(t, t.Context())
		assert.Equal(t, int64(49), answers(r, Failed))
		assert.Zero(t, r.Queued)
	})
}

// longer returns how many times are longer than d.
func longer(h *hdrhistogram.Histogram, d time.Duration) (n int64) {
	for _, bar := range h.Distribution() {
		if bar.From > d.Microseconds() {
			n += bar.Count
		}
	}
	return n
}

// What follows comes not before its time, and no later while connections are free.
func TestFollowers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(100, 10*time.Millisecond), takes(time.Millisecond))
		w.script.think = 70 * time.Millisecond
		r := w.run(t, t.Context())
		assert.Equal(t, int64(100), answers(r, Settled))
		assert.Zero(t, r.Abandoned)
		paid := 0
		for _, s := range w.shops[0].heard {
			if s.Kind == Pay {
				paid++
				require.Equal(t, w.script.ready[s.Buyer], s.Due)
			}
		}
		assert.Equal(t, 100, paid)
		assert.Equal(t, int64(100), r.Late.TotalCount(), "of visits only")
	})
}

// A step that follows later than those before may be due earlier.
func TestFollowersOutOfOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(sinceNow(), newTimerAlarm())
		f.push(&Step{Due: time.Hour, Buyer: 1})
		got := make(chan Step)
		go func() {
			var s Step
			for f.next(t.Context(), &s) {
				got <- s
			}
			close(got)
		}()
		synctest.Wait()
		f.push(&Step{Due: time.Minute, Buyer: 2})
		begun := time.Now()
		assert.Equal(t, int32(2), (<-got).Buyer)
		assert.Equal(t, time.Minute, time.Since(begun))
		assert.Equal(t, int32(1), (<-got).Buyer)
		assert.Equal(t, time.Hour, time.Since(begun))
		for range 3 {
			f.answered()
		}
		_, more := <-got
		assert.False(t, more)
	})
}

func sinceNow() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// What would follow after the drain is abandoned, at its end.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(10, 10*time.Millisecond), takes(10*time.Millisecond))
		w.script.think, w.opts.Drain = time.Minute, time.Second
		r := w.run(t, t.Context())
		assert.Equal(t, int64(10), answers(r, Accepted))
		assert.Zero(t, answers(r, Settled))
		assert.Equal(t, int64(10), r.Abandoned)
		assert.Equal(t, 1100*time.Millisecond, w.took)
	})
}

// A run that is stopped ends at once: what was under way has failed, what was due and
// had not left is abandoned, and what was not due is not counted.
func TestStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(1000, 10*time.Millisecond), takes(time.Minute))
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Until(w.opts.Start)+505*time.Millisecond, func() { cancel(enough) })
		r := w.run(t, ctx)
		assert.Equal(t, 505*time.Millisecond, w.took)
		assert.Equal(t, int64(10), answers(r, Failed))
		assert.Equal(t, int64(51-10), r.Abandoned)
		assert.Equal(t, int64(51), within(r, 0, time.Hour).Offered)
		for _, err := range w.script.failed {
			require.ErrorIs(t, err, enough)
		}
	})
}

func TestStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(1, 0), takes(0))
		w.opts.Start = time.Now().Add(time.Hour)
		w.plan = []Visit{{At: 0, Kind: Buy}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := w.run(t, ctx)
		assert.Equal(t, -59*time.Minute, w.took)
		assert.Zero(t, within(r, -time.Hour, time.Hour).Offered)
		assert.Zero(t, r.Abandoned)
	})
}

// An answer that does not come fails its step, and that one only.
func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(100, 10*time.Millisecond), func(s Step) (int, string) {
			if s.Buyer == 50 {
				pass(time.Minute)
			}
			return http.StatusConflict, ""
		})
		w.opts.Timeout = 3 * time.Second
		r := w.run(t, t.Context())
		assert.Equal(t, int64(99), answers(r, Refused))
		assert.Equal(t, int64(1), answers(r, Failed))
		assert.InDelta(t, 3_000_000, r.Waited[Failed].Max(), 3000)
		assert.Equal(t, int64(13), r.Dialed, "twelve at first, one again")
	})
}

// A server that hangs up after each answer costs connections, and no visit.
func TestHangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(100, 10*time.Millisecond), func(Step) (int, string) { return http.StatusConflict, "Connection: close\r\n" })
		r := w.run(t, t.Context())
		assert.Equal(t, int64(100), answers(r, Refused))
		assert.Equal(t, int64(112), r.Dialed)
	})
}

// Of two servers one is dead from the beginning: the other gets its share.
func TestDeadFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(100, 10*time.Millisecond), takes(time.Millisecond), takes(time.Millisecond))
		w.shops[0].close(true)
		r := w.run(t, t.Context())
		assert.Equal(t, int64(100), answers(r, Accepted))
		assert.Equal(t, int64(1), r.Late.Max())
		assert.Len(t, w.shops[1].heard, 100)
	})
}

// Two servers share the crowd; one dies with what was under way, and the rest goes to
// the other on time.
func TestDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(1000, time.Millisecond), takes(3500*time.Microsecond), takes(3500*time.Microsecond))
		time.AfterFunc(time.Until(w.opts.Start)+500*time.Millisecond+time.Microsecond, func() { w.shops[0].close(true) })
		r := w.run(t, t.Context())
		failed := answers(r, Failed)
		assert.LessOrEqual(t, failed, int64(5), "at most one on each of its connections")
		assert.Positive(t, failed)
		assert.Equal(t, 1000-failed, answers(r, Accepted))
		assert.Equal(t, int64(1), r.Late.Max())
		assert.InDelta(t, 250, len(w.shops[0].heard), 100, "half of what was due until then")
	})
}

// The only server dies and comes back: meanwhile visits fail as they come due, without
// having left.
func TestDiesAndReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(300, 10*time.Millisecond), takes(time.Millisecond))
		after := func(d time.Duration, do func()) { time.AfterFunc(time.Until(w.opts.Start)+d+5*time.Millisecond, do) }
		after(time.Second, func() { w.shops[0].close(true) })
		after(2*time.Second, func() { w.shops[0].close(false) })
		r := w.run(t, t.Context())
		assert.Equal(t, int64(300), answers(r, Accepted)+answers(r, Failed))
		assert.InDelta(t, 112, answers(r, Failed), 14, "a second, and until it is dialed again")
		require.ErrorContains(t, w.script.failed[len(w.script.failed)-1], "refused")
		gone := within(r, 1200*time.Millisecond, 2*time.Second)
		assert.Equal(t, [Classes]int64{Failed: 80}, gone.Answers)
		assert.Zero(t, gone.Sent)
		assert.Equal(t, int64(1), r.Waited[Failed].Max(), "nobody waits for what is not there")
	})
}

func TestNothingCanBeDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(10, time.Millisecond), takes(0))
		w.shops[0].close(true)
		target := []*wire.Target{w.shops[0].target()}
		_, err := Run(t.Context(), target, w.plan, w.script, w.opts)
		require.ErrorContains(t, err, "no target can be reached: connect: connection refused")
		_, err = Run(t.Context(), target, nil, w.script, w.opts)
		require.ErrorContains(t, err, "nobody to send")
		_, err = Run(t.Context(), nil, w.plan, w.script, w.opts)
		require.ErrorContains(t, err, "nowhere")
		_, err = Run(t.Context(), target, w.plan, w.script, Options{Connections: -1})
		require.ErrorContains(t, err, "positive")
		_, err = Run(t.Context(), target, w.plan, w.script, Options{Slot: time.Millisecond, timers: true})
		require.ErrorContains(t, err, "choose a longer slot")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		_, err = Run(ctx, target, w.plan, w.script, w.opts)
		require.ErrorContains(t, err, "enough")
	})
}

// Without a start of its own a run begins when all connections are open.
func TestStartsWhenWarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]Visit{{At: -time.Second, Kind: Look}, {At: 0, Kind: Buy}}, takes(0))
		w.opts.Start = time.Time{}
		target := w.shops[0].target()
		target.Dialer = func(ctx context.Context) (net.Conn, error) {
			pass(500 * time.Millisecond)
			return w.shops[0].dial(ctx)
		}
		begun := time.Now()
		r, err := Run(t.Context(), []*wire.Target{target}, w.plan, w.script, w.opts)
		require.NoError(t, err)
		assert.Equal(t, 1520*time.Millisecond, r.Start.Sub(begun))
		assert.Equal(t, int64(1), r.Late.Max())
	})
}

func TestGauge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(every(100, 10*time.Millisecond), takes(95*time.Millisecond))
		w.opts.Gauge = &Gauge{}
		assert.Zero(t, w.opts.Gauge.Look())
		var seen atomic.Pointer[Live]
		time.AfterFunc(time.Until(w.opts.Start)+507*time.Millisecond, func() {
			l := w.opts.Gauge.Look()
			seen.Store(&l)
		})
		w.run(t, t.Context())
		assert.Equal(t, &Live{Offered: 51, Sent: 51, Answers: [Classes]int64{Accepted: 42}, InFlight: 9}, seen.Load())
		assert.Equal(t, Live{Offered: 100, Sent: 100, Answers: [Classes]int64{Accepted: 100}}, w.opts.Gauge.Look())
	})
}
