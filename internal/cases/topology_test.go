package cases_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

func TestMain(m *testing.M) {
	m.Run()
	for _, one := range []*shared{&common, &halves, &lines} {
		one.end()
	}
}

// onBoth plays a case on the embedded default and on a fleet that other cases use at
// the same time: it must leave servers and stores alone.
func onBoth(t *testing.T, play func(*site)) {
	t.Helper()
	onEach(t, &common, play)
}

// onBothAlone does the same for a case that kills, stops or troubles servers.
func onBothAlone(t *testing.T, play func(*site)) {
	t.Helper()
	onEach(t, &lines, play)
}

func onEach(t *testing.T, on *shared, play func(*site)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		play(newSite(t))
	})
	t.Run("fleet", func(t *testing.T) {
		t.Parallel()
		play(on.site(t))
	})
}

// Fleets that cases share, since to start one takes longer than most cases do. They
// live until the end of the process, whoever was the first to need them: TestMain ends them.
var (
	// common is used by many at once.
	common = shared{}
	// halves has its worker apart, the first server, and little room for slips. One
	// case at a time has it to itself.
	halves = shared{
		turn: make(chan struct{}, 1), servers: []testenv.FleetServer{{Roles: "worker"}, {Roles: "gate"}, {Roles: "gate"}, {Roles: "gate"}},
		args: append(quick(), "--set", "fast.max_queued="+strconv.Itoa(fewSlips), "--set", "holds.sweep_batch=100"),
	}
	// lines has proxies in front of what each of its servers needs. One case at a time
	// has it to itself.
	lines = shared{turn: make(chan struct{}, 1), servers: make([]testenv.FleetServer, 3), proxied: true, args: quick()}
)

// fewSlips is how many slips a lane of halves takes.
const fewSlips = 100

// shared is a fleet that is started when it is first needed.
type shared struct {
	turn    chan struct{} // held by who has it to himself; nil where many use it
	servers []testenv.FleetServer
	proxied bool
	args    []string
	uses    atomic.Int64

	mu    sync.Mutex
	house *house
	fleet *testenv.Fleet
	// redis and book are what stands in front of Redis and ledger, by server.
	redis, book []*testenv.Proxy
}

// site returns the fleet as the harness of a case. A fleet of one case at a time is
// not used again after a case that failed.
func (h *shared) site(t *testing.T) *site {
	t.Helper()
	if h.turn != nil {
		h.turn <- struct{}{}
		t.Cleanup(func() {
			if t.Failed() {
				h.end()
			}
			<-h.turn
		})
	}
	servers, err := h.running()
	if err != nil {
		t.Fatalf("start a fleet: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range servers.Servers {
				t.Logf("server log:\n%s", s.Log())
			}
		}
	})
	s := siteOf(t, fleetOf(t, servers))
	s.stem = fmt.Sprintf("-%d", h.uses.Add(1))
	return s
}

// running returns the fleet, and starts it if it does not run.
func (h *shared) running() (f *testenv.Fleet, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fleet != nil {
		return h.fleet, nil
	}
	house := &house{}
	defer func() {
		if failed, is := recover().(failure); is {
			err = failed
		}
		if err != nil {
			house.end()
		}
	}()
	o := testenv.FleetOptions{
		Redis: testenv.Redis(house), Postgres: testenv.Postgres(house), Servers: append([]testenv.FleetServer{}, h.servers...),
		Args: h.args, Lasting: true,
	}
	h.redis, h.book = nil, nil
	for i := range o.Servers {
		if h.proxied {
			o.Servers[i].RedisBy, o.Servers[i].LedgerBy = testenv.NewProxy(house, o.Redis.Addr), testenv.NewProxy(house, o.Postgres.Addr())
			h.redis, h.book = append(h.redis, o.Servers[i].RedisBy), append(h.book, o.Servers[i].LedgerBy)
		}
	}
	if h.servers == nil {
		o.Servers = nil
	}
	f = testenv.ServeFleet(house, o)
	h.house, h.fleet = house, f
	return f, nil
}

// end ends the fleet; the next case gets a new one.
func (h *shared) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.house != nil {
		h.house.end()
	}
	h.house, h.fleet = nil, nil
}

// house stands for a test where what is started outlives the one that needed it.
type house struct {
	testing.TB // nil: nothing else of it may be called

	mu   sync.Mutex
	ends []func()
}

// failure is what a house panics with where a test would end.
type failure struct{ error }

// end undoes what was started, the last first.
func (h *house) end() {
	h.mu.Lock()
	ends := h.ends
	h.ends = nil
	h.mu.Unlock()
	for i := range ends {
		ends[len(ends)-1-i]()
	}
}

func (*house) Helper()                  {}
func (*house) Failed() bool             { return false }
func (*house) Context() context.Context { return context.Background() }
func (*house) Logf(string, ...any)      {}

func (h *house) Cleanup(end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = append(h.ends, end)
}

func (h *house) TempDir() string {
	dir, err := os.MkdirTemp("", "doorbuster-cases-*")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (*house) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (*house) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
func (*house) Fatal(args ...any)                 { panic(failure{errors.New(fmt.Sprint(args...))}) }
