package cases_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// clickAt sends a click to one instance, which answers before the judge does.
func (s *site) clickAt(g *gate, user, slug, key, body string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, *g.at.Load()+"/v1/sales/"+slug+"/orders", strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.token(user))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	return s.do(r)
}

// C12 while the first click is still queued, and C34 of its order: at every instance the
// same request is the same order, which can be read at once by its id alone; another one
// is refused, and another buyer's is his own.
func TestC12FleetKeyWhileTheFirstIsQueued(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	const stock, key = 20, "the-click"
	drop := s.named(drop)
	published := s.open(drop, stock, 3)
	back := s.sendAway()
	queued := make(map[string]string) // order by buyer
	for i, first := range s.gates {
		user := name("u", i)
		a := s.clickAt(first, user, drop, key, `{"item":"unit","quantity":1}`)
		require.Equal(t, http.StatusAccepted, a.status, a.body)
		require.Empty(t, a.header.Get("Idempotency-Replayed"))
		id := s.orderIn([]answer{a})
		for n, g := range s.gates {
			seen, err := g.as(s.token(user)).Order(t.Context(), id)
			require.NoError(t, err, "read at %d in the instant after it was answered at %d", n, i)
			require.Equal(t, client.StateQueued, seen.State)
		}
		queued[user] = id
		for n, g := range s.gates {
			again := s.clickAt(g, user, drop, key, `{"quantity":1,"item":"unit"}`)
			require.Equal(t, http.StatusAccepted, again.status, "%d: %s", n, again.body)
			require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
			require.Equal(t, id, s.orderIn([]answer{again}), "the same click, the same order")
			other := s.clickAt(g, user, drop, key, `{"item":"unit","quantity":2}`)
			require.Equal(t, http.StatusConflict, other.status, "%d: %s", n, other.body)
			require.Equal(t, "idempotency_mismatch", other.code)
		}
		foreign := name("v", i)
		a = s.clickAt(first, foreign, drop, key, `{"item":"unit","quantity":1}`)
		require.Equal(t, http.StatusAccepted, a.status, "another buyer is another matter: %s", a.body)
		queued[foreign] = s.orderIn([]answer{a})
		require.NotEqual(t, id, queued[foreign])
		for n, g := range s.gates {
			_, err := g.as(s.token(foreign)).Order(t.Context(), id)
			require.ErrorIs(t, err, client.ErrOrderNotFound, "a foreign order at %d", n)
		}
	}
	require.Equal(t, name("", stock-len(queued)), s.fleet.Redis.Must("HGET", s.fleet.lane(published, "meta"), "l0"), "nothing else was taken")
	require.Empty(t, s.ofSale(drop), "nobody has judged")
	back()
	for user, id := range queued {
		o := s.judged(user, client.Bought{Order: client.Order{ID: id, State: client.StateQueued}})
		require.Equal(t, client.StateReserved, o.State)
		require.Equal(t, id, o.ID)
		require.Equal(t, int64(1), o.Quantity)
	}
	require.Equal(t, int64(len(queued)), s.settled(drop).Reserved)
}

// C56 where the price changes over queued orders: they cost what the sale said when they
// were taken.
func TestC56FleetPriceChangesOverQueuedOrders(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	drop := s.named(drop)
	published := s.open(drop, 10, 3)
	back := s.sendAway()
	waiting, gone := s.queue("waiting", drop), s.queue("gone", drop)
	_, err := s.admin().PatchSale(t.Context(), drop, published.Version, client.SalePatch{Items: []client.ItemPatch{{SKU: "unit", Price: new(int64(1500))}}})
	require.NoError(t, err)
	_, err = s.as("gone").Cancel(t.Context(), gone.Order.ID)
	require.NoError(t, err)
	back()
	o := s.judged("waiting", waiting)
	require.Equal(t, client.StateReserved, o.State)
	require.Equal(t, int64(price), o.Amount, "taken at the old price")
	s.landed(drop)
	for _, user := range []string{"fresh", "gone", "waiting"} {
		require.Equal(t, int64(1500), s.take(user, drop, 1).Amount, "%s pays the present price", user)
	}
	dearer := charge(o, "new-price-"+o.ID)
	dearer.Amount = 1500
	require.Equal(t, "refund_required", s.report(o, dearer).Outcome, "the order costs what it cost")
	require.Equal(t, "paid", s.pay(o).Outcome)
	require.Equal(t, int64(3), s.settled(drop).Reserved)
}
