package cases_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// load counts what was answered to buys.
type load struct{ sent, decided, busy, other atomic.Int64 }

func (l *load) count(status int, err error) {
	switch {
	case err == nil && (status == http.StatusCreated || status == http.StatusConflict):
		l.decided.Add(1)
	case err == nil && status == http.StatusServiceUnavailable:
		l.busy.Add(1)
	default:
		l.other.Add(1)
	}
}

// The accident: a crowd of buyers takes every place in the house, so that those
// who want to pay what they hold, or just look, are turned away with the rest.
// The right outcome: with three times as many buys offered as the server decides
// at its best, every look at the sale and every payment succeeds.
func TestOverloadLeavesDetailsAndPaymentsAlone(t *testing.T) {
	t.Parallel()
	// Few places make the machine of the test strong enough to flood them.
	s := newSite(t, "--set", "api.limits.buy.in_flight=4", "--set", "api.limits.buy.queue=16", "--set", "api.limits.buy.wait=100ms")
	s.open("held", 200, 1)
	s.open(drop, 1_000_000, 1_000_000)
	orders := s.takeAll("held", 200)
	token := s.token("crowd")
	buy := func(l *load) {
		l.sent.Add(1)
		a, err := s.send(token, http.MethodPost, "/v1/sales/drop/orders", `{"quantity":1}`, "Idempotency-Key", name("k", int(s.keys.Add(1))))
		l.count(a.status, err)
	}
	// At its best: a closed loop of as many buyers as there are places.
	var best load
	const span = time.Second
	began := time.Now()
	within(span, func(over *atomic.Bool) {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for !over.Load() {
					buy(&best)
				}
			})
		}
		wg.Wait()
	})
	rate := float64(best.decided.Load()) / time.Since(began).Seconds()
	require.Positive(t, rate)

	// Offered: three times that, whatever is answered, while others look and pay.
	var flood load
	var looks, payments atomic.Int64
	var failed sync.Map
	within(3*span, func(over *atomic.Bool) {
		var wg sync.WaitGroup
		wg.Go(func() { offer(over, 3*rate, func() { buy(&flood) }) })
		for i := range 4 {
			wg.Go(func() {
				for !over.Load() {
					a, err := s.send("", http.MethodGet, "/v1/sales/drop", "")
					if looks.Add(1); err != nil || a.status != http.StatusOK {
						failed.Store(name("look ", i), a.body)
					}
				}
			})
		}
		for payer := range 4 {
			wg.Go(func() {
				for i := payer; i < len(orders) && !over.Load(); i += 4 {
					o := orders[i]
					got, err := s.admin().Pay(t.Context(), o.ID, charge(o, "charge-"+o.ID))
					if payments.Add(1); err != nil || got.Outcome != "paid" {
						failed.Store("pay "+o.ID, got.Outcome)
					}
				}
			})
		}
		wg.Wait()
	})
	t.Logf("%.0f buys/s at its best; offered %d, decided %d, busy %d, other %d; %d looks, %d payments",
		rate, flood.sent.Load(), flood.decided.Load(), flood.busy.Load(), flood.other.Load(), looks.Load(), payments.Load())
	failed.Range(func(what, why any) bool {
		t.Errorf("%v failed: %v", what, why)
		return true
	})
	require.Zero(t, flood.other.Load(), "a buy is decided or told that the house is busy")
	require.Positive(t, flood.busy.Load(), "it was an overload")
	require.Positive(t, flood.decided.Load(), "and the house went on selling")
	require.Greater(t, looks.Load(), int64(10))
	require.Greater(t, payments.Load(), int64(10))
	s.settled(drop)
	s.settled("held")
}

// within runs work, which is over after d.
func within(d time.Duration, work func(over *atomic.Bool)) {
	var over atomic.Bool
	end := time.AfterFunc(d, func() { over.Store(true) })
	defer end.Stop()
	work(&over)
}

// offer calls do at a rate a second, each call on its own, so that slow answers
// do not slow the offers, and waits for the last.
func offer(over *atomic.Bool, rate float64, do func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for now := range tick.C {
		if over.Load() {
			return
		}
		for due := int(rate * now.Sub(began).Seconds()); sent < due; sent++ {
			wg.Go(do)
		}
	}
}
