package cases_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// The accident: Redis forgets its scripts, as after a restart or a fail-over, and what
// it answers is taken for "sold out", or for the end of the world.
// The right outcome: nobody notices. The scripts are sent again, and exactly the stock
// is sold.
func TestC42FleetScriptsAreForgottenAllTheTime(t *testing.T) {
	t.Parallel()
	s := common.site(t)
	const stock, buyers = 150, 300
	drop := s.named(drop)
	s.open(drop, stock, 1)
	ctx, done := context.WithCancel(t.Context())
	var forgetting sync.WaitGroup
	flushes := 0
	forgetting.Go(func() {
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			if s.fleet.Redis.Do(ctx, "SCRIPT", "FLUSH").Error() == nil {
				flushes++
			}
			<-again.C
		}
	})
	orders := make([]client.Order, buyers)
	got := codes(crowd(buyers, func(i int) error {
		bought, err := s.attempt(ctx, name("u", i), drop, "k", client.Attempt{Quantity: 1})
		orders[i] = bought.Order
		return err
	}))
	require.Equal(t, map[client.CodeError]int{"": stock, client.ErrSoldOut: buyers - stock}, got)
	for i, o := range orders {
		if i%2 == 0 && o.State == client.StateReserved { // returns are scripts, too
			_, err := s.admin().AdminCancel(t.Context(), o.ID)
			require.NoError(t, err)
		}
	}
	for i := range s.left(drop) {
		s.take(name("next", int(i)), drop, 1)
	}
	done()
	forgetting.Wait()
	require.Greater(t, flushes, 10)
	require.Equal(t, int64(stock), s.settled(drop).Reserved)
}
