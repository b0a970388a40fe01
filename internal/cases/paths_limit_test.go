package cases_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func wrong(format string, args ...any) error { return fmt.Errorf(format, args...) }

// codes counts the codes of answers; the empty code is a success.
func codes(errs []error) map[client.CodeError]int {
	out := make(map[client.CodeError]int)
	for _, err := range errs {
		if err == nil {
			out[""]++
		} else {
			out[client.CodeOf(err)]++
		}
	}
	return out
}

// marks returns what an attempt that takes anything changes: the figures of the counter,
// or of items and journal.
func (s *site) marks(slug string) string {
	s.t.Helper()
	found, err := s.admin().AdminSale(s.t.Context(), slug)
	require.NoError(s.t, err)
	if s.fleet != nil && (found.State == "closed" || found.Status == "ended") { // whose lane is cleared away soon
		return fmt.Sprint(found.Items)
	}
	if s.fleet == nil || found.Path != "fast" {
		rows, err := s.look().Rows(s.t.Context(), sale.Number(found.Number), 0, 1000)
		require.NoError(s.t, err)
		return fmt.Sprint(found.Items, len(rows))
	}
	meta := s.fleet.lane(found, "meta")
	return s.fleet.Redis.Must("HMGET", meta, "l0", "taken", "returned", "queued")
}

// C06 once more, over HTTP: no refusal at any instance costs a unit, be it for a moment.
func TestC06RefusalsCostNothingOverHTTP(t *testing.T) {
	t.Parallel()
	t.Run("limit", func(t *testing.T) {
		t.Parallel()
		onBoth(t, func(s *site) {
			t := s.t
			drop := s.named(drop)
			s.open(drop, 10, 1)
			s.take("u", drop, 1)
			got := codes(crowd(59, func(i int) error {
				user := "u"
				if i%6 == 5 { // nine others in between
					user = name("other", i)
				}
				_, err := s.buy(user, drop, 1)
				return err
			}))
			require.Equal(t, map[client.CodeError]int{"": 9, client.ErrLimitReached: 50}, got)
			require.Equal(t, int64(10), s.settled(drop).Reserved)
		})
	})
	t.Run("every refusal", func(t *testing.T) {
		t.Parallel()
		onBoth(t, func(s *site) {
			t := s.t
			for _, c := range kindsOfNo() {
				slug := s.named(c.slug)
				s.open(slug, 3, 2, c.shape)
				if c.prepare != nil {
					c.prepare(s, slug)
				}
				if c.code != client.ErrEnded { // its lane is cleared away soon
					s.landed(slug)
				}
				before := s.marks(slug)
				got := codes(crowd(20, func(int) error {
					again := time.NewTicker(5 * time.Millisecond)
					defer again.Stop()
					for { // a lane that is being cleared away is busy for a moment
						err := c.ask(s, slug)
						if client.CodeOf(err) != client.ErrBusy || t.Context().Err() != nil {
							return err
						}
						<-again.C
					}
				}))
				require.Equal(t, map[client.CodeError]int{c.code: 20}, got, c.slug)
				require.Equal(t, before, s.marks(slug), "%s leaves no trace", c.slug)
				s.audited(slug)
			}
		})
	})
}

// ask attempts to buy what is refused.
func (c *kindOfNo) ask(s *site, slug string) (err error) {
	user, key := "u", s.key()
	if c.code == client.ErrPassInvalid {
		_, err = s.as(user).BuyWith(s.t.Context(), slug, client.BuyOptions{Pass: &client.Pass{Text: "made-up"}}, c.attempt)
		return err
	}
	if c.code == client.ErrBanned {
		user = "banned" + s.stem
	}
	if c.code == client.ErrKeyMismatch {
		key = "same"
	}
	_, err = s.attempt(s.t.Context(), user, slug, key, c.attempt)
	return err
}

