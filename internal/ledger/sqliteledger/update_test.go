package sqliteledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// TestContextEndsAtEveryStatement ends the context before the first, second, …
// statement of a transaction: all of it is undone, and the next one works.
func TestContextEndsAtEveryStatement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	var names []string
	end, at := func() {}, 0
	o.BeforeStatement = func(name string) error {
		names = append(names, name)
		if len(names) == at {
			end()
		}
		return nil
	}
	book := ledger.New(w.openWith(t, o))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.publish(t, book, "drop", 100)
	before := dump(t, w.path)
	for at = 1; ; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		end, names = cancel, nil
		_, err := book.Reserve(ctx, clicks(s, "k", "ann", "bob", "cid"))
		cancel()
		if names[len(names)-1] == "committed" {
			require.NoError(t, err)
			require.Len(t, names, at, "only after the commit is it too late")
			break
		}
		require.ErrorIs(t, err, context.Canceled, "at %s", names[at-1])
		require.NotErrorIs(t, err, ledger.ErrConstraint)
		require.Len(t, names, at, "no statement comes after the end")
		require.Equal(t, before, dump(t, w.path), "at %s", names[at-1])
	}
	require.Greater(t, at, 12, "begin, three reads, three rows in three tables, items, sale, commit")
	require.NotEqual(t, before, dump(t, w.path))
	at = 0
	take(t, book, s, "dan")
}

// TestContextEndsInLine: a writer that waits for its turn gives up with its
// context, also where the turn is another process's.
func TestContextEndsInLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.open(t), w.open(t)
	t.Cleanup(func() { require.NoError(t, errors.Join(one.Close(), other.Close())) })
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- one.Update(t.Context(), func(ledger.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	never := func(ledger.Tx) error { panic("it is not its turn") }
	for _, s := range []*sqliteledger.Store{one, other} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		require.ErrorIs(t, s.Update(ctx, never), context.DeadlineExceeded)
		cancel()
		require.ErrorIs(t, s.Update(ctx, never), context.DeadlineExceeded, "it is over before it begins")
	}
	close(leave)
	require.NoError(t, <-done)
	for _, s := range []*sqliteledger.Store{one, other} {
		require.NoError(t, s.Update(t.Context(), func(ledger.Tx) error { return nil }))
	}
}

// TestPanic: a transaction whose function panics is undone, the panic goes on,
// and the store works.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t)
	book := ledger.New(s)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	drop := w.publish(t, book, "drop", 100)
	take(t, book, drop, "ann", "bob")
	before := dump(t, w.path)
	require.PanicsWithValue(t, "ouch", func() {
		_ = s.Update(t.Context(), func(tx ledger.Tx) error {
			require.NoError(t, tx.PutAPIKey(t.Context(), ledger.APIKey{ID: "k"}))
			panic("ouch")
		})
	})
	require.Equal(t, before, dump(t, w.path))
	require.PanicsWithValue(t, "in the middle of rows", func() {
		_ = s.Read().EachOrder(t.Context(), drop.Number, func(sale.Order) error { panic("in the middle of rows") })
	})
	require.PanicsWithValue(t, "in the middle of a snapshot", func() {
		_ = s.Snapshot(t.Context(), func(r ledger.Reader) error {
			return r.EachOrder(t.Context(), drop.Number, func(sale.Order) error { panic("in the middle of a snapshot") })
		})
	})
	take(t, book, drop, "cid")
	require.Equal(t, 3, count(t, s.Read(), drop.Number))
}

func count(tb testing.TB, r ledger.Reader, n sale.Number) (orders int) {
	tb.Helper()
	require.NoError(tb, r.EachOrder(tb.Context(), n, func(sale.Order) error {
		orders++
		return nil
	}))
	return orders
}

// TestErrorInTheMiddle fails each statement of a change in turn, by a refusal and
// by trouble, in one store: its prepared statements survive all of it.
func TestErrorInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	var names []string
	var fault error
	at := 0
	o.BeforeStatement = func(name string) error {
		names = append(names, name)
		if len(names) == at {
			return fault
		}
		return nil
	}
	book := ledger.New(w.openWith(t, o))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.publish(t, book, "drop", 1000)
	before := dump(t, w.path)
	for _, fault = range []error{errFault, ledger.ErrConstraint} {
		for at = 1; ; at++ {
			names = nil
			_, err := book.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 1}})
			require.ErrorIs(t, err, fault)
			if names[len(names)-1] == "committed" { // its reply is lost, no more
				require.NotEqual(t, before, dump(t, w.path))
				break
			}
			require.Equal(t, before, dump(t, w.path), "at %s", names[at-1])
		}
		require.Greater(t, at, 5)
		before = dump(t, w.path)
	}
	at = 0
	take(t, book, s, "ann", "bob")
}

