package ledgertest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Recount proves the promises P1–P4, P6 and P7 of one sale from its orders,
// payments, refunds and journal, and compares the counters that the store keeps
// (sold, holders, journal end) with what it counted. It returns one sentence for
// each thing that is wrong; none is good. r must see one instant.
func Recount(ctx context.Context, r ledger.Reader, n sale.Number) ([]string, error) {
	b := &books{replay: newReplay(), stored: make(map[sale.OrderID]sale.Order), holders: make(map[string]ledger.Holder)}
	if err := b.read(ctx, r, n); err != nil {
		return nil, err
	}
	for i := range b.entries {
		b.replay.row(&b.entries[i])
	}
	b.compareJournal()
	b.compareOrders()
	b.compareCounters()
	b.compareTerms()
	b.compareMoney()
	return b.replay.problems, nil
}

// books is everything that a store has about one sale, and its replay.
type books struct {
	rec      ledger.Record
	terms    []ledger.Terms
	stored   map[sale.OrderID]sale.Order
	holders  map[string]ledger.Holder
	payments []ledger.PaymentRow
	refunds  []sale.Refund
	buyers   []uint64
	entries  []ledger.Entry
	replay   *replay
}

func (b *books) read(ctx context.Context, r ledger.Reader, n sale.Number) error {
	var err error
	if b.rec, err = r.SaleByNumber(ctx, n); err != nil {
		return err
	}
	if b.terms, err = r.TermsOf(ctx, n); err != nil {
		return err
	}
	if b.buyers, err = r.Buyers(ctx, n); err != nil {
		return err
	}
	if b.entries, err = allRows(ctx, r, n); err != nil {
		return err
	}
	if err = r.EachOrder(ctx, n, func(o sale.Order) error {
		if _, twice := b.stored[o.ID]; twice {
			b.replay.wrong("P4 order %v is stored twice", o.ID)
		}
		b.stored[o.ID] = o
		return nil
	}); err != nil {
		return err
	}
	if err = r.EachHolder(ctx, n, func(h ledger.Holder) error {
		b.holders[h.User] = h
		return nil
	}); err != nil {
		return err
	}
	if err = r.EachPayment(ctx, n, func(p ledger.PaymentRow) error {
		b.payments = append(b.payments, p)
		return nil
	}); err != nil {
		return err
	}
	return r.EachRefund(ctx, n, func(f sale.Refund) error {
		b.refunds = append(b.refunds, f)
		return nil
	})
}

// allRows reads a journal to its end, page by page.
func allRows(ctx context.Context, r ledger.Reader, n sale.Number) ([]ledger.Entry, error) {
	var out []ledger.Entry
	for {
		after := uint64(0)
		if len(out) > 0 {
			after = out[len(out)-1].Seq
		}
		page, err := r.Rows(ctx, n, after, 500)
		if err != nil || len(page) == 0 {
			return out, err
		}
		out = append(out, page...)
	}
}

func (b *books) compareJournal() {
	p := b.replay
	if !p.adopting.IsZero() {
		p.wrong("P2 the journal ends where the lane was to adopt %v", p.adopting)
	}
	if p.seq != b.rec.Seq || p.head != b.rec.Head {
		p.wrong("journal: it ends at row %d, the sale says %d", p.seq, b.rec.Seq)
	}
	if want := bodyOf(&b.rec.Sale); !equalBodies(p.sale, want) {
		p.wrong("journal: the last act left %+v, the sale is %+v", p.sale, want)
	}
}

func (b *books) compareOrders() {
	p := b.replay
	for id, o := range b.stored {
		if o != p.orders[id] {
			p.wrong("journal: order %v is rebuilt as %+v but stored as %+v", id, p.orders[id], o)
		}
	}
	for id := range p.orders {
		if _, found := b.stored[id]; !found {
			p.wrong("journal: order %v was born but is not stored", id)
		}
	}
	users := make(map[string]bool)
	for _, o := range b.stored {
		users[o.User] = true
	}
	want := make([]uint64, 0, len(users))
	for user := range users {
		want = append(want, sale.UserHash(user))
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(b.buyers)); !slices.Equal(slices.Compact(want), slices.Compact(got)) {
		p.wrong("buyers: %d hashes, want %d", len(got), len(want))
	}
}