// banned lets every instance know that a buyer is banned. Until then he buys elsewhere.
func banned(s *site, slug string) {
	s.t.Helper()
	user, elsewhere := "banned"+s.stem, slug+"-elsewhere"
	s.open(elsewhere, 1000, 1000)
	_, err := s.admin().PutBan(s.t.Context(), client.NewListing{Kind: "user", Value: user, Effect: "deny", Reason: "test"})
	require.NoError(s.t, err)
	for _, g := range s.gates {
		until(s.t, "the instance knows who is banned", func() bool {
			_, err := g.as(s.token(user)).Buy(s.t.Context(), elsewhere, s.key(), client.Attempt{Quantity: 1})
			return client.CodeOf(err) == client.ErrBanned
		})
	}
}

// kindOfNo is a sale in which user u is refused for one reason.
type kindOfNo struct {
	slug    string
	shape   func(*client.NewSale)
	prepare func(*site, string)
	attempt client.Attempt
	code    client.CodeError
}

func kindsOfNo() []kindOfNo {
	as := func(*client.NewSale) {}
	one := client.Attempt{Quantity: 1}
	window := func(from, till time.Duration) func(*client.NewSale) {
		return func(n *client.NewSale) {
			n.StartsAt, n.EndsAt = instant(time.Now().Add(from)), instant(time.Now().Add(till))
		}
	}
	holds := func(user string, quantity int64) func(*site, string) {
		return func(s *site, slug string) { s.take(user, slug, quantity) }
	}
	act := func(do func(*client.Client, *site, string) error) func(*site, string) {
		return func(s *site, slug string) { s.t.Helper(); require.NoError(s.t, do(s.admin(), s, slug)) }
	}
	return []kindOfNo{
		{"not-started", window(time.Minute, time.Hour), nil, one, client.ErrNotStarted},
		{"ended", as, func(s *site, slug string) { s.t.Helper(); shuttings()[2].shut(s, slug) }, one, client.ErrEnded},
		{"banned", as, banned, one, client.ErrBanned},
		{"bad-pass", as, nil, one, client.ErrPassInvalid},
		{"paused", as, act(func(c *client.Client, s *site, slug string) error {
			_, err := c.Pause(s.t.Context(), slug)
			return err
		}), one, client.ErrPaused},
		{"closed", as, act(func(c *client.Client, s *site, slug string) error {
			_, err := c.CloseSale(s.t.Context(), slug)
			return err
		}), one, client.ErrClosed},
		{"over-limit", as, nil, client.Attempt{Quantity: 3}, client.ErrInvalidQuantity},
		{"no-item", as, nil, client.Attempt{Quantity: 1, SKU: "other"}, client.ErrItemNotFound},
		{"other-price", as, nil, client.Attempt{Quantity: 1, ExpectedAmount: new(int64(price - 1)), Currency: "EUR"}, client.ErrTermsChanged},
		{"other-currency", as, nil, client.Attempt{Quantity: 1, ExpectedAmount: new(int64(price)), Currency: "USD"}, client.ErrTermsChanged},
		{"limit", as, holds("u", 1), client.Attempt{Quantity: 2}, client.ErrLimitReached},
		{"insufficient", as, holds("v", 2), client.Attempt{Quantity: 2}, client.ErrInsufficient},
		{"sold-out", as, func(s *site, slug string) { s.take("v", slug, 2); s.take("w", slug, 1) }, one, client.ErrSoldOut},
		{"mismatch", as, func(s *site, slug string) {
			_, err := s.attempt(s.t.Context(), "u", slug, "same", one)
			require.NoError(s.t, err)
		}, client.Attempt{Quantity: 2}, client.ErrKeyMismatch},
		{"cool-down", func(n *client.NewSale) { n.MaxUnpaidHolds, n.CoolDownSeconds = new(int64(1)), new(int64(3600)) }, func(s *site, slug string) {
			_, err := s.as("u").Cancel(s.t.Context(), s.take("u", slug, 1).ID)
			require.NoError(s.t, err)
		}, one, client.ErrCoolDown},
	}
}

