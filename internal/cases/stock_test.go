package cases_test

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the tests damage ledgers behind the program's back

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// The accident: losers take the counter below zero and do not put it back, so a
// unit that returns is invisible, and a big request starves a small one.
// The right outcome: no view is ever below zero, what returns can be bought, and
// a request that fits succeeds whatever stands beside it.
func TestC07CounterNeverBelowZero(t *testing.T) {
	t.Parallel()
	t.Run("crowd then cancel", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		for round := range 4 {
			at := s.at(name("round-", round))
			at.open(10, 1)
			lowest, done, watched := int64(10), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(watched)
				for {
					if v, err := at.Sale(t.Context(), at.slug); err == nil {
						lowest = min(lowest, v.Items[0].Stock-v.Items[0].Sold)
					}
					select {
					case <-done:
						return
					default:
					}
				}
			}()
			replies := crowd(500, func(i int) reply { return at.try(name("u", i), "k", 1) })
			close(done)
			<-watched
			require.Equal(t, map[sale.Verdict]int{sale.Taken: 10, sale.SoldOut: 490}, verdicts(t, replies))
			require.GreaterOrEqual(t, lowest, int64(0))
			for _, r := range replies {
				if r.Verdict == sale.Taken {
					at.cancel(r.Order)
					break
				}
			}
			require.Equal(t, int64(1), at.left())
			require.Equal(t, sale.Taken, at.buy("next", "k", 1).Verdict)
			require.Equal(t, sale.SoldOut, at.buy("after-next", "k", 1).Verdict)
			at.settled()
		}
	})
	t.Run("big beside small", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(3, 5)
		for round := range 100 {
			replies := crowd(2, func(i int) reply { return s.try(name("u", i), name("k", round), int64(5-3*i)) })
			require.NotEqual(t, sale.Taken, replies[0].Verdict, "5 of 3 is refused")
			require.Equal(t, sale.Taken, replies[1].Verdict, "2 of 3 succeeds")
			require.Equal(t, int64(1), s.left())
			s.cancel(replies[1].Order)
		}
		s.settled()
	})
}

// The accident: "sold out", once remembered by an instance, outlives the cancel,
// expiry or restock that brings units back, or is learned from mere trouble.
// The right outcome: every instance sells again within two seconds, exactly what
// came back, and trouble is never remembered as sold out.
func TestC08SoldOutMemoryEnds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	published := s.open(3, 1)
	doors := []*engine.Engine{s.Engine, s.instance(0), s.instance(0)}
	orders := []sale.Order{s.take("a", 1), s.take("b", 1), s.take("c", 1)}
	soldOutEverywhere := func() {
		t.Helper()
		for i, door := range doors {
			until(t, "the instance answers from memory", func() bool {
				r := s.ask(door, name("late", i), s.key(), 1)
				require.NoError(t, r.err)
				require.Equal(t, sale.SoldOut, r.Verdict)
				return r.Times.Ledger == 0
			})
		}
	}
	// sellsAgain lets three buyers try through each of the other instances.
	sellsAgain := func(user string, units int) []sale.Order {
		t.Helper()
		s.clock.pass(2 * time.Second) // the documented bound
		var got []sale.Order
		for i := range 6 {
			r := s.ask(doors[1+i%2], name(user, i), "k", 1)
			require.NoError(t, r.err)
			if r.Verdict == sale.Taken {
				got = append(got, r.Order)
			}
		}
		require.Len(t, got, units)
		return got
	}
	soldOutEverywhere()
	s.cancel(orders[0])
	sellsAgain("after-cancel", 1)

	soldOutEverywhere()
	s.pay(notice(orders[1], s.key()))
	require.Equal(t, 1, s.pass(time.Minute-2*time.Second), "the hold of c is over, not that of who came later")
	got := sellsAgain("after-expiry", 1)

	soldOutEverywhere()
	s.act(sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 5}})
	sellsAgain("after-restock", 5)

	soldOutEverywhere()
	s.cancel(got[0])
	require.Equal(t, sale.Taken, s.buy("here", "k", 1).Verdict, "the instance that saw it needs no time at all")

	s.act(sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 1}})
	trouble := func(string) error { return errors.New("the disk is full") }
	s.before.Store(&trouble)
	require.ErrorIs(t, s.try("unlucky", "k", 1).err, sale.Unavailable(nil))
	s.before.Store(nil)
	require.Equal(t, sale.Taken, s.buy("lucky", "k", 1).Verdict, "trouble is no shortage")
	require.Equal(t, published.Number, s.sale().Number)
	s.settled()
}

