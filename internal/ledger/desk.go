package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// desk is the judge's desk during one transaction on one sale: what was loaded,
// what has been decided so far, what is to be written. It does no I/O and knows
// no clock but now, so every rule of the house is a plain function of it.
type desk struct {
	rec     Record
	now     time.Time
	orders  map[sale.OrderID]sale.Order // loaded, and kept current
	holders map[string]Holder           // loaded, and kept current; absent is zero
	touched map[string]bool             // holders to write
	terms   []Terms                     // loaded where a slip names other terms than the sale's
	out     Changes
	size    int   // how many orders and rows to make room for
	err     error // the first body that could not be written
}

func newDesk(rec Record, now time.Time) *desk {
	return &desk{
		rec: rec, now: now,
		orders:  make(map[sale.OrderID]sale.Order),
		holders: make(map[string]Holder),
		touched: make(map[string]bool),
		out:     Changes{Sale: rec.Number, Sold: make([]int64, len(rec.Items)), FromSeq: rec.Seq, Seq: rec.Seq, Head: rec.Head},
	}
}

// changes returns what is to be written, or nil for nothing.
func (d *desk) changes() (*Changes, error) {
	if d.err != nil || d.out.empty() {
		return nil, d.err
	}
	d.out.Holders = make([]Holder, 0, len(d.touched))
	for _, user := range slices.Sorted(maps.Keys(d.touched)) { // the lock order
		d.out.Holders = append(d.out.Holders, d.holders[user])
	}
	return &d.out, nil
}

func (c *Changes) empty() bool {
	return len(c.Entries) == 0 && len(c.Payments) == 0 && len(c.Letters) == 0 && c.Revised == nil
}

// record appends a row to the chain.
func (d *desk) record(kind Kind, order sale.OrderID, body any) {
	raw, err := encode(body)
	if err != nil {
		d.err = err
		return
	}
	e := Entry{Sale: d.rec.Number, Seq: d.out.Seq + 1, At: d.now, Kind: kind, Order: order, Body: raw}
	e.Hash = e.ChainHash(d.out.Head)
	d.out.Seq, d.out.Head = e.Seq, e.Hash
	d.out.Entries = append(begun(d.out.Entries, d.size), e)
}

// begun makes room in a list when the first row comes to it: most calls decide
// nothing, and those that do would copy the rows of a crowd many times.
func begun[T any](rows []T, size int) []T {
	if rows == nil {
		rows = make([]T, 0, size)
	}
	return rows
}

func (d *desk) holder(user string) Holder {
	h := d.holders[user]
	h.User = user
	return h
}

func (d *desk) setHolder(h Holder) {
	d.holders[h.User] = h
	d.touched[h.User] = true
}

// take moves quantity units of an item between free (negative: back) and held.
func (d *desk) take(item int, quantity int64) {
	d.rec.Items[item].Sold += quantity
	d.out.Sold[item] += quantity
}

// move writes an order's transition and its row.
func (d *desk) move(from sale.OrderState, o sale.Order) { d.moveCooling(from, o, time.Time{}) }

// moveCooling does the same for a transition that began a cool-down until coolUntil.
func (d *desk) moveCooling(from sale.OrderState, o sale.Order, coolUntil time.Time) {
	o.Version++
	if o.State.Final() {
		o.EndedAt = d.now
	}
	d.orders[o.ID] = o
	d.out.Orders = append(begun(d.out.Orders, d.size), OrderChange{From: from, After: o})
	body := orderBody(from, &o)
	body.CoolUntil = Millis(coolUntil)
	d.record(OrderKind(o.State), o.ID, body)
}