// C09 once more, over HTTP: a greedy buyer asks every instance at once.
func TestC09LimitHoldsAtEveryInstance(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		drop := s.named(drop)
		s.open(drop, 1000, 2, func(n *client.NewSale) {
			n.Items = append(n.Items, client.NewItem{SKU: "other", Price: price, Stock: 10})
		})
		buy := func(user, sku string, quantity int64) client.CodeError {
			bought, err := s.attempt(t.Context(), user, drop, s.key(), client.Attempt{SKU: sku, Quantity: quantity})
			if err == nil {
				require.Equal(t, "paid", s.pay(bought.Order).Outcome)
				return ""
			}
			return client.CodeOf(err)
		}
		require.Empty(t, buy("one-by-one", "unit", 1))
		require.Empty(t, buy("one-by-one", "unit", 1))
		require.Equal(t, client.ErrLimitReached, buy("one-by-one", "unit", 1), "paid units count")
		require.Empty(t, buy("pair", "unit", 2))
		require.Equal(t, client.ErrLimitReached, buy("pair", "unit", 1))
		require.Empty(t, buy("two-lines", "unit", 2))
		require.Equal(t, client.ErrLimitReached, buy("two-lines", "other", 1), "the limit is the sale's, not the item's")

		for round := range 20 {
			greedy, torn := name("greedy", round), name("torn", round)
			ask := func(user string, quantity int64) error {
				_, err := s.attempt(t.Context(), user, drop, s.key(), client.Attempt{SKU: "unit", Quantity: quantity})
				return err
			}
			got := codes(crowd(20, func(int) error { return ask(greedy, 1) }))
			require.Equal(t, map[client.CodeError]int{"": 2, client.ErrLimitReached: 18}, got)
			got = codes(crowd(2, func(i int) error { return ask(torn, int64(i+1)) }))
			require.Equal(t, map[client.CodeError]int{"": 1, client.ErrLimitReached: 1}, got, "1 or 2 units, never 3")
		}
		s.settled(drop)
	})
}

// C53 once more, over HTTP: both rules of the limit are kept in the counter, too.
func TestC53LimitAfterRefundOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		live, ever, loop := s.named("live"), s.named("ever"), s.named("loop")
		s.open(live, 5, 1)
		s.open(ever, 5, 1, func(n *client.NewSale) { n.LimitRule = "ever_paid" })
		s.open(loop, 5, 1, func(n *client.NewSale) { n.MaxUnpaidHolds, n.CoolDownSeconds = new(int64(2)), new(int64(600)) })
		for round := range 6 {
			for _, slug := range []string{live, ever} {
				s.landed(slug) // the refund of the round before, else a refusal says nothing
				if slug == ever && round > 0 {
					_, err := s.buy("u", slug, 1)
					require.ErrorIs(t, err, client.ErrLimitReached, "round %d", round)
					continue
				}
				o := s.take("u", slug, 1)
				require.Equal(t, "paid", s.pay(o).Outcome)
				_, err := s.admin().Refund(t.Context(), o.ID, refundToStock())
				require.NoError(t, err)
			}
		}
		_, err := s.as("never-paid").Cancel(t.Context(), s.take("never-paid", ever, 1).ID)
		require.NoError(t, err)
		s.take("never-paid", ever, 1) // what was never paid does not count for life

		taken := 0
		for range 40 {
			s.landed(loop)
			o, err := s.buy("u", loop, 1)
			if err != nil {
				require.ErrorIs(t, err, client.ErrCoolDown)
				continue
			}
			taken++
			_, err = s.as("u").Cancel(t.Context(), o.ID)
			require.NoError(t, err)
		}
		require.Equal(t, 2, taken, "cancel and rebuy is capped")
		for _, slug := range []string{live, ever, loop} {
			s.settled(slug)
		}
	})
}
