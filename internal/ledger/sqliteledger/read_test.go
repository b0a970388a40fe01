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

// TestReadOnly: an audit sees what a running server commits, writes nothing, and
// is in nobody's way.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	book := ledger.New(w.open(t))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.publish(t, book, "drop", 100)
	looking, err := sqliteledger.Open(t.Context(), sqliteledger.Options{Path: w.path, ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, looking.Close()) })
	require.ErrorIs(t, looking.Update(t.Context(), func(ledger.Tx) error { return nil }), sqliteledger.ErrReadOnly)

	take(t, book, s, "ann", "bob")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(w.path + suffix)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "%q holds the keys of sales", suffix)
	}
	require.Equal(t, 2, count(t, looking.Read(), s.Number))
	require.NoError(t, looking.Snapshot(t.Context(), func(r ledger.Reader) error {
		take(t, book, s, "cid") // nobody waits for anybody
		require.Equal(t, 2, count(t, r, s.Number), "a snapshot is one instant, from its beginning")
		return nil
	}))
	require.Equal(t, 3, count(t, looking.Read(), s.Number))
}

// TestReadOnlyAlone: no server runs, and none has left its log.
func TestReadOnlyAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	book := ledger.New(w.open(t))
	s := w.publish(t, book, "drop", 100)
	take(t, book, s, "ann")
	require.NoError(t, book.Close())
	before, err := os.ReadFile(w.path)
	require.NoError(t, err)
	looking, err := sqliteledger.Open(t.Context(), sqliteledger.Options{Path: w.path, ReadOnly: true})
	require.NoError(t, err)
	require.Equal(t, 1, count(t, looking.Read(), s.Number))
	require.NoError(t, looking.Close())
	after, err := os.ReadFile(w.path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	take(t, ledger.New(w.open(t)), s, "bob")
}

// TestSnapshotNests: a snapshot is read inside its own rows, the same statement
// included, and by several goroutines.
func TestSnapshotNests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t)
	book := ledger.New(s)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	drop := w.publish(t, book, "drop", 100)
	take(t, book, drop, "ann", "bob", "cid")
	for range 2 { // the second time with statements that the first has kept
		require.NoError(t, s.Snapshot(t.Context(), func(r ledger.Reader) error {
			seen := 0
			require.NoError(t, r.EachOrder(t.Context(), drop.Number, func(outer sale.Order) error {
				return r.EachOrder(t.Context(), drop.Number, func(inner sale.Order) error {
					found, err := r.OrdersByID(t.Context(), []sale.OrderID{outer.ID, inner.ID})
					if outer.ID == inner.ID {
						require.Len(t, found, 1)
					} else {
						require.Len(t, found, 2)
					}
					seen++
					return err
				})
			}))
			require.Equal(t, 9, seen)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 50 {
						n := 0
						assertNoError(t, r.EachOrder(t.Context(), drop.Number, func(sale.Order) error {
							n++
							return nil
						}))
						if n != 3 {
							t.Errorf("%d orders", n)
						}
					}
				})
			}
			wg.Wait()
			return nil
		}))
	}
}

// TestScanEndsWithContext: a long look is interrupted, between rows and before
// the first, and the connection goes on to serve.
func TestScanEndsWithContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.ReadConns = 1
	s := w.openWith(t, o)
	book := ledger.New(s)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	drop := w.publish(t, book, "drop", 1000)
	users := make([]string, 500)
	for i := range users {
		users[i] = fmt.Sprint("user-", i)
	}
	take(t, book, drop, users...)

	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err := s.Read().EachOrder(ctx, drop.Number, func(sale.Order) error {
		seen++
		if seen == 3 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, seen)
	require.Equal(t, 500, count(t, s.Read(), drop.Number))

	for wait := time.Microsecond; ; wait *= 2 { // somewhere on the way it ends inside the sort
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := s.Read().ListOrders(ctx, ledger.OrderFilter{Limit: 10})
		cancel()
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 500, count(t, s.Read(), drop.Number))
	}
	stop := errors.New("enough")
	require.ErrorIs(t, s.Read().EachHolder(t.Context(), drop.Number, func(ledger.Holder) error { return stop }), stop)
}

// TestOrdersOfAll merges the pages of many sales, in time and id.
func TestOrdersOfAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t)
	book := ledger.New(s)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	drops := []sale.Sale{w.publish(t, book, "a", 100), w.publish(t, book, "b", 100), w.publish(t, book, "c", 0)}
	for i := range 10 {
		for _, drop := range drops[:1+i%2] {
			take(t, book, drop, fmt.Sprint("ann", i), fmt.Sprint("bob", i))
		}
		w.clock.Add(int64(i % 3)) // some in one millisecond
	}
	for _, f := range []ledger.OrderFilter{{}, {State: sale.Reserved}, {State: sale.Paid}, {Sale: drops[0].Number}, {Sale: drops[1].Number, State: sale.Reserved}} {
		var all []sale.Order
		f.Limit = 7
		for {
			page, err := s.Read().ListOrders(t.Context(), f)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			all = append(all, page...)
			last := page[len(page)-1]
			f.Before = ledger.Cursor{At: last.ReservedAt, ID: last.ID}
		}
		want := map[bool]int{true: 0, false: 30}[f.State == sale.Paid]
		if f.Sale != 0 {
			want = map[sale.Number]int{drops[0].Number: 20, drops[1].Number: 10}[f.Sale]
		}
		require.Len(t, all, want, "%+v", f)
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			require.True(t, a.ReservedAt.After(b.ReservedAt) || a.ReservedAt.Equal(b.ReservedAt) && string(a.ID[:]) > string(b.ID[:]), "%d", i)
		}
	}
}