// attempt decides one attempt. Look-up comes before every refusal; a refusal
// changes nothing.
func (d *desk) attempt(a *Attempt) Result {
	if a.Slip != nil {
		return d.slip(a)
	}
	item, itemErr := d.rec.Item(a.SKU)
	if old, found := d.orders[a.ID]; found {
		return d.replay(a, old, item, itemErr)
	}
	r := d.refusal(a, item, itemErr)
	if itemErr != nil {
		return r
	}
	if r.Verdict == "" {
		d.give(a, item)
		r.Verdict, r.Order = sale.Taken, d.orders[a.ID]
	}
	r.Left = d.rec.Items[item].Left()
	return r
}

func (d *desk) replay(a *Attempt, old sale.Order, item int, itemErr error) Result {
	same := itemErr == nil && old.User == a.User && old.SKU == d.rec.Items[item].SKU && old.Quantity == a.Quantity
	if !same {
		return Result{Verdict: sale.KeyMismatch}
	}
	return Result{Verdict: sale.Replayed, Order: old, Left: d.rec.Items[item].Left()}
}

// refusal returns the first reason to refuse a fresh attempt, or an empty
// verdict. The limit comes before the stock: who has his share is told so even
// when nothing is left.
func (d *desk) refusal(a *Attempt, item int, itemErr error) Result {
	if v := Shut(&d.rec.Sale, d.now); v != "" {
		return Result{Verdict: v}
	}
	if itemErr != nil {
		return Result{Verdict: sale.NoSuchItem}
	}
	if a.Quantity < 1 || a.Quantity > d.rec.PerUserLimit {
		return Result{Verdict: sale.BadQuantity}
	}
	it := &d.rec.Items[item]
	if e := a.Expected; e != nil && (e.Currency != d.rec.Currency || e.Amount != it.Price*a.Quantity) {
		return Result{Verdict: sale.TermsChanged}
	}
	h := d.holder(a.User)
	if h.Counted(d.rec.LimitRule)+a.Quantity > d.rec.PerUserLimit {
		return Result{Verdict: sale.LimitReached}
	}
	if d.now.Before(h.CoolUntil) {
		return Result{Verdict: sale.CoolDown, RetryAt: h.CoolUntil}
	}
	return Result{Verdict: scarce(it, a.Quantity)}
}

// Shut returns the refusal that every fresh attempt on the sale meets at now,
// or an empty verdict while the sale is live.
func Shut(s *sale.Sale, now time.Time) sale.Verdict {
	switch s.Status(now) {
	case sale.StatusDraft, sale.StatusDeleted:
		return sale.NoSuchSale
	case sale.StatusClosed:
		return sale.ClosedNow
	case sale.StatusEnded:
		return sale.Ended
	case sale.StatusScheduled:
		return sale.NotStarted
	case sale.StatusPaused:
		return sale.PausedNow
	case sale.StatusLive:
	}
	return ""
}

func scarce(it *sale.Item, quantity int64) sale.Verdict {
	switch left := it.Left(); {
	case left == 0:
		return sale.SoldOut
	case quantity > left:
		return sale.Insufficient
	}
	return ""
}

// give makes the order that an accepted attempt stands for.
func (d *desk) give(a *Attempt, item int) {
	it := &d.rec.Items[item]
	o := sale.Order{
		ID: a.ID, Slug: d.rec.Slug, User: a.User, SKU: it.SKU, Quantity: a.Quantity,
		Terms: d.rec.Terms, Amount: it.Price * a.Quantity, Currency: d.rec.Currency,
		State: sale.Reserved, Epoch: d.rec.Epoch, ReservedAt: d.now, ExpiresAt: d.now.Add(d.rec.Hold),
	}
	if o.Amount == 0 { // nothing to wait for
		o.State, o.ExpiresAt = sale.Paid, time.Time{}
	}
	d.bear(o, item)
}

// bear enters a new order: units, limit, row.
func (d *desk) bear(o sale.Order, item int) {
	d.take(item, o.Quantity)
	h := d.holder(o.User)
	h.Live += o.Quantity
	h.Cap = d.rec.PerUserLimit
	if o.State == sale.Paid {
		h.Unpaid = 0
	}
	d.setHolder(h)
	d.move(sale.Queued, o)
}

