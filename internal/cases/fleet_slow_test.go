package cases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// C44 where every answer of the ledger takes a tenth of a second, so that there is much
// time between any two of its steps.
func TestC44FleetWithASlowLedger(t *testing.T) {
	t.Parallel()
	s := lines.site(t)
	const stock, buyers = 30, 120
	drop := s.named(drop)
	s.open(drop, stock, 1)
	for _, line := range lines.book {
		line.Delay(testenv.Replies, 100*time.Millisecond)
		t.Cleanup(line.Pass)
	}
	got := codes(crowd(buyers, func(i int) error {
		_, err := s.buy(name("u", i), drop, 1)
		return err
	}))
	require.Equal(t, map[client.CodeError]int{"": stock, client.ErrSoldOut: buyers - stock}, got)
	for _, line := range lines.book {
		line.Pass()
	}
	require.Equal(t, int64(stock), s.settled(drop).Reserved)
}

// C02 where nobody dies, but the ledger is silent for a while under a crowd: buyers are
// queued meanwhile, or told when to come again, and nobody is lost.
func TestC02FleetLedgerSilentForAWhile(t *testing.T) {
	t.Parallel()
	s := lines.site(t)
	drop := s.named(drop)
	published := s.fleet.open(drop, 40, 1, 2)
	th := s.fleet.throng(drop, 8)
	th.took(8)
	for _, line := range lines.book {
		line.Hold(testenv.Requests)
		t.Cleanup(line.Pass)
	}
	while := time.NewTimer(6 * time.Second)
	defer while.Stop()
	meta := s.fleet.lane(published, "meta")
	until(t, "buyers are queued", func() bool { return s.fleet.Redis.Must("HGET", meta, "queued") != "0" })
	<-while.C
	for _, line := range lines.book {
		line.Pass()
	}
	th.took(8)
	th.prove()
}
