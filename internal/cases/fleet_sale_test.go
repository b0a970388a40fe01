package cases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// What is sold on one instance is sold on all: a crowd on three servers buys and
// pays exactly the stock, and all the others hear that it is sold out, at every
// gate.
func TestFleetSellsExactlyTheStockToACrowd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.FleetOptions{})
	sellToACrowd(t, f)
	unitsComeBack(t, f)
}

// The halves of the server run apart as well as together.
func TestFleetOfGatesAndWorkersApart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.FleetOptions{Servers: []testenv.FleetServer{{Roles: "worker"}, {Roles: "gate"}, {Roles: "gate"}, {Roles: "worker"}}})
	sellToACrowd(t, f)
}

func sellToACrowd(t *testing.T, f *fleet) {
	t.Helper()
	const stock, buyers = 100, 300
	f.open(drop, stock, 1, 600)
	all := crowd(buyers, func(i int) *shopper {
		s := &shopper{user: name("u", i)}
		s.click(t.Context(), f, drop)
		if s.reserved() {
			s.pay(t.Context(), f)
		}
		return s
	})
	paid := 0
	for _, s := range all {
		require.NoError(t, s.trouble)
		if s.want == "paid" {
			paid++
		} else {
			require.Equal(t, client.ErrSoldOut, s.refused, "%s was told %v", s.user, s.states)
		}
	}
	require.Equal(t, stock, paid)
	f.prove(drop, all)
}

// unitsComeBack requires that a unit which was given back at one gate, or whose
// hold is over, can be bought at each of the others within the bound.
func unitsComeBack(t *testing.T, f *fleet) {
	t.Helper()
	const slug = "second"
	f.open(slug, 1, 1, 600)
	free := time.Now()
	for i, g := range f.gates {
		held := soon(t, g.as(f.token(name("holder", i))), slug, free)
		for j, other := range f.gates { // all know that it is sold out
			_, err := other.as(f.token(name(name("hopeful", i)+"-", j))).Buy(t.Context(), slug, "k", client.Attempt{Quantity: 1})
			require.ErrorIs(t, err, client.ErrSoldOut)
		}
		_, err := f.anyGate().as(f.key).AdminCancel(t.Context(), held.Order.ID)
		require.NoError(t, err)
		free = time.Now()
	}
	f.audit(slug)

	const short = "short"
	f.open(short, int64(len(f.gates)), 1, 1)
	var last time.Time
	for i := range f.gates {
		s := &shopper{user: name("walks-away", i)}
		s.click(t.Context(), f, short)
		require.True(t, s.reserved(), "%v %v %v", s.states, s.refused, s.trouble)
		last = *s.order.ExpiresAt
	}
	for i, g := range f.gates {
		soon(t, g.as(f.token(name("next", i))), short, last)
	}
	f.audit(short)
}

// soon requires that a buyer who asks at a gate later than two seconds after a unit came
// back is not told that there is none, and returns what he gets.
func soon(t *testing.T, buyer *client.Client, slug string, free time.Time) (got client.Bought) {
	t.Helper()
	until(t, "the unit sells again", func() bool {
		asked := time.Now()
		var err error
		got, err = buyer.Buy(t.Context(), slug, "k", client.Attempt{Quantity: 1})
		if err != nil && !excused(err) {
			require.ErrorIs(t, err, client.ErrSoldOut)
			require.Less(t, asked.Sub(free), 2*time.Second, "the promise on units that come back")
		}
		return err == nil
	})
	return got
}

// C63, C32 and P5 together. The accident: a sale is closed and put away while buyers are
// queued in it and no worker is there; the worker that comes does not know the sale any
// more, its buyers are queued for ever, and its keys stay in Redis. The right outcome:
// they are judged before the sale goes, and nothing of it stays behind.
func TestC63FleetSaleIsPutAwayWithBuyersInItsQueue(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	drop := s.named(drop)
	published := s.open(drop, 5, 1)
	back := s.sendAway()
	users := []string{"u", "v", "w"}
	queued := make([]client.Bought, len(users))
	for i, user := range users {
		queued[i] = s.queue(user, drop)
	}
	closed, err := s.admin().CloseSale(t.Context(), drop)
	require.NoError(t, err)
	require.ErrorIs(t, s.admin().DeleteSale(t.Context(), drop, closed.Version), client.ErrIllegalState, "they hold what they took before it was closed")
	require.Empty(t, s.fleet.places(published, "*"))
	for i, user := range users {
		o, err := s.as(user).Cancel(t.Context(), queued[i].Order.ID)
		require.NoError(t, err)
		require.Equal(t, client.StateCancelled, o.State)
	}
	require.NoError(t, s.admin().DeleteSale(t.Context(), drop, closed.Version))
	back()
	for i, user := range users {
		require.Equal(t, client.StateCancelled, s.judged(user, queued[i]).State)
	}
	require.Empty(t, s.fleet.places(published, "*"))
}
