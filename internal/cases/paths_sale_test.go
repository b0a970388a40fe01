package cases_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// shutting is a way in which a sale stops to sell.
type shutting struct {
	slug  string
	shut  func(*site, string)
	fresh client.CodeError // what a fresh attempt is told
}

func shuttings() []shutting {
	end := func(s *site, slug string) {
		s.t.Helper()
		found, err := s.admin().AdminSale(s.t.Context(), slug)
		require.NoError(s.t, err)
		ends := time.Now().Add(300 * time.Millisecond)
		_, err = s.admin().PatchSale(s.t.Context(), slug, found.Version, client.SalePatch{EndsAt: new(instant(ends))})
		require.NoError(s.t, err)
		until(s.t, "the sale has ended", func() bool {
			seen, err := s.admin().AdminSale(s.t.Context(), slug)
			require.NoError(s.t, err)
			return seen.Status == "ended" && time.Since(ends) > apart
		})
	}
	pause := func(s *site, slug string) {
		s.t.Helper()
		_, err := s.admin().Pause(s.t.Context(), slug)
		require.NoError(s.t, err)
	}
	shut := func(s *site, slug string) {
		s.t.Helper()
		_, err := s.admin().CloseSale(s.t.Context(), slug)
		require.NoError(s.t, err)
	}
	return []shutting{{"paused", pause, client.ErrPaused}, {"closed", shut, client.ErrClosed}, {"ended", end, client.ErrEnded}}
}

// apart is more than the clocks of the lane, the ledger and an instance can be, as each
// of them knows the others.
const apart = 200 * time.Millisecond

// C32 once more, over HTTP: the same table at every instance.
func TestC32OneRuleOnEveryPathOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		for _, c := range shuttings() {
			slug := s.named(c.slug)
			s.open(slug, 10, 2)
			click := func(g *gate, user, key string) (client.Order, bool, error) {
				bought, err := g.as(s.token(user)).BuyWith(t.Context(), slug, client.BuyOptions{Key: key, Wait: hear}, client.Attempt{Quantity: 1})
				return bought.Order, bought.Replayed, err
			}
			one := func(user string) client.Order {
				o, _, err := click(s.gate(), user, "k")
				require.NoError(t, err)
				return o
			}
			reserved, toCancel, late, done := one("pays"), one("cancels"), one("late"), one("done")
			_, err := s.as("late").Cancel(t.Context(), late.ID)
			require.NoError(t, err)
			require.Equal(t, "paid", s.pay(done).Outcome)
			c.shut(s, slug)

			for i, g := range s.gates {
				_, _, err = click(g, name("fresh", i), "k")
				require.ErrorIs(t, err, c.fresh, "%s, a fresh attempt at %d", c.slug, i)
				again, replayed, repeatErr := click(g, "done", "k")
				require.NoError(t, repeatErr, "%s, a repeat at %d", c.slug, i)
				require.True(t, replayed)
				require.Equal(t, done.ID, again.ID)
				require.Equal(t, client.StatePaid, again.State)
			}
			require.Equal(t, "refund_required", s.pay(late).Outcome, c.slug)
			require.Equal(t, "paid", s.pay(reserved).Outcome, c.slug)
			ended, err := s.as("cancels").Cancel(t.Context(), toCancel.ID)
			require.NoError(t, err)
			require.Equal(t, client.StateCancelled, ended.State, c.slug)
			if c.slug == "paused" {
				_, err = s.admin().Resume(t.Context(), slug)
				require.NoError(t, err)
				require.Len(t, s.ofSale(slug), 4, "a resume does nothing else")
				until(t, "buyers buy again", func() bool { // lanes may hear of it a moment later
					_, _, err := click(s.gate(), "fresh", "after")
					return err == nil
				})
				s.settled(slug)
			}
			require.Equal(t, int64(2), s.audited(slug).Paid)
		}
	})
}

// ofSale returns the orders of a sale.
func (s *site) ofSale(slug string) (found []client.Order) {
	s.t.Helper()
	for o, err := range client.All(func(after string) (client.Page[client.Order], error) {
		return s.admin().AdminOrders(s.t.Context(), client.OrderQuery{Sale: slug, After: after, Limit: 500})
	}) {
		require.NoError(s.t, err)
		found = append(found, o)
	}
	return found
}

// C63 once more, over HTTP: a sale that has the name of a deleted one is another sale,
// with a counter of its own.
func TestC63RecreatedSaleInheritsNothingOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		drop := s.named(drop)
		old := make([]client.Order, 0, 6)
		numbers := make(map[uint32]bool)
		for round := range 3 {
			published := s.open(drop, 2, 1, hold(2))
			require.False(t, numbers[published.Number], "numbers are never used again")
			numbers[published.Number] = true
			for i, before := range old { // late notices and ends of the rounds before
				late := s.report(before, charge(before, name("late-", 10*round+i)+before.ID))
				require.Equal(t, "refund_required", late.Outcome)
				_, _ = s.as([]string{"u", "v"}[i%2]).Cancel(t.Context(), before.ID)
			}
			require.Equal(t, int64(2), s.left(drop))
			buy := func(user string) client.Order {
				bought, err := s.attempt(t.Context(), user, drop, "same-key", client.Attempt{Quantity: 1})
				require.NoError(t, err)
				require.False(t, bought.Replayed, "limits and clicks begin anew")
				return bought.Order
			}
			paid, open := buy("u"), buy("v")
			require.Equal(t, "paid", s.pay(paid).Outcome)
			s.settled(drop)

			closed, err := s.admin().CloseSale(t.Context(), drop)
			require.NoError(t, err)
			require.ErrorIs(t, s.admin().DeleteSale(t.Context(), drop, closed.Version), client.ErrIllegalState, "a hold waits")
			s.over(open)
			require.NoError(t, s.admin().DeleteSale(t.Context(), drop, closed.Version))
			require.Equal(t, http.StatusNotFound, s.call(s.AdminKey(), http.MethodGet, "/v1/admin/sales/"+drop, "").status)
			_, err = s.buy("w", drop, 1)
			require.ErrorIs(t, err, client.ErrSaleNotFound)
			old = append(old, paid, open)
		}
		s.open(drop, 1, 1)
		s.settled(drop)
	})
}
