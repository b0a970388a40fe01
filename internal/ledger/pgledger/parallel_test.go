package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// together runs n at once and returns their errors.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// recount proves the promises of a sale in one snapshot.
func recount(t *testing.T, s ledger.Store, n sale.Number) {
	t.Helper()
	require.NoError(t, s.Snapshot(t.Context(), func(r ledger.Reader) error {
		found, err := ledgertest.Recount(t.Context(), r, n)
		require.Empty(t, found)
		return err
	}))
}

// TestInstances: three instances sell, cancel, take payments and sweep at once on
// one database: every unit is sold once.
func TestInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const instances, stock, rounds, size = 3, 120, 8, 10
	books := make([]*ledger.Book, instances)
	for i := range books {
		o := w.options()
		o.BeforeStatement, o.MaxConns = nil, 3
		books[i] = w.book(t, o)
	}
	s := w.publish(t, books[0], "drop", stock)
	sell := func(i int) error {
		book := books[i%instances]
		for round := range rounds {
			users := make([]string, size)
			for j := range users {
				users[j] = fmt.Sprintf("%d-%d-%d", i, round, j)
			}
			out, err := book.Reserve(t.Context(), clicks(s, "k", users...))
			if err != nil {
				return err
			}
			for j, r := range out.Results {
				if r.Verdict != sale.Taken {
					continue
				}
				if j%2 == 0 {
					_, err = book.Cancel(t.Context(), r.Order.ID, "")
				} else {
					_, err = books[(i+1)%instances].Pay(t.Context(), sale.Payment{
						ID: "p-" + users[j], Order: r.Order.ID, Status: sale.PaymentSucceeded, Amount: r.Order.Amount, Currency: "EUR",
					})
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	require.NoError(t, together(2*instances, sell))
	// Units that came back when the crowd had gone are there for whoever asks next.
	for i := 0; ; i++ {
		out, err := books[1].Reserve(t.Context(), clicks(s, "k", "late-"+strconv.Itoa(i)))
		require.NoError(t, err)
		if out.Results[0].Verdict == sale.SoldOut {
			break
		}
		_, err = books[2].Pay(t.Context(), sale.Payment{
			ID: "p-late-" + strconv.Itoa(i), Order: out.Results[0].Order.ID, Status: sale.PaymentSucceeded, Amount: 4990, Currency: "EUR",
		})
		require.NoError(t, err)
	}
	paid, err := books[2].ListOrders(t.Context(), ledger.OrderFilter{Sale: s.Number, State: sale.Paid, Limit: 1000})
	require.NoError(t, err)
	require.Len(t, paid, stock)
	store := w.open(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	recount(t, store, s.Number)
}

// TestSweepersSideBySide: who looks for overdue holds passes over those that
// another one is ending, and each hold ends once.
func TestSweepersSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.open(t)
	one := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, one.Close()) })
	two := w.book(t, w.options())
	const holds = 60
	sales := make([]sale.Sale, 0, 3)
	for i := range cap(sales) {
		s := w.publish(t, one, "drop-"+strconv.Itoa(i), holds)
		users := make([]string, holds)
		for j := range users {
			users[j] = "user-" + strconv.Itoa(j)
		}
		take(t, one, s, users...)
		sales = append(sales, s)
	}
	w.clock.Add(time.Minute.Milliseconds())
	require.NoError(t, store.Update(t.Context(), func(tx ledger.Tx) error {
		if _, err := tx.LockSale(t.Context(), sales[0].Number); err != nil {
			return err
		}
		ids := make([]sale.OrderID, holds)
		for i := range ids {
			ids[i] = sales[0].OrderID("user-"+strconv.Itoa(i), "k")
		}
		found, err := tx.OrdersByID(t.Context(), ids)
		require.Len(t, found, holds)
		due, dueErr := two.Due(t.Context(), time.Time{}, 1000)
		require.NoError(t, dueErr)
		require.Len(t, due.IDs, 2*holds)
		for _, id := range due.IDs {
			require.NotEqual(t, sales[0].Number, id.Sale(), "somebody is at it")
		}
		return err
	}))
	var ended [2]int
	books := [2]*ledger.Book{one, two}
	require.NoError(t, together(2, func(i int) error {
		for {
			due, err := books[i].Due(t.Context(), time.Time{}, 7)
			if err != nil || len(due.IDs) == 0 {
				return err
			}
			bySale := make(map[sale.Number][]sale.OrderID)
			for _, id := range due.IDs {
				bySale[id.Sale()] = append(bySale[id.Sale()], id)
			}
			for _, ids := range bySale {
				n, err := books[i].Expire(t.Context(), ids)
				if err != nil {
					return err
				}
				ended[i] += n
			}
		}
	}))
	// Whoever came last may have been passed over by the other one's last look.
	due, err := one.Due(t.Context(), time.Time{}, 1000)
	require.NoError(t, err)
	require.Equal(t, 3*holds, ended[0]+ended[1]+len(due.IDs))
	for _, s := range sales {
		recount(t, store, s.Number)
	}
}

