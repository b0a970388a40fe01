package httpapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// fast is the part of a world that has a fast counter, which goes by the clock of
// the ledger. Slips stay in the trays until a test has them judged.
type fast struct {
	counter *stocktest.Mem
	keeper  *handover.Keeper
	lanes   *settle.Lanes
}

func (w *world) setUpFast(tb testing.TB, l ledger.Ledger) {
	tb.Helper()
	w.counter = stocktest.NewMem(func() time.Time {
		now, err := w.store.Now(context.Background()) //nolint:usetesting // the counter has no context
		if err != nil {
			panic(err)
		}
		return now
	})
	w.lanes = settle.NewLanes(l, w.counter, settle.LaneOptions{Consumer: "judge", Clock: time.Now, Wait: 50 * time.Millisecond, Interval: 20 * time.Millisecond})
	w.keeper = handover.New(l, w.counter, handover.Options{Clock: time.Now, Drain: w.lanes.Judge().Drain})
}

func (w *world) countQueued(ctx context.Context, s *sale.Sale) (int64, error) {
	n := int64(0)
	for _, l := range stock.LanesOf(s) {
		at, err := w.counter.Read(ctx, l)
		if err != nil {
			return 0, err
		}
		n += at.Queued
	}
	return n, nil
}

// judge has every slip judged that lies in the trays of a sale now, and tells who
// waits.
func (w *world) judge(tb testing.TB, slug string) {
	tb.Helper()
	s, err := w.book.Sale(tb.Context(), slug)
	require.NoError(tb, err)
	for _, l := range stock.LanesOf(&s) {
		require.NoError(tb, w.lanes.Judge().Drain(tb.Context(), l, &s))
	}
}