// The accident: an order of five gives back one unit, or five times five, or
// none since its line was blanked first.
// The right outcome: each end gives back exactly what the order held, to the
// stock and to the buyer's limit.
func TestC21ReleaseGivesBackWhatWasHeld(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(9, 9)
	one, three, five := s.take("one", 1), s.take("three", 3), s.take("five", 5)
	require.Zero(t, s.left())
	s.cancel(three)
	require.Equal(t, int64(3), s.left())
	s.pay(notice(five, "p"))
	require.Equal(t, 1, s.pass(time.Minute))
	require.Equal(t, sale.Expired, s.order(one.ID).State)
	require.Equal(t, int64(4), s.left())
	_, err := s.Refund(t.Context(), five.ID, true)
	require.NoError(t, err)
	require.Equal(t, int64(9), s.left())
	for _, user := range []string{"one", "three", "five"} {
		s.cancel(s.take(user, 9)) // the whole limit is free again
	}
	s.settled()

	// Written off, the units leave stock and sale together.
	gone := s.take("gone", 5)
	s.pay(notice(gone, "q"))
	_, err = s.Refund(t.Context(), gone.ID, false)
	require.NoError(t, err)
	require.Equal(t, int64(4), s.left())
	require.Equal(t, int64(4), s.settled().Stock)
}

// The accident: availability is read in one step and written in another.
// The right outcome: at most the stock is sold at every instant, all of it when
// demand suffices, and the database itself refuses one unit more.
func TestC44CheckAndClaimAreOneStep(t *testing.T) {
	t.Parallel()
	t.Run("last unit", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(1, 1)
		doors := []*engine.Engine{s.Engine, s.instance(0), s.instance(0)}
		for round := range 60 {
			replies := crowd(50, func(i int) reply { return s.ask(doors[i%3], name("u", i), name("k", round), 1) })
			got := verdicts(t, replies)
			require.Equal(t, map[sale.Verdict]int{sale.Taken: 1, sale.SoldOut: 49}, got)
			for _, r := range replies {
				if r.Verdict == sale.Taken {
					s.cancel(r.Order)
				}
			}
			s.clock.pass(2 * time.Second) // the others may now know
		}
		s.settled()
	})
	t.Run("crowd", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(100, 1)
		doors := []*engine.Engine{s.Engine, s.instance(0), s.instance(0)}
		var extra atomic.Int64
		replies := crowd(2000, func(i int) reply {
			if i == 700 { // a restock in the middle
				if _, err := s.ChangeSale(t.Context(), drop, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 7}}); err == nil {
					extra.Add(7)
				}
			}
			return s.ask(doors[i%3], name("u", i), "k", 1)
		})
		got := verdicts(t, replies)
		require.LessOrEqual(t, int64(got[sale.Taken]), 100+extra.Load())
		s.clock.pass(2 * time.Second)
		for i := 0; s.left() > 0; i++ {
			s.take(name("late", i), 1)
		}
		require.Equal(t, 100+extra.Load(), s.settled().Reserved)
	})
	t.Run("ledger alone", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		published := s.open(100, 1)
		batch := ledger.Batch{Sale: published.Number, Epoch: published.Epoch}
		for i := range 101 {
			user := name("u", i)
			batch.Attempts = append(batch.Attempts, ledger.Attempt{ID: published.OrderID(user, "k"), User: user, Quantity: 1})
		}
		out, err := s.book.Reserve(t.Context(), batch)
		require.NoError(t, err)
		for i, r := range out.Results {
			if i < 100 {
				require.Equal(t, sale.Taken, r.Verdict)
			} else {
				require.Equal(t, sale.SoldOut, r.Verdict)
			}
		}
		// A rule that went wrong would still meet the guards of the store …
		err = s.store.Update(t.Context(), func(tx ledger.Tx) error {
			rec, lockErr := tx.LockSale(t.Context(), published.Number)
			if lockErr != nil {
				return lockErr
			}
			return tx.Write(t.Context(), &ledger.Changes{Sale: rec.Number, Sold: []int64{1}, FromSeq: rec.Seq, Seq: rec.Seq, Head: rec.Head})
		})
		require.ErrorIs(t, err, ledger.ErrConstraint)
		// … and somebody who writes past the program those of the table.
		db := openSQL(t, s.path)
		_, err = db.ExecContext(t.Context(), "UPDATE items SET sold = sold + 1 WHERE sale = ?", published.Number)
		require.ErrorContains(t, err, "CHECK")
		require.Equal(t, int64(100), s.settled().Reserved)
	})
}

// sql opens the ledger without the program.
func (s *site) sql(pragmas ...string) *sql.DB {
	s.t.Helper()
	if s.fleet == nil {
		return openSQL(s.t, s.database(), pragmas...)
	}
	db, err := sql.Open("pgx", s.fleet.Postgres.URL)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, db.Close()) })
	return db
}

// openSQL opens a ledger file without the program.
func openSQL(t *testing.T, path string, pragmas ...string) *sql.DB {
	t.Helper()
	query := url.Values{"_pragma": append(pragmas, "busy_timeout(10000)")}
	db, err := sql.Open("sqlite", "file:"+path+"?"+query.Encode())
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// alter runs one statement that must change one row.
func alter(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	result, err := db.ExecContext(t.Context(), inDialect(db, statement), args...)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	require.Equal(t, int64(1), n, statement)
}

// inDialect writes the parameters of a statement as the database has them.
func inDialect(db *sql.DB, statement string) string {
	if _, postgres := db.Driver().(*stdlib.Driver); !postgres {
		return strings.ReplaceAll(statement, "user_id", "user")
	}
	statement = strings.ReplaceAll(statement, "x'00'", `'\x00'::bytea`)
	for n := 1; strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", name("$", n), 1)
	}
	return statement
}
