package cases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// The accident: the limit is checked after the stock went down, so each click of
// a buyer who has his share eats a unit that nobody gets any more.
// The right outcome: no refusal of any kind costs stock or leaves a trace.
func TestC06DuplicateCheckBeforeTheDecrement(t *testing.T) {
	t.Parallel()
	t.Run("limit", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(10, 1)
		s.take("u", 1)
		replies := crowd(59, func(i int) reply {
			if i%6 == 5 { // nine others in between
				return s.try(name("other", i), "k", 1)
			}
			return s.try("u", name("again", i), 1)
		})
		got := verdicts(t, replies)
		require.Equal(t, 9, got[sale.Taken], "every other buyer gets his unit")
		require.Equal(t, 50, got[sale.LimitReached])
		require.Equal(t, int64(10), s.settled().Reserved)
	})
	t.Run("every refusal", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		for _, c := range refusals() {
			at := s.at(c.slug)
			at.open(3, 2, c.shape)
			if c.prepare != nil {
				c.prepare(at)
			}
			left, rows := at.left(), len(at.rows(at.sale().Number))
			replies := crowd(20, func(int) reply {
				r := c.request
				r.Sale, r.User = at.slug, "u"
				if r.Key == "" {
					r.Key = at.key()
				}
				d, err := at.Buy(t.Context(), r)
				return reply{d, err}
			})
			require.Equal(t, map[sale.Verdict]int{c.want: 20}, verdicts(t, replies), c.slug)
			require.Equal(t, left, at.left(), c.slug)
			require.Len(t, at.rows(at.sale().Number), rows, "%s leaves no trace", c.slug)
			at.settled()
		}
	})
}

// kindOfRefusal is a sale in which user u is refused for one reason.
type kindOfRefusal struct {
	slug    string
	shape   func(*sale.Sale)
	prepare func(*shop)
	request engine.Request
	want    sale.Verdict
}

func refusals() []kindOfRefusal {
	as := func(*sale.Sale) {}
	one := engine.Request{Quantity: 1}
	act := func(a sale.Action) func(*shop) { return func(s *shop) { s.act(sale.Change{Action: a}) } }
	shift := func(by time.Duration) func(*sale.Sale) {
		return func(d *sale.Sale) { d.StartsAt, d.EndsAt = d.StartsAt.Add(by), d.EndsAt.Add(by) }
	}
	return []kindOfRefusal{
		{"not-started", shift(time.Hour), nil, one, sale.NotStarted},
		{"ended", shift(-time.Hour), nil, one, sale.Ended},
		{"paused", as, act(sale.ActionPause), one, sale.PausedNow},
		{"closed", as, act(sale.ActionClose), one, sale.ClosedNow},
		{"over-limit", as, nil, engine.Request{Quantity: 3}, sale.BadQuantity},
		{"no-item", as, nil, engine.Request{Quantity: 1, SKU: "other"}, sale.NoSuchItem},
		{"other-price", as, nil, engine.Request{Quantity: 1, Expected: &ledger.Money{Amount: price - 1, Currency: "EUR"}}, sale.TermsChanged},
		{"other-currency", as, nil, engine.Request{Quantity: 1, Expected: &ledger.Money{Amount: price, Currency: "USD"}}, sale.TermsChanged},
		{"limit", as, func(s *shop) { s.take("u", 1) }, engine.Request{Quantity: 2}, sale.LimitReached},
		{"insufficient", as, func(s *shop) { s.take("v", 2) }, engine.Request{Quantity: 2}, sale.Insufficient},
		{"sold-out", as, func(s *shop) { s.take("v", 2); s.take("w", 1) }, one, sale.SoldOut},
		{"mismatch", as, func(s *shop) { s.buy("u", "same", 1) }, engine.Request{Quantity: 2, Key: "same"}, sale.KeyMismatch},
		{"cool-down", func(d *sale.Sale) { d.MaxUnpaidHolds, d.CoolDown = 1, time.Hour }, func(s *shop) { s.cancel(s.take("u", 1)) }, one, sale.CoolDown},
	}
}

