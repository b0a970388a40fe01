package traffic

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop is a server in a bubble of fake time.
type shop struct {
	// says decides on an answer, after whatever it waits for.
	says func(s Step) (status int, header string)

	mu     sync.Mutex
	shut   bool
	open   map[net.Conn]bool
	dialed int
	heard  []Step // with the instants at which they arrived
	zero   time.Time

	serving sync.WaitGroup
}

func newShop(says func(s Step) (int, string)) *shop {
	return &shop{says: says, open: make(map[net.Conn]bool)}
}

// takes answers every step with a unit, after a time.
func takes(after time.Duration) func(Step) (int, string) {
	return func(Step) (int, string) {
		pass(after)
		return http.StatusCreated, ""
	}
}

// pass lets fake time pass.
func pass(d time.Duration) {
	if d > 0 {
		<-time.NewTimer(d).C
	}
}

func (s *shop) target() *wire.Target {
	return &wire.Target{Addr: "shop:80", Host: "shop", Dialer: s.dial}
}

func (s *shop) dial(context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return nil, syscall.ECONNREFUSED
	}
	near, far := net.Pipe()
	s.dialed++
	s.open[far] = true
	s.serving.Go(func() { s.serve(far) })
	return near, nil
}

// close breaks all connections and refuses others until it is opened again.
func (s *shop) close(shut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = shut
	for far := range s.open {
		_ = far.Close()
	}
}

func (s *shop) serve(far net.Conn) {
	defer func() {
		_ = far.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, far)
	}()
	r := bufio.NewReader(far)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		step := Step{Due: time.Since(s.zero), Kind: number[Kind](request, "kind"), Buyer: number[int32](request, "buyer"), Click: number[int16](request, "click")}
		s.mu.Lock()
		s.heard = append(s.heard, step)
		s.mu.Unlock()
		status, header := s.says(step)
		if _, err := fmt.Fprintf(far, "HTTP/1.1 %d X\r\nContent-Length: 0\r\n%s\r\n", status, header); err != nil {
			return
		}
	}
}

func number[T Kind | int32 | int16](r *http.Request, name string) T {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil {
		panic(err)
	}
	return T(n)
}

// script asks in the shop's words. Whoever gets a unit pays after some time to think.
type script struct {
	think time.Duration // 0: nobody pays

	mu     sync.Mutex
	failed []error
	ready  map[int32]time.Duration // by buyer: when he may pay
	zero   time.Time
}

func (*script) Request(dst []byte, s *Step) []byte {
	return fmt.Appendf(dst, "POST %s/?kind=%d&buyer=%d&click=%d HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n",
		s.Target.Prefix, s.Kind, s.Buyer, s.Click, s.Target.Host)
}

func (c *script) Heard(s *Step, a *wire.Answer, err error) Outcome {
	switch {
	case err != nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed = append(c.failed, err)
		return Outcome{Class: Failed, Verdict: "no_answer"}
	case s.Kind == Look:
		return Outcome{Class: Looked, Verdict: "seen"}
	case s.Kind == Pay:
		return Outcome{Class: Settled, Verdict: "paid"}
	case a.Status != http.StatusCreated:
		return Outcome{Class: Refused, Verdict: "sold_out"}
	}
	o := Outcome{Class: Accepted, Verdict: "taken"}
	if c.think > 0 {
		o.Next, o.After = &Step{Kind: Pay, Buyer: s.Buyer}, c.think
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ready[s.Buyer] = time.Since(c.zero) + c.think
	}
	return o
}

// world is a crowd and the shops it goes to.
type world struct {
	shops  []*shop
	script *script
	plan   []Visit
	opts   Options
	took   time.Duration // from the start to the end of the run
}

func newWorld(plan []Visit, says ...func(Step) (int, string)) *world {
	w := &world{plan: plan, script: &script{ready: make(map[int32]time.Duration)}, opts: Options{Connections: 10, Followers: 2, timers: true}}
	w.opts.Start = time.Now().Add(time.Second)
	w.script.zero = w.opts.Start
	for _, say := range says {
		s := newShop(say)
		s.zero = w.opts.Start
		w.shops = append(w.shops, s)
	}
	return w
}

// run carries the plan out in the present bubble and checks what holds for every record.
func (w *world) run(t *testing.T, ctx context.Context) *Record { //nolint:revive // the test comes first
	t.Helper()
	targets := make([]*wire.Target, len(w.shops))
	for i, s := range w.shops {
		targets[i] = s.target()
	}
	r, err := Run(ctx, targets, w.plan, w.script, w.opts)
	require.NoError(t, err)
	w.took = time.Since(r.Start)
	var dialed int
	for _, s := range w.shops {
		s.close(true)
		s.serving.Wait()
		dialed += s.dialed
	}
	require.Equal(t, int64(dialed), r.Dialed)
	var slots Slot
	var verdicts, byKind, answers, waits int64
	for i := range r.Slots {
		slots.Offered += r.Slots[i].Offered
		slots.Sent += r.Slots[i].Sent
		for class, n := range r.Slots[i].Answers {
			slots.Answers[class] += n
		}
		for _, n := range r.Slots[i].Verdicts {
			verdicts += n
		}
		for _, n := range r.Slots[i].Waits {
			waits += n
		}
	}
	for _, counts := range r.Verdicts {
		for _, n := range counts {
			byKind += n
		}
	}
	var buys int64
	for _, n := range r.Verdicts[Buy] {
		buys += n
	}
	require.Equal(t, buys, verdicts)
	require.Equal(t, buys, waits)
	for class, n := range slots.Answers {
		require.Equal(t, n, r.Waited[class].TotalCount())
		answers += n
	}
	require.Equal(t, byKind, answers)
	require.LessOrEqual(t, slots.Sent, answers)
	return r
}

// answers sums the answers of a class.
func answers(r *Record, class Class) int64 { return r.Waited[class].TotalCount() }

func within(r *Record, from, to time.Duration) (s Slot) {
	for i := range r.Slots {
		if at := r.First + time.Duration(i)*r.Slot; at >= from && at < to {
			s.Offered += r.Slots[i].Offered
			s.Sent += r.Slots[i].Sent
			for class, n := range r.Slots[i].Answers {
				s.Answers[class] += n
			}
		}
	}
	return s
}

// every is a plan of n buys at even distances.
func every(n int, d time.Duration) []Visit {
	plan := make([]Visit, n)
	for i := range plan {
		plan[i] = Visit{At: time.Duration(i) * d, Buyer: int32(i), Kind: Buy}
	}
	return plan
}