// compareCounters counts units and limits from the stored orders alone.
func (b *books) compareCounters() {
	sold, live, refunded := make(map[string]int64), make(map[string]int64), make(map[string]int64)
	for _, o := range b.stored {
		switch {
		case o.State.Live():
			sold[o.SKU] += o.Quantity
			live[o.User] += o.Quantity
		case o.State == sale.Refunded:
			refunded[o.User] += o.Quantity
		}
	}
	p := b.replay
	for i := range b.rec.Items {
		it := &b.rec.Items[i]
		if it.Sold != sold[it.SKU] {
			p.wrong("counter: item %s has %d sold, the orders say %d", it.SKU, it.Sold, sold[it.SKU])
		}
		if it.Sold > it.Stock {
			p.wrong("P1 item %s has %d sold of %d", it.SKU, it.Sold, it.Stock)
		}
	}
	for user := range maps.Keys(p.holders) {
		if _, found := b.holders[user]; !found {
			p.wrong("counter: user %q has no holder row", user)
		}
	}
	for user, h := range b.holders {
		want := p.holder(user)
		if h.Live != live[user] || h.Refunded != refunded[user] || h.Unpaid != want.unpaid || !h.CoolUntil.Equal(want.cool) {
			p.wrong("counter: holder %q is %+v, the orders say live %d refunded %d, the journal unpaid %d cool until %v",
				user, h, live[user], refunded[user], want.unpaid, want.cool)
		}
		if h.Live > h.Cap || h.Cap != want.cap {
			p.wrong("P3 holder %q is %+v, the limit was %d when units were last given", user, h, want.cap)
		}
	}
}

func (b *books) compareTerms() {
	p := b.replay
	if len(b.terms) != len(p.terms) {
		p.wrong("terms: %d are kept, %d were in force", len(b.terms), len(p.terms))
	}
	for _, t := range b.terms {
		want := p.terms[t.Number]
		if t.Currency != want.Currency || t.Hold != want.Hold || !slices.Equal(t.Prices, want.Prices) {
			p.wrong("terms: %d are %+v, want %+v", t.Number, t, want)
		}
	}
}

// compareMoney proves P7: each captured charge belongs to exactly one paid order
// or exactly one refund record.
func (b *books) compareMoney() {
	p := b.replay
	paid, back := make(map[string][]sale.Order), make(map[string][]sale.Refund)
	for _, o := range b.stored {
		if o.PaymentID != "" {
			paid[o.PaymentID] = append(paid[o.PaymentID], o)
		}
		if needs := o.Amount > 0 && (o.State == sale.Paid || o.State == sale.Refunded); needs != (o.PaymentID != "") {
			p.wrong("P7 order %v is %s with payment %q", o.ID, o.State, o.PaymentID)
		}
	}
	for _, f := range b.refunds {
		back[f.PaymentID] = append(back[f.PaymentID], f)
		if f.ID != sale.DeriveRefundID(f.PaymentID) {
			p.wrong("P7 refund %v is not the one of payment %q", f.ID, f.PaymentID)
		}
		if p.refunds[f.ID.String()] != f.State {
			p.wrong("journal: refund %v is %s, the journal says %q", f.ID, f.State, p.refunds[f.ID.String()])
		}
	}
	if len(p.refunds) != len(b.refunds) {
		p.wrong("journal: %d refund records, the journal says %d", len(b.refunds), len(p.refunds))
	}
	for i := range b.payments {
		row := &b.payments[i]
		if why := misbooked(row, paid[row.ID], back[row.ID]); why != "" {
			p.wrong("P7 payment %+v: %s", *row, why)
		}
		delete(paid, row.ID)
		delete(back, row.ID)
	}
	for id := range paid {
		p.wrong("P7 an order was paid by %q, which was never booked", id)
	}
	for id := range back {
		p.wrong("P7 a refund returns %q, which was never booked", id)
	}
}

func misbooked(row *ledger.PaymentRow, paid []sale.Order, back []sale.Refund) string {
	if row.Status == sale.PaymentFailed || row.Amount == 0 {
		if len(paid)+len(back) > 0 {
			return "nothing was captured"
		}
		return ""
	}
	if len(paid) > 1 || len(back) > 1 {
		return fmt.Sprintf("%d orders and %d refund records", len(paid), len(back))
	}
	if len(back) == 1 && (back[0].Amount != row.Amount || back[0].Currency != row.Currency) {
		return "the refund record is about other money"
	}
	if len(paid) == 0 {
		if len(back) != 1 || back[0].Reason == sale.ReasonRefunded || row.Outcome != sale.OutcomeRefundRequired || !row.PaidOrder.IsZero() {
			return "it paid nothing, so one refund record must say why"
		}
		return ""
	}
	o := &paid[0]
	switch {
	case o.Amount != row.Amount || o.Currency != row.Currency:
		return "the order costs something else"
	case row.Outcome != sale.OutcomePaid || row.PaidOrder != o.ID:
		return "it paid an order and does not say so"
	case row.Order != o.ID && row.Order != o.Replaces:
		return "it paid another order"
	case (o.State == sale.Refunded) != (len(back) == 1):
		return fmt.Sprintf("its order is %s and it has %d refund records", o.State, len(back))
	case len(back) == 1 && back[0].Reason != sale.ReasonRefunded:
		return "a refunded order's charge goes back for another reason"
	}
	return ""
}
