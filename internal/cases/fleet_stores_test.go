package cases_test

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts so
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// The accident: Redis has taken a unit and its answer is lost; the buyer tries
// again and has two, or the unit is nobody's.
// The right outcome: the same click finds what it took, claimed slips are judged
// all the same, and nothing is counted twice.
func TestFleetRepliesOfRedisGetLost(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	line := testenv.NewProxy(t, redis.Addr)
	f := newFleet(t, testenv.FleetOptions{
		Redis: redis, Args: quick(), Servers: []testenv.FleetServer{{RedisBy: line}, {RedisBy: line}, {RedisBy: line}},
	})
	f.open(drop, 120, 1, 2)
	th := f.throng(drop, 16)
	const claim, anything = "XREADGROUP", ""
	for _, match := range []string{script(t, "take"), script(t, "acts"), script(t, "done"), claim, anything} {
		for range 3 {
			th.served(5)
			lost(t, line, match)
		}
	}
	th.prove()
}

// The accident: the ledger has judged, or booked a payment, and its answer is
// lost; it is judged or booked again, or the buyer is told that it failed.
// The right outcome: what was committed is found by who repeats it.
func TestFleetRepliesOfPostgresGetLost(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	line := testenv.NewProxy(t, pg.Addr())
	f := newFleet(t, testenv.FleetOptions{
		Postgres: pg, Args: quick(), Servers: []testenv.FleetServer{{LedgerBy: line}, {LedgerBy: line}, {LedgerBy: line}},
	})
	f.open(drop, 120, 1, 2)
	th := f.throng(drop, 16)
	const anything = ""
	for _, state := range []sale.OrderState{sale.Reserved, sale.Cancelled, sale.Expired, sale.Paid} {
		for range 2 {
			th.served(5)
			lost(t, line, string(ledger.OrderKind(state))) // the answer to a commit
			lost(t, line, anything)
		}
	}
	th.prove()
}

// script returns the name under which Redis is asked to run a script.
func script(t *testing.T, name string) string {
	t.Helper()
	source, err := os.ReadFile("../stock/redisstock/lua/" + name + ".lua")
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha1.Sum(source)) //nolint:gosec // Redis names scripts so
}

// lost waits until the reply to one request with the bytes of match has got lost.
func lost(t *testing.T, line *testenv.Proxy, match string) {
	t.Helper()
	seen := line.Lose(testenv.Replies, 1, match)
	until(t, "the reply to "+match+" is lost", func() bool {
		select {
		case <-seen:
			return true
		default:
			return false
		}
	})
}

// The accident: Redis dies in the crowd and comes back with what its file holds;
// what it forgot is sold again, or those who hold a receipt get nothing.
// The right outcome: buyers hear that it is busy for a moment, and everybody who
// was promised something has it.
func TestFleetRedisKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.FleetOptions{Args: quick()})
	f.open(drop, 120, 1, 2)
	th := f.throng(drop, 16)
	for range 3 {
		th.took(8)
		f.Redis.Kill()
		f.Redis.Start()
	}
	th.took(1)
	th.prove()
}

// The accident: Redis comes back with nothing, and so does the shop: it sells what
// is sold already, or nothing any more.
// The right outcome: the lane is built again from the ledger, and who was queued
// is judged by his receipt.
func TestFleetRedisLosesEverything(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.FleetOptions{Args: quick()})
	f.open(drop, 120, 1, 2)
	th := f.throng(drop, 16)
	for range 2 {
		th.took(8)
		f.Redis.Kill()
		require.NoError(t, os.RemoveAll(filepath.Join(f.Redis.Dir, "appendonlydir")))
		f.Redis.Start()
		th.took(1)
	}
	th.prove()
}

// The accident: the ledger dies in the crowd, and what waits for its judgement
// then is lost or judged twice.
// The right outcome: buyers are queued meanwhile and judged when it is back.
func TestFleetPostgresKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.FleetOptions{Postgres: testenv.OwnPostgres(t), Args: quick()})
	f.open(drop, 120, 1, 2)
	th := f.throng(drop, 16)
	for range 2 {
		th.took(8)
		f.Postgres.Kill()
		f.Postgres.Start()
	}
	th.took(1)
	th.prove()
}
