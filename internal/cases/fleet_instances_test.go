package cases_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// quick lets a worker's slips be taken over soon, so that tests need not wait long.
func quick() []string { return []string{"--set", "fast.take_over=1s"} }

// The accident: a deployment drops what was accepted, or turns buyers away.
// The right outcome: each instance in turn ends in order and comes back while the
// crowd buys at the others.
func TestFleetRollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.FleetOptions{})
	f.open(drop, 120, 1, 2)
	th := f.throng(drop, 16)
	for _, g := range f.gates {
		th.served(40)
		require.Zero(t, g.Stop(), "an orderly stop under load")
		th.served(20)
		g.revive(t)
	}
	th.prove()
}

// The accident: a worker that was stopped in the middle of a batch wakes up after
// another one has judged its slips, and judges them a second time.
// The right outcome: the sleeper's slips are judged by another worker meanwhile,
// and its awakening changes nothing.
func TestFleetWorkerWakesUpAfterItsSlipsWereTakenOver(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	slow := testenv.NewProxy(t, pg.Addr())
	f := newFleet(t, testenv.FleetOptions{
		Postgres: pg, Args: quick(),
		Servers: []testenv.FleetServer{{}, {}, {Roles: "worker", LedgerBy: slow}},
	})
	sleeper := f.Servers[2]
	s := f.open(drop, 120, 1, 2)
	th := f.throng(drop, 16)
	th.took(5)
	until(t, "the worker is at the lane", func() bool { return f.judges(s, sleeper) })
	<-slow.Hold(testenv.Requests) // it can claim, and not judge
	until(t, "the worker has slips that it cannot judge", func() bool { return f.claimed(s, sleeper) > 0 })
	require.NoError(t, sleeper.Signal(syscall.SIGSTOP))
	until(t, "others have taken its slips over", func() bool { return f.claimed(s, sleeper) == 0 })
	th.took(5)
	require.NoError(t, sleeper.Signal(syscall.SIGCONT))
	slow.Pass()
	th.took(5)
	th.prove()
}

// judges reports whether a worker has been at the tray since it was started.
func (f *fleet) judges(s client.AdminSale, worker *testenv.Server) bool {
	f.t.Helper()
	return strings.Contains(f.Redis.Must("XINFO", "CONSUMERS", f.lane(s, "tray"), "judge"), fmt.Sprintf("-%d-", worker.Pid()))
}

// claimed counts the entries of the tray that a worker has claimed and not done.
func (f *fleet) claimed(s client.AdminSale, worker *testenv.Server) (entries int) {
	f.t.Helper()
	tray, start := f.lane(s, "tray"), "-"
	for start != "" {
		lines := strings.Split(f.Redis.Must("XPENDING", tray, "judge", start, "+", "100"), "\n")
		start = ""
		for i := 0; i+3 < len(lines); i += 4 { // id, consumer, idle time, deliveries
			if strings.Contains(lines[i+1], fmt.Sprintf("-%d-", worker.Pid())) {
				entries++
			}
			start = "(" + lines[i]
		}
	}
	return entries
}

// The accident: the judges are away, and what buyers took meanwhile is forgotten,
// sold twice or never judged.
// The right outcome: buyers are told queued until the stock is gone and sold out
// from then on; when the workers are back every queued order becomes reserved.
func TestFleetWorkersAwayWhileBuyersBuy(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.FleetOptions{Servers: []testenv.FleetServer{{Roles: "worker"}, {Roles: "gate"}, {Roles: "gate"}, {Roles: "worker"}}})
	const stock = 50
	s := f.open(drop, stock, 1, 600)
	workers := []*testenv.Server{f.Servers[0], f.Servers[3]}
	for _, w := range workers {
		require.Zero(t, w.Stop())
	}
	buyers := f.lineUp(s, stock)
	for i, g := range f.gates {
		_, err := g.as(f.token(name("late", i))).Buy(t.Context(), drop, "k", client.Attempt{Quantity: 1})
		require.ErrorIs(t, err, client.ErrSoldOut)
	}
	require.Empty(t, f.orders(drop), "nobody has judged")
	for _, w := range workers {
		w.Start()
	}
	f.serve(drop, buyers())
}

// lineUp lets buyers buy a unit each while no worker is there, and returns how to
// wait until each has heard what became of his order.
func (f *fleet) lineUp(s client.AdminSale, buyers int) (wait func() []*shopper) {
	f.t.Helper()
	done := make(chan []*shopper, 1)
	go func() {
		done <- crowd(buyers, func(i int) *shopper {
			one := &shopper{user: name("queuing", i)}
			one.click(f.t.Context(), f, s.ID)
			return one
		})
	}()
	meta := f.lane(s, "meta")
	until(f.t, "every buyer is queued", func() bool { return f.Redis.Must("HGET", meta, "queued") == name("", buyers) })
	return func() []*shopper { return <-done }
}

// serve requires that all who have queued have got what they were promised, and
// lets them pay.
func (f *fleet) serve(slug string, all []*shopper) {
	f.t.Helper()
	for _, one := range all {
		require.True(f.t, one.reserved(), "%s was told %v: %v", one.user, one.states, one.trouble)
		one.pay(f.t.Context(), f)
	}
	f.prove(slug, all)
}
