package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
)

// reckoned is a reckoning of a crowd of two, ann and ben, in a sale of two units.
func reckoned(t *testing.T, change func(*reckoning)) map[string]int64 {
	t.Helper()
	cast, err := buyers.ReadCast(strings.NewReader("ann\ta\nben\tb\n"), 0)
	require.NoError(t, err)
	order := func(id, user, state string) client.Order {
		return client.Order{ID: id, SKU: "unit", User: user, State: state, Quantity: 1, Amount: 5, Currency: "EUR"}
	}
	told := func(id string, buyer int32, seen buyers.States) buyers.Order {
		return buyers.Order{ID: id, Buyer: buyer, Quantity: 1, Amount: 5, Currency: "EUR", Seen: seen}
	}
	r := &reckoning{
		cast: cast, books: buyers.NewBooks(cast), ours: true, answers: 3, refused: 1,
		told: []buyers.Order{told("o1", 0, buyers.Reserved|buyers.Paid), told("o2", 1, buyers.Queued|buyers.Reserved)},
		account: &account{
			steady: true,
			sale:   client.AdminSale{PerUserLimit: 1, Items: []client.AdminItem{{SKU: "unit", Stock: 2, Sold: 2}}},
			orders: map[string]client.Order{"o1": order("o1", "ann", "paid"), "o2": order("o2", "ben", "reserved")},
		},
	}
	if change != nil {
		change(r)
	}
	broken := make(map[string]int64)
	for _, c := range r.checks() {
		if c.Broken > 0 {
			broken[c.Promise] += c.Broken
			assert.NotEmpty(t, c.Example)
			assert.GreaterOrEqual(t, c.Checked, c.Broken)
		}
	}
	return broken
}

// alter returns a change of one order of the account.
func alter(id string, change func(*client.Order)) func(*reckoning) {
	return func(r *reckoning) {
		o := r.account.orders[id]
		o.ID = id
		change(&o)
		r.account.orders[o.ID] = o
	}
}

