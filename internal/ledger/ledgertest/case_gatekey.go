package ledgertest

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// gateKeyCases: settings and secrets that all instances share.
func gateKeyCases() []testCase {
	return []testCase{
		{name: "Gate/settings replace what was seen", run: settingsReplaced},
		{name: "Gate/settings, one writer wins", run: settingsRace},
		{name: "Gate/keys are rotated and forgotten", run: gateKeysRotated},
		{name: "Gate/keys are not without number", run: gateKeysBounded},
		{name: "Gate/the first key, once", run: gateKeyOnce},
	}
}

func settingsReplaced(t *testing.T, w *world) {
	none, err := w.ledger.GateSettings(t.Context())
	require.NoError(t, err)
	require.Zero(t, none)
	put := func(version int64, text []byte, author string) error {
		_, putErr := w.ledger.PutGateSettings(t.Context(), version, text, author)
		return putErr
	}
	requireCode(t, sale.CodeVersionMismatch, put(1, []byte("{}"), "olga"))
	for _, text := range [][]byte{nil, {}, make([]byte, ledger.MaxSettings+1)} {
		requireCode(t, sale.CodeInvalid, put(0, text, "olga"))
	}
	requireCode(t, sale.CodeInvalid, put(0, []byte("{}"), ""))
	requireCode(t, sale.CodeInvalid, put(0, []byte("{}"), ledger.GateAuthor))
	require.Zero(t, w.gateVersion(t))

	w.list(t, deny(user("ann")))
	first := w.settings(t, ledger.NoSettings, `{"n":1}`)
	requireCode(t, sale.CodeVersionMismatch, put(ledger.NoSettings, []byte("{}"), "olga"))
	require.Equal(t, ledger.Settings{Version: 2, Text: []byte(`{"n":1}`), Author: "olga", At: w.now(t)}, first)
	w.list(t, deny(user("bob")))
	w.Advance(time.Second)
	big := bytes.Repeat([]byte{0, 255}, ledger.MaxSettings/2) // what it holds is not looked into
	second := w.settings(t, first.Version, string(big))
	require.Equal(t, int64(4), second.Version, "another change in between is no hindrance")
	requireCode(t, sale.CodeVersionMismatch, put(first.Version, []byte("{}"), "oleg"))
	requireCode(t, sale.CodeVersionMismatch, put(3, []byte("{}"), "oleg"))
	w.reopen(t)
	kept, err := w.ledger.GateSettings(t.Context())
	require.NoError(t, err)
	require.Equal(t, ledger.Settings{Version: 4, Text: big, Author: "olga", At: w.now(t)}, kept)
	require.Equal(t, int64(5), w.settings(t, 0, "{}").Version)
}

func settingsRace(t *testing.T, w *world) {
	seen := w.settings(t, 0, "0")
	for round := range 4 {
		var won atomic.Int64
		together(t, 8, func(ctx context.Context, i int) error {
			_, err := w.ledger.PutGateSettings(ctx, seen.Version, []byte(strconv.Itoa(i)), "writer-"+strconv.Itoa(i))
			switch {
			case err == nil:
				won.Add(1)
			case sale.CodeOf(err) != sale.CodeVersionMismatch:
				return err
			}
			return nil
		})
		require.Equal(t, int64(1), won.Load())
		now, err := w.ledger.GateSettings(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(round+2), now.Version)
		require.Equal(t, "writer-"+string(now.Text), now.Author)
		seen = now
	}
}

func (w *world) rotate(t *testing.T, keep time.Duration) ledger.GateKey {
	t.Helper()
	k, err := w.ledger.RotateGateKey(t.Context(), keep)
	require.NoError(t, err)
	return k
}

func (w *world) gateKeys(t *testing.T) []ledger.GateKey {
	t.Helper()
	keys, err := w.ledger.GateKeys(t.Context())
	require.NoError(t, err)
	return keys
}

func gateKeysRotated(t *testing.T, w *world) {
	require.Empty(t, w.gateKeys(t))
	born := w.now(t)
	first := w.rotate(t, time.Hour)
	require.Equal(t, ledger.GateKey{ID: 1, Secret: first.Secret, CreatedAt: born}, first)
	require.NotZero(t, first.Secret)
	require.Equal(t, []ledger.GateKey{first}, w.gateKeys(t))
	ensured, err := w.ledger.EnsureGateKey(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, ensured)
	require.Equal(t, int64(1), w.gateVersion(t))

	w.Advance(time.Second)
	second := w.rotate(t, time.Hour)
	require.NotEqual(t, first.Secret, second.Secret)
	first.RetiredAt = w.now(t)
	w.Advance(time.Hour)
	third := w.rotate(t, time.Hour)
	second.RetiredAt = w.now(t)
	w.reopen(t)
	require.Equal(t, []ledger.GateKey{third, second, first}, w.gateKeys(t), "retired for an hour, not for longer")
	w.Advance(time.Millisecond)
	fourth := w.rotate(t, time.Hour)
	third.RetiredAt = w.now(t)
	require.Equal(t, []ledger.GateKey{fourth, third, second, first}, w.gateKeys(t), "the first is never forgotten")
	require.Equal(t, uint32(4), fourth.ID)
	ensured, err = w.ledger.EnsureGateKey(t.Context())
	require.NoError(t, err)
	require.Equal(t, fourth, ensured)
	w.Advance(time.Millisecond)
	fifth := w.rotate(t, 0)
	require.Equal(t, uint32(5), fifth.ID)
	fourth.RetiredAt = w.now(t)
	require.Equal(t, []ledger.GateKey{fifth, fourth, first}, w.gateKeys(t), "the one that was in use a moment ago still verifies")
	_, err = w.ledger.RotateGateKey(t.Context(), -1)
	requireCode(t, sale.CodeInvalid, err)
}

func gateKeysBounded(t *testing.T, w *world) {
	for range ledger.MaxGateKeys {
		w.rotate(t, time.Hour)
	}
	before := w.gateKeys(t)
	require.Len(t, before, ledger.MaxGateKeys)
	_, err := w.ledger.RotateGateKey(t.Context(), time.Hour)
	requireCode(t, sale.CodeIllegalState, err)
	require.Equal(t, before, w.gateKeys(t))
	w.Advance(time.Hour + time.Millisecond)
	w.rotate(t, time.Hour)
	require.Len(t, w.gateKeys(t), 3)
}

func gateKeyOnce(t *testing.T, w *world) {
	keys := make([]ledger.GateKey, 8)
	together(t, len(keys), func(ctx context.Context, i int) (err error) {
		keys[i], err = w.ledger.EnsureGateKey(ctx)
		return err
	})
	require.Len(t, w.gateKeys(t), 1)
	for _, k := range keys {
		require.Equal(t, w.gateKeys(t)[0], k)
	}
	together(t, len(keys), func(ctx context.Context, i int) (err error) {
		keys[i], err = w.ledger.RotateGateKey(ctx, time.Hour)
		return err
	})
	all := w.gateKeys(t)
	require.Len(t, all, 9)
	require.Zero(t, all[0].RetiredAt)
	for i, k := range all[1:] {
		require.Equal(t, uint32(8-i), k.ID) //nolint:gosec // a small number
		require.NotZero(t, k.RetiredAt, "one key signs")
	}
}