// TestOneChargeForTwoSales: the id of a payment is one for the whole ledger.
func TestOneChargeForTwoSales(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.book(t, w.options()), w.book(t, w.options())
	a, b := w.publish(t, one, "a", 50), w.publish(t, one, "b", 50)
	for i := range 10 {
		user := "user-" + strconv.Itoa(i)
		orders := []sale.Order{take(t, one, a, user)[0], take(t, two, b, user)[0]}
		pay := func(n int) error {
			_, err := []*ledger.Book{one, two}[n].Pay(t.Context(), sale.Payment{
				ID: "charge-" + user, Order: orders[n].ID, Status: sale.PaymentSucceeded, Amount: 4990, Currency: "EUR",
			})
			return err
		}
		errs := make([]error, 2)
		require.NoError(t, together(2, func(n int) error {
			errs[n] = pay(n)
			return nil
		}))
		require.NotEqual(t, errs[0] == nil, errs[1] == nil, "one of them: %v", errs)
		for n := range 2 {
			if errs[n] != nil {
				require.Equal(t, sale.CodePaymentMismatch, sale.CodeOf(pay(n)), "the repetition is told why")
			}
		}
	}
	require.Equal(t, int64(10), ask[int64](t, w, "SELECT count(*) FROM orders WHERE state = 'paid'"))
}

// listeners waits until n connections listen, and returns their processes.
func (w *world) listeners(t *testing.T, n int) (pids []int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		pids = ask[[]int64](t, w, `SELECT coalesce(array_agg(pid::bigint), '{}') FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'`)
		return len(pids) == n
	}, 30*time.Second, 10*time.Millisecond)
	return pids
}

// TestWatchHearsOtherInstances: each row is told once to every watcher, whoever has
// committed it, also by connections made anew after the first were lost.
func TestWatchHearsOtherInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	books := []*ledger.Book{w.book(t, w.options()), w.book(t, w.options())}
	heard := []chan ledger.Entry{make(chan ledger.Entry, 5000), make(chan ledger.Entry, 5000)}
	for i, book := range books {
		t.Cleanup(book.Watch(func(rows []ledger.Entry) {
			for _, e := range rows {
				heard[i] <- e
			}
		}))
	}
	next := make(map[sale.Number]uint64)
	same := func(n int) {
		t.Helper()
		for range n {
			own, other := receive(t, heard[0]), receive(t, heard[1])
			require.Equal(t, own, other)
			next[own.Sale]++
			require.Equal(t, next[own.Sale], own.Seq)
		}
	}
	first := w.listeners(t, 2)
	s := w.publish(t, books[0], "drop", sale.MaxInteger)
	same(2)
	crowd := make([]string, 1500) // more than a page of rows
	for i := range crowd {
		crowd[i] = "user-" + strconv.Itoa(i)
	}
	take(t, books[1], s, crowd...)
	same(len(crowd))

	w.sql(t, "SELECT pg_terminate_backend(p) FROM unnest($1::int[]) p", first)
	require.Eventually(t, func() bool {
		again := w.listeners(t, 2)
		return again[0] != first[0] && again[0] != first[1] && again[1] != first[0] && again[1] != first[1]
	}, 30*time.Second, 10*time.Millisecond)
	take(t, books[0], s, "late")
	same(1)
	// What is said by nobody of ours is not understood.
	for _, payload := range []string{"", "x", "1 2 3", "1 3 2 me", "-1 1 2 me", "4294967296 0 1 me"} {
		w.sql(t, "SELECT pg_notify('doorbuster.public', $1)", payload)
	}
	_, err := books[1].Cancel(t.Context(), s.OrderID("late", "k"), "")
	require.NoError(t, err)
	same(1)
	require.Empty(t, heard[0])
	require.Empty(t, heard[1])
}

func receive(t *testing.T, from <-chan ledger.Entry) ledger.Entry {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	select {
	case e := <-from:
		return e
	case <-limit.C:
		require.FailNow(t, "nothing was heard")
		return ledger.Entry{}
	}
}

// TestListenEnds: with its context, and with its store.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	listen := func(ctx context.Context) { ended <- s.Listen(ctx, func(ledger.Span) {}) }
	go listen(ctx)
	w.listeners(t, 1)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	go listen(t.Context())
	w.listeners(t, 1)
	require.NoError(t, s.Close())
	require.ErrorContains(t, <-ended, "closed")
	require.NoError(t, s.Close())
	require.ErrorContains(t, s.Update(t.Context(), func(ledger.Tx) error { return nil }), "closed")
	_, err := s.Read().SaleNumbers(t.Context())
	require.ErrorContains(t, err, "closed")
	_, err = pgledger.Open(t.Context(), pgledger.Options{URL: w.url, MaxConns: 1})
	require.ErrorContains(t, err, "connections")
}
