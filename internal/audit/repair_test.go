package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// spoil writes wrong counters through the store's own door.
func (s *shop) spoil(t *testing.T, c ledger.Changes) {
	t.Helper()
	require.NoError(t, s.store.Update(t.Context(), func(tx ledger.Tx) error {
		rec, err := tx.LockSale(t.Context(), s.sale.Number)
		require.NoError(t, err)
		c.Sale, c.FromSeq, c.Seq, c.Head = rec.Number, rec.Seq, rec.Seq, rec.Head
		if c.Sold == nil {
			c.Sold = make([]int64, len(rec.Items))
		}
		return tx.Write(t.Context(), &c)
	}))
}

func TestRepairSetsWrongCounters(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.tell(t)
	before := s.capture(t)
	s.spoil(t, ledger.Changes{Sold: []int64{2, -1}, Holders: []ledger.Holder{
		{User: "bob", Live: 1, Cap: 2}, {User: "ghost", Live: 1, Cap: 2}, {User: "erin", Refunded: 0, Cap: 2, Unpaid: 1},
	}})
	report, err := Run(t.Context(), s.store, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"P2.counter", "P3.holders"}, brokenRules(&report.Sales[0]))

	done, err := Repair(t.Context(), s.store, Options{})
	require.NoError(t, err)
	require.Equal(t, Repaired{Sales: []RepairedSale{{
		Number: 1, Slug: "summer-drop", Holders: 3,
		Items: []RepairedItem{{SKU: priced, Was: 6, Is: 4}, {SKU: free, Was: 2, Is: 3}},
	}}}, done)

	report, err = Run(t.Context(), s.store, Options{})
	require.NoError(t, err)
	require.False(t, report.Broken(), "%s", text(t, &report))
	after := s.capture(t)
	require.Equal(t, before.facts, after.facts, "the journal has not moved")
	require.Equal(t, before.orders, after.orders)
	for _, h := range after.holders {
		if h.User == "erin" {
			require.EqualValues(t, 1, h.Unpaid, "only what is derivable was set")
		}
	}

	done, err = Repair(t.Context(), s.store, Options{})
	require.NoError(t, err)
	require.Empty(t, done.Sales, "repeated, it does nothing")
}

func TestRepairRestoresAMissingHolder(t *testing.T) {
	t.Parallel()
	w := story(t)
	c := newRecount(Options{})
	w.holders = nil
	w.pour(c)
	c.finish()
	require.Len(t, c.fixes, 7) // all but those who count for nothing
	for _, h := range c.fixes {
		require.EqualValues(t, 2, h.Cap)
		require.Positive(t, h.Live+h.Refunded)
	}
}

func TestRepairLeavesAHealthySaleAlone(t *testing.T) {
	t.Parallel()
	store := ledgertest.NewMemStore()
	s := newShopOver(t, store, store.Advance)
	s.tell(t)
	fired := store.AbortAt(1) // any write transaction would fail
	done, err := Repair(t.Context(), s.store, Options{})
	require.NoError(t, err)
	require.Empty(t, done.Sales)
	require.False(t, fired())
}

// A counter derived from order rows that do not follow from the journal would
// only hide the fault.
func TestRepairRefusesWhatItCannotDerive(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.tell(t)
	bob := s.sale.OrderID("bob", "click")
	found, err := s.store.Read().OrdersByID(t.Context(), []sale.OrderID{bob})
	require.NoError(t, err)
	o := found[bob]
	o.Epoch++ // a row changed behind the journal's back
	s.spoil(t, ledger.Changes{Sold: []int64{1, 0}, Orders: []ledger.OrderChange{{From: o.State, After: o}}})

	done, err := Repair(t.Context(), s.store, Options{})
	require.NoError(t, err)
	require.Len(t, done.Sales, 1)
	require.Contains(t, done.Sales[0].Refused, "P8.order is broken")
	report, err := Run(t.Context(), s.store, Options{})
	require.NoError(t, err)
	require.Contains(t, brokenRules(&report.Sales[0]), "P2.counter", "nothing was written")
}
