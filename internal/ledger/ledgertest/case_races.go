package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// raceCases: many at once. The recount after each case replays the journal, so
// that a unit too many after any single row is seen.
func raceCases() []testCase {
	return []testCase{
		{name: "Race/one unit", run: raceOne},
		{name: "Race/a hundred units", run: raceHundred},
		{name: "Race/the same click", run: raceClick},
		{name: "Race/one user over his limit", run: raceLimit},
		{name: "Race/two and one at once", run: raceTwoAndOne},
		{name: "Race/cancel, pay and expire", run: raceEnds},
		{name: "Race/two charges", run: raceCharges},
		{name: "Race/a unit that came back", run: raceBack},
		{name: "Race/stock moves under the crowd", run: raceStock},
		{name: "Race/many sales, no deadlock", run: raceSales},
	}
}

func raceOne(t *testing.T, w *world) {
	for range 10 {
		s := w.open(t, stock(1))
		verdicts := make([]sale.Verdict, 16)
		together(t, len(verdicts), func(ctx context.Context, i int) error {
			r, err := w.tryOne(ctx, &s, click(s, fmt.Sprint("user-", i), "k", 1))
			verdicts[i] = r.Verdict
			return err
		})
		require.Equal(t, map[sale.Verdict]int{sale.Taken: 1, sale.SoldOut: 15}, tallied(verdicts))
		require.Zero(t, w.left(t, s))
	}
}

func tallied(verdicts []sale.Verdict) map[sale.Verdict]int {
	out := make(map[sale.Verdict]int)
	for _, v := range verdicts {
		out[v]++
	}
	return out
}

func raceHundred(t *testing.T, w *world) {
	s := w.open(t, stock(100))
	const callers, size = 20, 10
	verdicts := make([]sale.Verdict, callers*size)
	together(t, callers, func(ctx context.Context, i int) error {
		clicks := make([]ledger.Attempt, 0, size)
		for j := range size {
			clicks = append(clicks, click(s, fmt.Sprint("user-", i, "-", j), "k", 1))
		}
		out, err := w.ledger.Reserve(ctx, ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: clicks})
		for j := range out.Results {
			verdicts[i*size+j] = out.Results[j].Verdict
		}
		return err
	})
	require.Equal(t, map[sale.Verdict]int{sale.Taken: 100, sale.SoldOut: 100}, tallied(verdicts))
	require.Zero(t, w.left(t, s))
}

func raceClick(t *testing.T, w *world) {
	s := w.open(t, nil)
	results := make([]ledger.Result, 16)
	together(t, len(results), func(ctx context.Context, i int) error {
		var err error
		results[i], err = w.tryOne(ctx, &s, click(s, "ann", "k", 1))
		return err
	})
	taken := 0
	for _, r := range results {
		require.Equal(t, results[0].Order, r.Order)
		if r.Verdict == sale.Taken {
			taken++
		} else {
			require.Equal(t, sale.Replayed, r.Verdict)
		}
	}
	require.Equal(t, 1, taken)
	require.Equal(t, int64(9), w.left(t, s))
}

func raceLimit(t *testing.T, w *world) {
	s := w.open(t, stock(100))
	verdicts := make([]sale.Verdict, 20)
	together(t, len(verdicts), func(ctx context.Context, i int) error {
		r, err := w.tryOne(ctx, &s, click(s, "ann", strconv.Itoa(i), 1))
		verdicts[i] = r.Verdict
		return err
	})
	require.Equal(t, map[sale.Verdict]int{sale.Taken: 2, sale.LimitReached: 18}, tallied(verdicts))
	require.Equal(t, int64(98), w.left(t, s))
}

func raceTwoAndOne(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock = 1000 })
	for round := range 20 {
		user := fmt.Sprint("user-", round)
		verdicts := make([]sale.Verdict, 2)
		together(t, 2, func(ctx context.Context, i int) error {
			r, err := w.tryOne(ctx, &s, click(s, user, strconv.Itoa(i), int64(i+1)))
			verdicts[i] = r.Verdict
			return err
		})
		require.Equal(t, map[sale.Verdict]int{sale.Taken: 1, sale.LimitReached: 1}, tallied(verdicts))
	}
}

// raceEnds fires every end of a hold at once: exactly one wins.
func raceEnds(t *testing.T, w *world) {
	for round := range 10 {
		s := w.open(t, nil)
		o := w.take(t, s, "ann", "k", 2)
		w.Advance(time.Minute) // overdue: all three may win
		var mu sync.Mutex
		won := make(map[string]int)
		win := func(who string) {
			mu.Lock()
			defer mu.Unlock()
			won[who]++
		}
		together(t, 9, func(ctx context.Context, i int) error {
			switch i % 3 {
			case 0:
				after, err := w.ledger.Cancel(ctx, o.ID, "ann")
				if err == nil && after.State == sale.Cancelled {
					win("cancelled")
				}
				return allowed(err, sale.CodeIllegalState)
			case 1:
				n, err := w.ledger.Expire(ctx, []sale.OrderID{o.ID})
				if n == 1 {
					win("expired")
				}
				return err
			}
			// A charge that comes too late may bear a new order; it has not won this one.
			after, err := w.ledger.Pay(ctx, charge(o, fmt.Sprint("p", round, "-", i)))
			if after.Outcome == sale.OutcomePaid && after.Order.ID == o.ID {
				win("paid")
			}
			return err
		})
		end := w.order(t, o.ID)
		require.True(t, end.State.Final(), "%s", end.State)
		require.Equal(t, int64(2), end.Version, "one transition ended it")
		require.NotZero(t, won[string(end.State)])
		for who, n := range won {
			require.Equal(t, string(end.State), who, "%d calls believe otherwise", n)
		}
	}
}