// release ends a reserved order unpaid: units and limit go back, and the buyer
// is one let-go hold closer to a cool-down.
func (d *desk) release(o sale.Order, to sale.OrderState) error {
	item, err := d.rec.Item(o.SKU)
	if err != nil {
		return err
	}
	d.take(item, -o.Quantity)
	h := d.holder(o.User)
	h.Live -= o.Quantity
	d.setHolder(h)
	o.State = to
	d.moveCooling(sale.Reserved, o, d.letGo(o.User))
	return nil
}

// letGo counts a hold that ended unpaid and returns the end of the cool-down that
// it began, or the zero time.
func (d *desk) letGo(user string) (coolUntil time.Time) {
	h := d.holder(user)
	h.Unpaid++
	if limit := d.rec.MaxUnpaidHolds; limit > 0 && h.Unpaid >= limit {
		h.Unpaid, h.CoolUntil = 0, d.now.Add(d.rec.CoolDown)
		coolUntil = h.CoolUntil
	}
	d.setHolder(h)
	return coolUntil
}

// cancel ends a reserved order; a cancelled one stays as it is.
func (d *desk) cancel(o sale.Order) error {
	switch o.State {
	case sale.Cancelled:
		return nil
	case sale.Reserved:
		return d.release(o, sale.Cancelled)
	case sale.Queued, sale.Paid, sale.Expired, sale.Rejected, sale.Refunded:
	}
	return sale.IllegalState(withArticle(o.State)+" order cannot be cancelled", "only a reserved order can; a paid one can be refunded by the shop")
}

// refund ends a paid order; its units are free again.
func (d *desk) refund(o sale.Order) error {
	item, err := d.rec.Item(o.SKU)
	if err != nil {
		return err
	}
	d.take(item, -o.Quantity)
	h := d.holder(o.User)
	h.Live -= o.Quantity
	h.Refunded += o.Quantity
	d.setHolder(h)
	o.State = sale.Refunded
	d.move(sale.Paid, o)
	if o.PaymentID != "" {
		d.owe(sale.Payment{ID: o.PaymentID, Order: o.ID, Amount: o.Amount, Currency: o.Currency}, sale.ReasonRefunded)
	}
	return nil
}

// writeOff takes the units of a refunded order out of the stock, as an act on
// the sale of its own.
func (d *desk) writeOff(o sale.Order) error {
	item, err := d.rec.Item(o.SKU)
	if err != nil {
		return err
	}
	next := d.rec.Clone()
	next.Items[item].Stock -= o.Quantity
	next.Version++
	next.UpdatedAt = d.now
	d.revise(&next, sale.ActionRestock)
	return nil
}

// revise writes an act on the sale.
func (d *desk) revise(next *sale.Sale, a sale.Action) {
	if next.Terms != d.rec.Terms {
		t := termsOf(next)
		d.out.NewTerms = &t
	}
	d.rec.Sale = *next
	d.out.Revised = next
	d.record(SaleKind(a), sale.OrderID{}, saleBody(next))
}

// owe leaves the record that a captured charge must go back.
func (d *desk) owe(p sale.Payment, why sale.RefundReason) {
	r := sale.Refund{
		ID: sale.DeriveRefundID(p.ID), PaymentID: p.ID, Order: p.Order, Amount: p.Amount, Currency: p.Currency,
		Reason: why, State: sale.RefundRequired, CreatedAt: d.now,
	}
	d.out.Refunds = append(d.out.Refunds, r)
	d.record(KindRefundRequired, p.Order, refundBody(&r))
}

func termsOf(s *sale.Sale) Terms {
	t := Terms{Number: s.Terms, Currency: s.Currency, Hold: s.Hold}
	for i := range s.Items {
		t.Prices = append(t.Prices, s.Items[i].Price)
	}
	return t
}