func TestReckoning(t *testing.T) {
	t.Parallel()
	charged := func(outcome string) func(*reckoning) {
		return func(r *reckoning) { r.told[0].Charged, r.told[0].Outcome = true, outcome }
	}
	for name, c := range map[string]struct {
		change func(*reckoning)
		broken string // the promise; empty: none
	}{
		"all is well": {nil, ""},
		"one order too many": {alter("o3", func(o *client.Order) {
			*o = client.Order{ID: "o3", SKU: "unit", User: "eve", State: "paid", Quantity: 1}
		}), "P1"},
		"the sale counts otherwise":       {func(r *reckoning) { r.account.sale.Items[0].Sold = 1 }, "P1"},
		"it counts while something moves": {func(r *reckoning) { r.account.sale.Items[0].Sold, r.account.steady = 1, false }, ""},
		"sold out too early":              {func(r *reckoning) { r.account.sale.Items[0].Left = 1 }, "P2"},
		"sold out, and one came back": {func(r *reckoning) {
			r.account.sale.Items[0].Left = 1
			alter("o4", func(o *client.Order) { o.SKU, o.State, o.Quantity = "unit", "expired", 1 })(r)
		}, ""},
		"another item is left": {func(r *reckoning) {
			r.item = "unit"
			r.account.sale.Items = append(r.account.sale.Items, client.AdminItem{SKU: "other", Stock: 9, Left: 9})
		}, ""},
		"nobody was told sold out":         {func(r *reckoning) { r.refused, r.account.sale.Items[0].Left = 0, 1 }, ""},
		"more than the limit":              {func(r *reckoning) { r.account.sale.PerUserLimit = 0 }, "P3"},
		"an order that nobody was told of": {func(r *reckoning) { r.told = r.told[:1] }, "P3"},
		"the same in a sale of others":     {func(r *reckoning) { r.told, r.ours = r.told[:1], false }, ""},
		"an order of a passer-by":          {func(r *reckoning) { r.told = r.told[:1]; alter("o2", func(o *client.Order) { o.User = "eve" })(r) }, ""},
		"two orders of one click": {func(r *reckoning) {
			r.told[1].Buyer = 0
			alter("o2", func(o *client.Order) { o.User = "ann" })(r)
			r.account.sale.PerUserLimit = 2
		}, "P4"},
		"a late payment's second order": {func(r *reckoning) {
			r.told[1].Buyer, r.told[1].Click = 0, -1
			alter("o2", func(o *client.Order) { o.User = "ann" })(r)
			r.account.sale.PerUserLimit = 2
		}, ""},
		"an order that is not there": {func(r *reckoning) { r.told = append(r.told, buyers.Order{ID: "o9", Click: 1, Seen: buyers.Reserved}) }, "P5"},
		"an order that waits for its judgement": {func(r *reckoning) {
			r.queued = 1
			r.told = append(r.told, buyers.Order{ID: "o9", Click: 1, Quantity: 1, Seen: buyers.Queued})
		}, ""},
		"its unit is no free one": {func(r *reckoning) {
			r.queued, r.account.sale.Items[0].Left = 1, 1
			r.told = append(r.told, buyers.Order{ID: "o9", Click: 1, Quantity: 1, Seen: buyers.Queued})
		}, ""},
		"what others have queued is not free":    {func(r *reckoning) { r.queued, r.account.sale.Items[0].Left = 1, 1 }, ""},
		"more is free than what is queued":       {func(r *reckoning) { r.queued, r.account.sale.Items[0].Left = 1, 2 }, "P2"},
		"queued, and nothing is queued any more": {func(r *reckoning) { r.told = append(r.told, buyers.Order{ID: "o9", Click: 1, Seen: buyers.Queued}) }, "P5"},
		"more orders wait than are queued": {func(r *reckoning) {
			r.queued = 1
			r.told = append(r.told, buyers.Order{ID: "o8", Click: 1, Seen: buyers.Queued}, buyers.Order{ID: "o9", Click: 2, Seen: buyers.Queued})
		}, "P5"},
		"reserved is not queued": {func(r *reckoning) {
			r.queued = 1
			r.told = append(r.told, buyers.Order{ID: "o9", Click: 1, Seen: buyers.Queued | buyers.Reserved})
		}, "P5"},
		"somebody else's order":   {alter("o1", func(o *client.Order) { o.User = "eve" }), "P5"},
		"another price":           {alter("o1", func(o *client.Order) { o.Amount = 6 }), "P5"},
		"told paid, and not paid": {alter("o1", func(o *client.Order) { o.State = "reserved" }), "P5"},
		"told reserved, and rejected": {func(r *reckoning) {
			alter("o2", func(o *client.Order) { o.State = "rejected" })(r)
			r.account.sale.Items[0].Sold = 1
		}, "P5"},
		"a charge that paid": {func(r *reckoning) {
			charged("paid")(r)
			alter("o1", func(o *client.Order) { o.PaymentID = "charge-o1" })(r)
		}, ""},
		"a charge that paid nothing": {charged("already_paid"), "P7"},
		"a charge that paid twice": {func(r *reckoning) {
			alter("o1", func(o *client.Order) { o.PaymentID = "x" })(r)
			alter("o2", func(o *client.Order) { o.PaymentID = "x" })(r)
		}, "P7"},
		"a refund that is recorded": {func(r *reckoning) {
			charged("refund_required")(r)
			r.account.refunds = map[string]client.Refund{"charge-o1": {}}
		}, ""},
		"a refund that nobody recorded":   {charged("refund_required"), "P7"},
		"a charge of which nobody knows":  {charged(""), ""},
		"a charge that came to something": {charged("lost"), "P7"},
		"a charge that paid and goes back": {func(r *reckoning) {
			charged("")(r)
			alter("o1", func(o *client.Order) { o.PaymentID = "charge-o1" })(r)
			r.account.refunds = map[string]client.Refund{"charge-o1": {}}
		}, "P7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := reckoned(t, c.change)
			if c.broken == "" {
				assert.Empty(t, broken)
				return
			}
			assert.Contains(t, broken, c.broken)
			assert.Len(t, broken, 1, "no other promise is accused")
		})
	}
}