func allowed(err error, code sale.Code) error {
	if err != nil && sale.CodeOf(err) == code {
		return nil
	}
	return err
}

func raceCharges(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock = 100 })
	for round := range 10 {
		o := w.take(t, s, fmt.Sprint("user-", round), "k", 1)
		outcomes := make([]sale.Outcome, 6)
		together(t, len(outcomes), func(ctx context.Context, i int) error {
			paid, err := w.ledger.Pay(ctx, charge(o, fmt.Sprint("p", round, "-", i%2)))
			outcomes[i] = paid.Outcome
			return err
		})
		count := make(map[sale.Outcome]int)
		for _, out := range outcomes {
			count[out]++
		}
		require.Equal(t, map[sale.Outcome]int{sale.OutcomePaid: 1, sale.OutcomeAlreadyPaid: 2, sale.OutcomeRefundRequired: 3}, count)
		require.Len(t, w.refunds(t, ""), round+1, "one refund record for the second charge, however often it is told")
	}
}

func raceBack(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock, s.PerUserLimit = 1, 1 })
	o := w.take(t, s, "first", "k", 1)
	for round := range 10 {
		verdicts := make([]sale.Verdict, 6)
		orders := make([]sale.Order, 6)
		together(t, 7, func(ctx context.Context, i int) error {
			if i == 6 {
				_, err := w.ledger.Cancel(ctx, o.ID, "")
				return err
			}
			r, err := w.tryOne(ctx, &s, click(s, fmt.Sprint("user-", round, "-", i), "k", 1))
			verdicts[i], orders[i] = r.Verdict, r.Order
			return err
		})
		count := tallied(verdicts)
		require.LessOrEqual(t, count[sale.Taken], 1)
		if count[sale.Taken] == 0 { // all came before the unit did
			o = w.take(t, s, fmt.Sprint("late-", round), "k", 1)
			continue
		}
		for i := range orders {
			if verdicts[i] == sale.Taken {
				o = orders[i]
			}
		}
	}
	require.Zero(t, w.left(t, s))
}

func raceStock(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock = 20 })
	var mu sync.Mutex
	total := int64(20)
	together(t, 24, func(ctx context.Context, i int) error {
		if i%4 != 0 {
			for j := range 4 {
				if _, err := w.tryOne(ctx, &s, click(s, fmt.Sprint("user-", i, "-", j), "k", 1)); err != nil {
					return err
				}
			}
			return nil
		}
		add := int64(i%8) - 3 // -3 or +1
		_, err := w.ledger.ChangeSale(ctx, s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: add}})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			total += add
		}
		return allowed(err, sale.CodeStockBelowSold)
	})
	now := w.read(t, s)
	require.Equal(t, total, now.Items[0].Stock, "the last accepted total")
	for i := range now.Items[0].Left() { // put up after the crowd had gone
		w.take(t, s, fmt.Sprint("late-", i), "k", 1)
	}
	w.refuse(t, s, click(s, "last", "k", 1), sale.SoldOut)
}

// raceSales mixes every act on several sales, users in any order. A deadlock
// would run into the deadline.
func raceSales(t *testing.T, w *world) {
	sales := make([]sale.Sale, 0, 4)
	for range 4 {
		sales = append(sales, w.open(t, func(s *sale.Sale) { s.Hold, s.PerUserLimit, s.Items[0].Stock = time.Second, 3, 30 }))
	}
	together(t, 8, func(ctx context.Context, i int) error {
		rnd := rand.New(rand.NewPCG(7, uint64(i))) //nolint:gosec // a test needs no secrets, and i is small
		for step := range 12 {
			s := &sales[rnd.IntN(len(sales))]
			if err := w.mixed(ctx, s, rnd, fmt.Sprint(i, "-", step)); err != nil {
				return err
			}
		}
		return nil
	})
}

// mixed does one of everything to a sale.
func (w *world) mixed(ctx context.Context, s *sale.Sale, rnd *rand.Rand, key string) error {
	clicks := make([]ledger.Attempt, 0, 4)
	for _, u := range rnd.Perm(8)[:4] {
		clicks = append(clicks, click(*s, fmt.Sprint("user-", u), key, 1))
	}
	out, err := w.ledger.Reserve(ctx, ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: clicks})
	if err != nil {
		return err
	}
	for i, r := range out.Results {
		if r.Verdict != sale.Taken {
			continue
		}
		switch rnd.IntN(4) {
		case 0:
			_, err = w.ledger.Cancel(ctx, r.Order.ID, r.Order.User)
		case 1:
			_, err = w.ledger.Pay(ctx, charge(r.Order, fmt.Sprint("p-", s.Number, "-", key, "-", i)))
		case 2:
			w.Advance(500 * time.Millisecond)
		}
		if allowed(err, sale.CodeIllegalState) != nil {
			return err
		}
	}
	due, err := w.ledger.Due(ctx, time.Time{}, 5)
	if err != nil {
		return err
	}
	for _, id := range due.IDs {
		if _, err = w.ledger.Expire(ctx, []sale.OrderID{id}); err != nil {
			return err
		}
	}
	_, err = w.ledger.ChangeSale(ctx, s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 1}})
	return err
}
