package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// loaded is a Load that has nothing to do: the world has no counter.
func loaded(context.Context, ledger.Present) error { return nil }

// fast puts a sale on the fast path, as after a build.
func (w *world) fast(t *testing.T, s sale.Sale) sale.Sale {
	t.Helper()
	b, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	after, err := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Salts: []uint32{1}, Load: loaded})
	require.NoError(t, err)
	require.Equal(t, sale.PathFast, after.Path)
	return after
}

// openFast enters the basic sale after edit, publishes it and puts it on the fast path.
func (w *world) openFast(t *testing.T, edit func(*sale.Sale)) sale.Sale {
	t.Helper()
	return w.fast(t, w.open(t, edit))
}

// direct puts a fast sale on the direct path.
func (w *world) direct(t *testing.T, s sale.Sale) sale.Sale {
	t.Helper()
	after, err := w.ledger.GoDirect(t.Context(), s.Number, s.Epoch, s.Epoch+1)
	require.NoError(t, err)
	require.Equal(t, sale.PathDirect, after.Path)
	return after
}

// slip is what the sale's lane leaves for a click that it takes now.
func (w *world) slip(t *testing.T, s sale.Sale, a ledger.Attempt) ledger.Attempt {
	t.Helper()
	a.Slip = &ledger.Slip{Epoch: s.Epoch, Terms: s.Terms, TakenAt: w.now(t)}
	return a
}

// presented is the same slip, brought by its buyer.
func presented(a ledger.Attempt) ledger.Attempt {
	slip := *a.Slip
	slip.Presented = true
	a.Slip = &slip
	return a
}

// judged has a slip judged that must be accepted.
func (w *world) judged(t *testing.T, s sale.Sale, a ledger.Attempt) sale.Order {
	t.Helper()
	r := w.try(t, s, a)
	require.Equal(t, sale.Taken, r.Verdict)
	require.Equal(t, r.Order, w.order(t, a.ID))
	return r.Order
}

// rejected has a slip judged that must be rejected.
func (w *world) rejected(t *testing.T, s sale.Sale, a ledger.Attempt, why sale.RejectReason) ledger.Result {
	t.Helper()
	r := w.try(t, s, a)
	require.Equal(t, sale.Rejected, r.Order.State, "%+v", r)
	require.Equal(t, why, r.Order.Reason)
	require.Equal(t, r.Order, w.order(t, a.ID))
	require.Equal(t, w.now(t), r.Order.EndedAt)
	return r
}

// tail returns the kinds of the lane rows above a number.
func (w *world) tail(t *testing.T, s sale.Sale, after uint64) []ledger.Kind {
	t.Helper()
	out, err := w.ledger.LaneRows(t.Context(), s.Number, after, 1000)
	require.NoError(t, err)
	kinds := make([]ledger.Kind, len(out.Rows))
	for i := range out.Rows {
		kinds[i] = out.Rows[i].Kind
	}
	return kinds
}

// end returns the number of the sale's last journal row.
func (w *world) end(t *testing.T, s sale.Sale) uint64 {
	t.Helper()
	return uint64(len(w.rowsOf(t, s)))
}

// writes runs do and requires exactly these rows of it.
func (w *world) writes(t *testing.T, s sale.Sale, want []ledger.Kind, do func()) {
	t.Helper()
	before := len(w.rowsOf(t, s))
	do()
	got := w.kinds(t, s, before)
	if len(want) == 0 {
		require.Empty(t, got)
		return
	}
	require.Equal(t, want, got)
}

// queued is a slip of a buyer's that waits, taken an hour after the sale began.
func (w *world) queued(t *testing.T, s sale.Sale, user string) ledger.Attempt {
	t.Helper()
	w.Advance(time.Hour)
	return w.slip(t, s, click(s, user, "k", 1))
}
