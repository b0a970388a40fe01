package ledgertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// fastActs prepares sales on both paths and returns every kind of write that the
// fast path adds.
func (w *world) fastActs(t *testing.T) []act {
	t.Helper()
	cold, warm, s := w.open(t, nil), w.open(t, nil), w.openFast(t, nil)
	build, err := w.ledger.StartBuild(t.Context(), warm.Number, warm.Epoch)
	require.NoError(t, err)
	leaving := w.openFast(t, nil)
	over := w.slip(t, s, click(s, "over", "k", 1))
	w.cancel(t, w.judged(t, s, over))
	receipt := presented(w.slip(t, s, click(s, "fay", "k", 1)))
	batch := []ledger.Attempt{over, receipt, w.slip(t, s, click(s, "gus", "k", 2)), w.slip(t, s, click(s, "hal", "k", 3))}
	queued, lost := w.slip(t, s, click(s, "ivy", "k", 1)), w.slip(t, s, click(s, "joy", "k", 1))
	w.park(t, s, letter(1, nil))
	return []act{
		{name: "start a build", fails: sale.CodeUnavailable, do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.StartBuild(ctx, cold.Number, cold.Epoch)
			return err
		}},
		{name: "finish a build", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.FinishBuild(ctx, ledger.Finish{Build: build, Salts: []uint32{3, 1}, Load: loaded})
			return err
		}},
		{name: "go direct", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.GoDirect(ctx, leaving.Number, leaving.Epoch, leaving.Epoch+1)
			return err
		}},
		{name: "judge slips", again: true, do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.Reserve(ctx, ledger.Batch{Sale: s.Number, Attempts: batch})
			return err
		}},
		{name: "cancel what is queued", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.CancelQueued(ctx, queued)
			return err
		}},
		{name: "park", do: func(ctx context.Context, l ledger.Ledger) error {
			return l.Park(ctx, s.Number, []ledger.Letter{letter(2, &lost), letter(3, nil)})
		}},
		{name: "close a letter", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.CloseLetter(ctx, ledger.LetterID{1}, ledger.LetterDropped)
			return err
		}},
	}
}