// The accident: the limit is counted per order, or over finished orders only, so
// it is passed by buying one by one or all at once.
// The right outcome: reserved and paid units of a buyer never exceed the limit.
func TestC09LimitCountsEverythingTheBuyerHolds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(1000, 2, func(d *sale.Sale) {
		d.Items = append(d.Items, sale.Item{SKU: "other", Stock: 10, Price: price})
	})
	buy := func(user, sku string, quantity int64) sale.Verdict {
		d, err := s.Buy(t.Context(), engine.Request{Sale: drop, User: user, Key: s.key(), SKU: sku, Quantity: quantity})
		require.NoError(t, err)
		if d.Verdict == sale.Taken {
			s.pay(notice(d.Order, s.key()))
		}
		return d.Verdict
	}
	require.Equal(t, sale.Taken, buy("one-by-one", "unit", 1))
	require.Equal(t, sale.Taken, buy("one-by-one", "unit", 1))
	require.Equal(t, sale.LimitReached, buy("one-by-one", "unit", 1), "paid units count")
	require.Equal(t, sale.Taken, buy("pair", "unit", 2))
	require.Equal(t, sale.LimitReached, buy("pair", "unit", 1))
	require.Equal(t, sale.Taken, buy("two-lines", "unit", 2))
	require.Equal(t, sale.LimitReached, buy("two-lines", "other", 1), "the limit is the sale's, not the item's")

	doors := []*engine.Engine{s.Engine, s.instance(0), s.instance(0)}
	ask := func(door int, user string, quantity int64) reply {
		d, err := doors[door%3].Buy(t.Context(), engine.Request{Sale: drop, User: user, Key: s.key(), SKU: "unit", Quantity: quantity})
		return reply{d, err}
	}
	for round := range 40 {
		greedy, torn := name("greedy", round), name("torn", round)
		got := verdicts(t, crowd(20, func(i int) reply { return ask(i, greedy, 1) }))
		require.Equal(t, map[sale.Verdict]int{sale.Taken: 2, sale.LimitReached: 18}, got)
		got = verdicts(t, crowd(2, func(i int) reply { return ask(i, torn, int64(i+1)) }))
		require.Equal(t, map[sale.Verdict]int{sale.Taken: 1, sale.LimitReached: 1}, got, "1 or 2 units, never 3")
	}
	s.settled()
}

// The accident: touching a hold again, or letting it go and taking it again,
// starts its clock anew, so that a script keeps all units for ever.
// The right outcome: a hold ends at its first deadline, and who lets too many go
// unpaid cools down, so that those who pay get the units.
func TestC29HoldsAreNotRenewed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(10, 1, func(d *sale.Sale) { d.Hold, d.MaxUnpaidHolds, d.CoolDown = 5*time.Second, 2, 10*time.Minute })
	held := make(map[sale.OrderID]time.Time)
	bot := func(i, second int) {
		user := name("bot", i)
		for _, key := range []string{"same", name("k", second)} {
			d := s.buy(user, key, 1)
			if d.Order.State != sale.Reserved {
				continue
			}
			if first, known := held[d.Order.ID]; known {
				require.Equal(t, first, d.Order.ExpiresAt, "the deadline never moves")
			}
			held[d.Order.ID] = d.Order.ExpiresAt
			failed := notice(d.Order, s.key()) // the payment is begun again and again
			failed.Status = sale.PaymentFailed
			require.Equal(t, held[d.Order.ID], s.pay(failed).Order.ExpiresAt)
			if i%3 == 0 { // cancel and rebuy at once
				s.cancel(d.Order)
				s.try(user, name("rebuy", second), 1)
			}
		}
	}
	for i := range 10 {
		bot(i, 0)
	}
	require.Zero(t, s.left(), "the bots were first")
	served := 0
	for second := 1; second <= 60; second++ {
		s.pass(time.Second)
		if second%4 == 0 {
			for i := range 10 {
				bot(i, second)
			}
		}
		for i := range 10 {
			if d := s.buy(name("honest", i), "k", 1); d.Verdict == sale.Taken {
				s.pay(notice(d.Order, s.key()))
				served++
			}
		}
	}
	require.Equal(t, 10, served, "who waits and pays is served within a minute")
	require.Equal(t, int64(10), s.settled().Paid)
}

// The accident: the limit looks at what the buyer holds now, so that refunding
// or cancelling opens it again and again where it should count for life.
// The right outcome: the sale says whether it counts what is held (live) or also
// what was once paid (ever_paid), and both are kept.
func TestC53LimitAfterRefundIsTheSalesRule(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	live, ever, loop := s.at("live"), s.at("ever"), s.at("loop")
	live.open(5, 1)
	ever.open(5, 1, func(d *sale.Sale) { d.LimitRule = sale.LimitEverPaid })
	loop.open(5, 1, func(d *sale.Sale) { d.MaxUnpaidHolds, d.CoolDown = 2, 10*time.Minute })
	for round := range 10 {
		for _, at := range []*shop{live, ever} {
			d := at.buy("u", name("round", round), 1)
			if at == ever && round > 0 {
				require.Equal(t, sale.LimitReached, d.Verdict, "round %d", round)
				continue
			}
			require.Equal(t, sale.Taken, d.Verdict, "round %d", round)
			at.pay(notice(d.Order, at.key()))
			_, err := at.Refund(t.Context(), d.Order.ID, true)
			require.NoError(t, err)
		}
	}
	require.Equal(t, sale.Taken, ever.buy("never-paid", "k", 1).Verdict)
	require.Equal(t, sale.Cancelled, ever.cancel(ever.buy("never-paid", "k", 1).Order).State)
	require.Equal(t, sale.Taken, ever.buy("never-paid", "k2", 1).Verdict, "what was never paid does not count for life")

	taken := 0
	for i := range 200 {
		if d := loop.buy("u", name("k", i), 1); d.Verdict == sale.Taken {
			taken++
			loop.cancel(d.Order)
		}
	}
	require.Equal(t, 2, taken, "cancel and rebuy is capped")
	for _, at := range []*shop{live, ever, loop} {
		at.settled()
	}
}
