package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// fastRecord is record on the fast path.
func fastRecord() Record {
	rec := record()
	rec.Path, rec.Epoch = sale.PathFast, 5
	return rec
}

// asSlip is a bid that the lane in force took a second ago.
func asSlip(r *Record, a *Attempt) *Attempt {
	a.Slip = &Slip{Epoch: r.Epoch, Terms: r.Terms, TakenAt: noon().Add(-time.Second)}
	return a
}

// Each row breaks one more rule than the row before it, so each reason also shows
// which rule speaks first. What the lane has judged is not judged again.
func TestRejectionPrecedence(t *testing.T) {
	t.Parallel()
	type setting struct {
		rec    Record
		holder Holder
		slip   *Attempt
	}
	s := setting{rec: fastRecord()}
	s.slip = asSlip(&s.rec, bid(&s.rec, "ann", "k", "shoe", 2))
	s.slip.Expected = &Money{Amount: 1, Currency: "USD"} // the lane has compared it
	for _, step := range []struct {
		name   string
		add    func()
		reason sale.RejectReason
		want   sale.Verdict
	}{
		{"nothing wrong", func() {}, "", sale.Taken},
		{"paused, ended", func() { s.rec.State, s.rec.EndsAt = sale.Paused, noon().Add(-time.Second) }, "", sale.Taken},
		{"closed", func() { s.rec.State = sale.Closed }, "", sale.Taken},
		{"one left", func() { s.rec.Items[0].Sold = 4 }, sale.RejectedSoldOut, sale.Insufficient},
		{"none left", func() { s.rec.Items[0].Sold = 5 }, sale.RejectedSoldOut, sale.SoldOut},
		{"changed since", func() { s.rec.UpdatedAt = noon() }, sale.RejectedStock, sale.SoldOut},
		{"cooling down", func() { s.holder.CoolUntil = noon() }, sale.RejectedCoolDown, sale.CoolDown},
		{"over the limit", func() { s.holder.Live = 2 }, sale.RejectedLimit, sale.LimitReached},
		{"too late", func() { s.slip.Slip.TakenAt = noon().Add(-MaxQueued - time.Millisecond) }, sale.RejectedLate, sale.SoldOut},
		{"deleted", func() { s.rec.State = sale.Deleted }, sale.RejectedSale, sale.NoSuchSale},
		{"unknown terms", func() { s.slip.Slip.Terms = 3 }, sale.RejectedSlip, sale.NoSuchItem},
		{"no such item", func() { s.slip.SKU = "boot" }, sale.RejectedSlip, sale.NoSuchItem},
	} {
		step.add()
		rec := s.rec
		rec.Sale = s.rec.Clone()
		d := newDesk(rec, noon())
		d.holders["ann"] = s.holder
		r := d.attempt(s.slip)
		require.Equal(t, step.want, r.Verdict, step.name)
		require.Equal(t, step.reason, r.Order.Reason, step.name)
		require.Equal(t, d.orders[s.slip.ID], r.Order, step.name)
		c, err := d.changes()
		require.NoError(t, err)
		require.Len(t, c.Orders, 1, "%s: it becomes an order whatever happens", step.name)
		require.Equal(t, step.reason == "", len(c.Holders) == 1, "%s: a rejection touches nobody", step.name)
	}
}

// slipProperty lets slips of every kind pass the desk: each becomes one order, the
// lane is told where it must be and nowhere else, and stock and limit hold.
func slipProperty(t *rapid.T) {
	rec := fastRecord()
	rec.Path = rapid.SampledFrom([]sale.Path{sale.PathFast, sale.PathFast, sale.PathDirect}).Draw(t, "path")
	rec.PerUserLimit = rapid.Int64Range(1, 4).Draw(t, "limit")
	rec.UpdatedAt = noon().Add(-rapid.SampledFrom([]time.Duration{time.Hour, 0}).Draw(t, "changed"))
	d := newDesk(rec, noon())
	d.terms = []Terms{{Number: 3, Currency: "USD", Hold: time.Hour, Prices: []int64{7, sale.MaxInteger}}}
	stock := rec.Clone()
	for range rapid.IntRange(1, 30).Draw(t, "slips") {
		user := rapid.SampledFrom([]string{"ann", "bob", "cid"}).Draw(t, "user")
		a := bid(&rec, user, rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "key"),
			rapid.SampledFrom([]string{"shoe", "shoe", "sock", "boot", ""}).Draw(t, "item"), rapid.Int64Range(1, 5).Draw(t, "quantity"))
		a.Slip = &Slip{
			Epoch: rapid.Int64Range(3, 5).Draw(t, "epoch"), Terms: rapid.Int64Range(2, 4).Draw(t, "terms"),
			TakenAt:   noon().Add(-rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, -time.Minute}).Draw(t, "age")),
			Presented: rapid.Bool().Draw(t, "presented"),
		}
		old, known := d.orders[a.ID]
		if known && old.State == sale.Reserved && rapid.IntRange(0, 3).Draw(t, "end") == 0 {
			require.NoError(t, d.release(old, sale.Cancelled))
			old = d.orders[a.ID]
		}
		rows := len(d.out.Entries)
		r := d.attempt(a)
		require.NoError(t, r.Err)
		require.Equal(t, d.orders[a.ID], r.Order)
		require.Equal(t, toldOf(d, a, &old, &r), kindsOf(d.out.Entries[rows:]))
		for i := range stock.Items {
			require.LessOrEqual(t, d.rec.Items[i].Sold, stock.Items[i].Stock)
		}
		require.LessOrEqual(t, d.holder(user).Live, rec.PerUserLimit)
	}
	_, err := d.changes()
	require.NoError(t, err)
}

func kindsOf(rows []Entry) []Kind {
	out := make([]Kind, 0, len(rows))
	for i := range rows {
		out = append(out, rows[i].Kind)
	}
	return out
}

// toldOf says which rows a slip must have written, in words of its own.
func toldOf(d *desk, a *Attempt, old *sale.Order, r *Result) []Kind {
	out := []Kind{}
	fresh := old.ID.IsZero()
	if fresh {
		out = append(out, OrderKind(r.Order.State))
	}
	if d.rec.Path == sale.PathDirect {
		return out
	}
	same := old.SKU == a.SKU && old.Quantity == a.Quantity
	switch {
	case fresh && r.Order.State.Live() && (a.Slip.Epoch != 5 || a.Slip.Presented):
		out = append(out, KindLaneAdopt)
	case !fresh && !old.State.Live():
		out = append(out, KindLaneReturn)
	case !fresh && !same:
		out = append(out, KindLaneReturn, KindLaneAdopt)
	}
	return out
}

func TestSlipProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, slipProperty)
}

func FuzzSlips(f *testing.F) { f.Fuzz(rapid.MakeFuzz(slipProperty)) }
