package pgledger_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func bot(i int) ledger.Offence {
	return ledger.Offence{
		Subject: ledger.Subject{Kind: ledger.SubjectUser, Value: "bot-" + strconv.Itoa(i)}, Effect: ledger.EffectDeny,
		Base: time.Minute, Max: time.Hour, Memory: time.Hour,
	}
}

// TestGateOfTwoInstances: what both do at the same moment happens once, under
// versions that appear in order.
func TestGateOfTwoInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	books := []*ledger.Book{w.book(t, w.options()), w.book(t, w.options())}

	keys := make([]ledger.GateKey, 8)
	require.NoError(t, together(len(keys), func(i int) (err error) {
		keys[i], err = books[i%2].EnsureGateKey(t.Context())
		return err
	}))
	for _, k := range keys {
		require.Equal(t, keys[0], k)
	}
	for range 5 {
		bans := make([][]ledger.Listing, 6)
		before, err := books[0].GateVersion(t.Context())
		require.NoError(t, err)
		require.NoError(t, together(len(bans), func(i int) (err error) {
			offences := []ledger.Offence{bot(0), bot(1), bot(2)}
			if i%2 == 1 {
				offences[0], offences[2] = offences[2], offences[0] // no order leads to a deadlock
			}
			bans[i], err = books[i%2].Ban(t.Context(), offences)
			return err
		}))
		after, err := books[1].GateVersion(t.Context())
		require.NoError(t, err)
		require.Equal(t, before+3, after, "each is banned once")
		for i := range bans {
			require.ElementsMatch(t, bans[0], bans[i])
		}
		w.clock.Add((2 * time.Hour).Milliseconds())
	}
	seen, err := books[0].PutGateSettings(t.Context(), 0, []byte("{}"), "olga")
	require.NoError(t, err)
	var won atomic.Int64
	require.NoError(t, together(6, func(i int) error {
		_, err := books[i%2].PutGateSettings(t.Context(), seen.Version, []byte(strconv.Itoa(i)), "olga")
		if err == nil {
			won.Add(1)
		} else if sale.CodeOf(err) != sale.CodeVersionMismatch {
			return err
		}
		return nil
	}))
	require.Equal(t, int64(1), won.Load())
}

// TestFollowersMissNothing: while two instances ban, a third follows by versions and
// sees each of them.
func TestFollowersMissNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	books := []*ledger.Book{w.book(t, w.options()), w.book(t, w.options()), w.book(t, w.options())}
	const each = 40
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := make(map[string]bool)
	require.NoError(t, together(3, func(i int) error {
		for n := 0; i < 2 && n < each; n++ {
			if _, err := books[i].Ban(ctx, []ledger.Offence{bot(2*n + i)}); err != nil {
				return err
			}
		}
		for at := int64(0); i == 2 && at < 2*each; {
			page, err := books[2].Listings(ctx, at, 7)
			if err != nil {
				return err
			}
			for _, l := range page {
				seen[l.Subject.Value], at = true, l.Version
			}
		}
		return nil
	}))
	require.Len(t, seen, 2*each)
}

// TestWatchGateHearsOtherInstances: each change is told once to every watcher,
// whoever has made it, and watchers of journals hear nothing of it.
func TestWatchGateHearsOtherInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	books := []*ledger.Book{w.book(t, w.options()), w.book(t, w.options())}
	heard := []chan int64{make(chan int64, 100), make(chan int64, 100)}
	for i, book := range books {
		t.Cleanup(book.WatchGate(func(version int64) { heard[i] <- version }))
		t.Cleanup(book.Watch(func([]ledger.Entry) { t.Error("no journal was written") }))
	}
	w.listeners(t, 2)
	told := func(version int64) {
		t.Helper()
		limit := time.NewTimer(30 * time.Second)
		defer limit.Stop()
		for i := range heard {
			select {
			case v := <-heard[i]:
				require.Equal(t, version, v)
			case <-limit.C:
				require.FailNow(t, "nothing was heard")
			}
		}
	}
	_, err := books[0].Ban(t.Context(), []ledger.Offence{bot(1), bot(2)})
	require.NoError(t, err)
	told(2)
	_, err = books[1].EnsureGateKey(t.Context())
	require.NoError(t, err)
	told(3)
	require.Empty(t, heard[0])
	require.Empty(t, heard[1])
}

// TestDamagedGate: an unreadable listing hides no other; an unreadable key or a gate
// without its row is an error.
func TestDamagedGate(t *testing.T) {
	t.Parallel()
	d, ctx := newDamaged(t), t.Context()
	_, err := d.Ban(ctx, []ledger.Offence{bot(1), bot(2), bot(3)})
	require.NoError(t, err)
	_, err = d.EnsureGateKey(ctx)
	require.NoError(t, err)
	d.sql(t, "UPDATE gate_listings SET effect = 'shout' WHERE version = 1")
	for after, want := range map[int64]int{0: 2, 1: 2, 2: 1} {
		page, listErr := d.Listings(ctx, after, 2)
		require.NoError(t, listErr)
		require.Len(t, page, want)
	}
	require.NotZero(t, d.reports())
	_, err = d.Ban(ctx, []ledger.Offence{bot(1)})
	require.ErrorIs(t, err, pgledger.ErrCorrupt)

	d.sql(t, "UPDATE gate_keys SET secret = '\\x00'")
	_, err = d.EnsureGateKey(ctx)
	require.ErrorIs(t, err, pgledger.ErrCorrupt)
	_, err = d.RotateGateKey(ctx, 0)
	require.ErrorIs(t, err, pgledger.ErrCorrupt)
	d.sql(t, "DELETE FROM gate")
	_, err = d.GateVersion(ctx)
	require.ErrorIs(t, err, pgledger.ErrCorrupt)
	_, err = d.Ban(ctx, []ledger.Offence{bot(9)})
	require.ErrorIs(t, err, pgledger.ErrCorrupt)
}