// TestTransactionIsOver: what outlives its function is refused, not mixed into
// somebody else's transaction.
func TestTransactionIsOver(t *testing.T) {
	t.Parallel()
	s := newWorld(t).open(t)
	var kept ledger.Tx
	require.NoError(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		kept = tx
		return nil
	}))
	require.ErrorContains(t, kept.PutAPIKey(t.Context(), ledger.APIKey{ID: "k"}), "over")
	_, err := kept.LockSale(t.Context(), 1)
	require.ErrorContains(t, err, "over")
	var seen ledger.Reader
	require.NoError(t, s.Snapshot(t.Context(), func(r ledger.Reader) error {
		seen = r
		return nil
	}))
	_, err = seen.SaleNumbers(t.Context())
	require.ErrorContains(t, err, "over")

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing again changes nothing")
	require.ErrorContains(t, s.Update(t.Context(), func(ledger.Tx) error { return nil }), "closed")
	require.ErrorContains(t, s.Snapshot(t.Context(), func(ledger.Reader) error { return nil }), "closed")
	_, err = s.Read().SaleNumbers(t.Context())
	require.ErrorContains(t, err, "closed")
}

// TestCloseWaits: what is running ends first.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	updated, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		updated <- s.Update(t.Context(), func(tx ledger.Tx) error {
			close(inside)
			<-leave
			return tx.PutAPIKey(t.Context(), ledger.APIKey{ID: "k"})
		})
	}()
	<-inside
	go func() { closed <- s.Close() }()
	require.Eventually(t, func() bool { // Close has begun
		_, err := s.Read().SaleNumbers(t.Context())
		return err != nil
	}, time.Minute, time.Millisecond)
	require.Empty(t, closed, "closed under a running transaction")
	close(leave)
	require.NoError(t, <-updated)
	require.NoError(t, <-closed)
	require.NoFileExists(t, w.path+"-wal", "the last connection copies the log into the file")
	s = w.open(t)
	_, err := s.Read().APIKey(t.Context(), "k")
	require.NoError(t, errors.Join(err, s.Close()))
}

// TestRefusedBatchWritesNothing: sold out is answered without a byte written.
func TestRefusedBatchWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	book := ledger.New(w.open(t))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.publish(t, book, "drop", 1)
	take(t, book, s, "ann")
	before, err := os.Stat(w.path + "-wal")
	require.NoError(t, err)
	for range 10 {
		var out ledger.Batched
		out, err = book.Reserve(t.Context(), clicks(s, "k", "bob", "cid", "dan", "ann"))
		require.NoError(t, err)
		require.Equal(t, sale.SoldOut, out.Results[0].Verdict)
		require.Equal(t, sale.Replayed, out.Results[3].Verdict)
	}
	after, err := os.Stat(w.path + "-wal")
	require.NoError(t, err)
	require.Equal(t, before.Size(), after.Size())
	require.Equal(t, before.ModTime(), after.ModTime())
	take(t, book, w.publish(t, book, "other", 1), "ann")
	after, err = os.Stat(w.path + "-wal")
	require.NoError(t, err)
	require.NotEqual(t, before.ModTime(), after.ModTime(), "a write does show")
}

// TestWritersOfManySales: writers are alone, whatever they write to.
func TestWritersOfManySales(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t)
	book := ledger.New(s)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	drops := []sale.Sale{w.publish(t, book, "a", 50), w.publish(t, book, "b", 50)}
	var wg sync.WaitGroup
	var inside int
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				drop := drops[(i+j)%2]
				assertNoError(t, s.Update(t.Context(), func(tx ledger.Tx) error {
					inside++
					defer func() { inside-- }()
					if inside != 1 {
						return errors.New("two writers at once")
					}
					_, err := tx.LockSale(t.Context(), drop.Number)
					return err
				}))
				_, err := book.Reserve(t.Context(), clicks(drop, "k", fmt.Sprint(i, " ", j)))
				assertNoError(t, err)
			}
		})
	}
	wg.Wait()
	for _, drop := range drops {
		now, err := book.Sale(t.Context(), drop.Slug)
		require.NoError(t, err)
		require.Equal(t, int64(50), now.Items[0].Sold)
		require.Equal(t, 50, count(t, s.Read(), drop.Number))
	}
}

// assertNoError may be called from any goroutine.
func assertNoError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}
