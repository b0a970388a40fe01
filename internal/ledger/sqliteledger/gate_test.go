package sqliteledger_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
)

func bot(i int) ledger.Offence {
	return ledger.Offence{
		Subject: ledger.Subject{Kind: ledger.SubjectUser, Value: "bot-" + strconv.Itoa(i)}, Effect: ledger.EffectDeny,
		Base: time.Minute, Max: time.Hour, Memory: time.Hour,
	}
}

// TestGateOfTwoStores: what two stores on one file do at the same moment, as the
// server and a command do, happens once.
func TestGateOfTwoStores(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	books := []*ledger.Book{ledger.New(w.open(t)), ledger.New(w.open(t))}
	for _, b := range books {
		t.Cleanup(func() { require.NoError(t, b.Close()) })
	}
	keys, bans, errs := make([]ledger.GateKey, 8), make([][]ledger.Listing, 8), make([]error, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			var err error
			keys[i], err = books[i%2].EnsureGateKey(t.Context())
			bans[i], errs[i] = books[i%2].Ban(t.Context(), []ledger.Offence{bot(1), bot(2)})
			errs[i] = errors.Join(err, errs[i])
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	for i := range keys {
		require.Equal(t, keys[0], keys[i])
		require.Equal(t, bans[0], bans[i])
	}
	version, err := books[0].GateVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(3), version)
}

// TestDamagedGate: an unreadable listing hides no other; an unreadable key or a gate
// without its row is an error.
func TestDamagedGate(t *testing.T) {
	t.Parallel()
	d, ctx := newDamaged(t), t.Context()
	_, err := d.book.Ban(ctx, []ledger.Offence{bot(1), bot(2), bot(3)})
	require.NoError(t, err)
	_, err = d.book.EnsureGateKey(ctx)
	require.NoError(t, err)
	d.w.sql(t, "UPDATE gate_listings SET effect = 'shout' WHERE version = 1")
	for after, want := range map[int64]int{0: 2, 1: 2, 2: 1} {
		page, listErr := d.book.Listings(ctx, after, 2)
		require.NoError(t, listErr)
		require.Len(t, page, want)
	}
	require.NotZero(t, d.reports())
	_, err = d.book.Ban(ctx, []ledger.Offence{bot(1)})
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)

	d.w.sql(t, "UPDATE gate_keys SET secret = x'00'")
	_, err = d.book.EnsureGateKey(ctx)
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
	_, err = d.book.RotateGateKey(ctx, 0)
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
	d.w.sql(t, "DELETE FROM gate")
	_, err = d.book.GateVersion(ctx)
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
	_, err = d.book.Ban(ctx, []ledger.Offence{bot(9)})
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
}
