package httpapi_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
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

func (w *world) setUpFast(tb testing.TB, l ledger.Ledger, lanes int) {
	tb.Helper()
	w.counter = stocktest.NewMem(func() time.Time {
		now, err := w.store.Now(context.Background()) //nolint:usetesting // the counter has no context
		if err != nil {
			panic(err)
		}
		return now
	})
	w.lanes = settle.NewLanes(l, w.counter, settle.LaneOptions{Consumer: "judge", Clock: time.Now, Wait: 50 * time.Millisecond, Interval: 20 * time.Millisecond})
	w.keeper = handover.New(l, w.counter, handover.Options{Clock: time.Now, Lanes: lanes, Drain: w.lanes.Judge().Drain})
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

// judge has every slip judged that lies in the trays of a sale now.
func (w *world) judge(tb testing.TB, slug string) {
	tb.Helper()
	s, err := w.book.Sale(tb.Context(), slug)
	require.NoError(tb, err)
	for _, l := range stock.LanesOf(&s) {
		require.NoError(tb, w.lanes.Judge().Drain(tb.Context(), l, &s))
	}
}

// openFast is openSale for a sale on the fast path.
func (w *world) openFast(tb testing.TB, slug string, units int64) {
	tb.Helper()
	w.openSale(tb, slug, units, func(n *client.NewSale) { n.PreferredPath = "fast" })
	s := want[client.AdminSale](tb, http.StatusOK, w.call(tb, w.admin, "POST "+office+"/"+slug+"/preheat", ""))
	require.Equal(tb, "fast", s.Path)
}

// waiters waits until as many requests wait for the judge.
func (w *world) waiters(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return want[client.Stats](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/stats", "")).Waiters == n
	}, patience, time.Millisecond)
}

// slips waits until as many slips lie in the trays of a sale: a buyer waits for the
// judge from before his call.
func (w *world) slips(t *testing.T, slug string, n int64) {
	t.Helper()
	s, err := w.book.Sale(t.Context(), slug)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		queued, err := w.countQueued(t.Context(), &s)
		return err == nil && queued == n
	}, patience, time.Millisecond)
}

// idOf returns the id of the order that a click stands for.
func (w *world) idOf(tb testing.TB, slug, user, key string) string {
	tb.Helper()
	s, err := w.book.Sale(tb.Context(), slug)
	require.NoError(tb, err)
	return s.OrderID(user, key).String()
}

// letterOf is a dead letter about the click "k" of a user.
func letterOf(s *sale.Sale, n byte, user string) ledger.Letter {
	return ledger.Letter{
		ID: ledger.LetterID{n}, Place: "lane 0, entry 1-0, slip 0", Cause: "the database refuses it", Raw: []byte{n, 0xff},
		Attempt: &ledger.Attempt{
			ID: s.OrderID(user, "k"), User: user, SKU: s.Items[0].SKU, Quantity: 1,
			Slip: &ledger.Slip{Epoch: s.Epoch, Terms: s.Terms, TakenAt: s.UpdatedAt},
		},
	}
}

// frailStore refuses every order of one user, until it is mended.
type frailStore struct {
	ledger.Store
	mu      sync.Mutex
	refused string
}

func (s *frailStore) refuse(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = user
}

func (s *frailStore) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	return s.Store.Update(ctx, func(tx ledger.Tx) error { return fn(&frailTx{Tx: tx, store: s}) })
}

type frailTx struct {
	ledger.Tx
	store *frailStore
}

func (tx *frailTx) Write(ctx context.Context, c *ledger.Changes) error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	for i := range c.Orders {
		if user := c.Orders[i].After.User; user != "" && user == tx.store.refused {
			return ledger.ErrConstraint
		}
	}
	return tx.Tx.Write(ctx, c)
}
