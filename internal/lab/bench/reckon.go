package bench

import (
	"fmt"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
)

// reckoning compares what a crowd was told with the server's account. It is a function
// of the two that knows the promises and none of the product's rules, so that a server
// which tells two stories is caught.
type reckoning struct {
	cast    *buyers.Cast
	books   *buyers.Books
	told    []buyers.Order
	account *account
	item    string // what was asked for; empty where the sale has one item
	ours    bool   // the sale was made for this crowd
	refused int64  // answers and judgements that said sold_out
	answers int64  // of all kinds
	queued  int64  // orders that still waited for their judgement before the account was read
}

// check enters one fact; the format describes it where it is not as promised.
func (c *Check) check(ok bool, format string, args ...any) { //nolint:revive // an assertion takes its condition
	c.Checked++
	if ok {
		return
	}
	if c.Broken++; c.Broken == 1 {
		c.Example = fmt.Sprintf(format, args...)
	}
}

// checks returns one check a promise. What an answer broke by itself counts in the
// check of its promise.
func (r *reckoning) checks() []Check {
	all := []Check{r.neverOversold(), r.neverUndersold(), r.limit(), r.refusedAreRefused(), r.once(), r.noPhantom(), r.money(), r.honest()}
	for _, f := range r.books.Faults() {
		for i := range all {
			if all[i].Promise == f.Promise {
				all[i].Broken += f.Count
				all[i].Checked = max(all[i].Checked, all[i].Broken)
				if all[i].Example == "" {
					all[i].Example = f.Example
				}
				break
			}
		}
	}
	return all
}

func live(o *client.Order) bool {
	return o.State == client.StateReserved || o.State == client.StatePaid
}

// neverOversold: the units of live orders are no more than there are, and as many as
// the sale counts.
func (r *reckoning) neverOversold() Check {
	c := Check{Promise: "P1", Text: "never more units sold than there are"}
	held := make(map[string]int64)
	for _, o := range r.account.orders {
		if live(&o) {
			held[o.SKU] += o.Quantity
		}
	}
	for i := range r.account.sale.Items {
		it := &r.account.sale.Items[i]
		c.check(held[it.SKU] <= it.Stock, "orders hold %d units of %s; there are %d", held[it.SKU], it.SKU, it.Stock)
		c.check(!r.account.steady || held[it.SKU] == it.Sold, "orders hold %d units of %s; the sale counts %d as sold", held[it.SKU], it.SKU, it.Sold)
	}
	return c
}

// neverUndersold: who was told sold out, was told so because all was sold or had been
// until something came back.
func (r *reckoning) neverUndersold() Check {
	c := Check{Promise: "P2", Text: "nobody was told sold out while units were left that nobody had had"}
	if r.refused == 0 || !r.account.steady {
		return c
	}
	var back, free int64
	for _, o := range r.account.orders {
		if !live(&o) && r.asked(o.SKU) {
			back += o.Quantity
		}
	}
	for i := range r.account.sale.Items {
		if it := &r.account.sale.Items[i]; r.asked(it.SKU) {
			free += it.Left
		}
	}
	c.Checked = r.refused
	if taken := r.waiting(); free > back+taken {
		c.Broken = free - back - taken
		c.Example = fmt.Sprintf("%d units are free and only %d ever came back, and %d buyers were told sold_out", free, back, r.refused)
	}
	return c
}

// waiting returns how many units the orders may have that were still queued: their
// stock is taken, and the account, which is the ledger's, does not know of it yet.
// What others than the crowd have queued may be as many units as the limit.
func (r *reckoning) waiting() int64 {
	units, others := int64(0), r.queued
	for i := range r.told {
		if o := &r.told[i]; others > 0 && r.pending(o) {
			units += o.Quantity
			others--
		}
	}
	return units + others*r.account.sale.PerUserLimit
}

// pending reports whether all that was told of an order is that it is queued, and the
// account has none.
func (r *reckoning) pending(o *buyers.Order) bool {
	_, exists := r.account.orders[o.ID]
	return !exists && o.Seen == buyers.Queued
}

// asked reports whether the crowd asked for an item.
func (r *reckoning) asked(sku string) bool { return r.item == "" || r.item == sku }

// limit: nobody holds more than the sale allows.
func (r *reckoning) limit() Check {
	c := Check{Promise: "P3", Text: "nobody holds more units than the limit per buyer"}
	held := make(map[string]int64)
	for _, o := range r.account.orders {
		if live(&o) {
			held[o.User] += o.Quantity
		}
	}
	for user, units := range held {
		c.check(units <= r.account.sale.PerUserLimit, "%s holds %d units; the limit is %d", user, units, r.account.sale.PerUserLimit)
	}
	return c
}

// refusedAreRefused: an order of one of the crowd is one that he was told of, unless an
// answer to him was lost.
func (r *reckoning) refusedAreRefused() Check {
	c := Check{Promise: "P3", Text: "no order exists of which its buyer was told that he has none"}
	if !r.ours {
		return c // users of an earlier crowd may be here again
	}
	known := make(map[string]bool, len(r.told))
	for i := range r.told {
		known[r.told[i].ID] = true
	}
	number := make(map[string]int32, r.cast.Size())
	for i := range int32(r.cast.Size()) { //nolint:gosec // bounded by buyers.MostBuyers
		number[r.cast.User(i)] = i
	}
	for id, o := range r.account.orders {
		// Others may find the sale too.
		if buyer, comes := number[o.User]; comes {
			c.check(known[id] || o.Replaces != "" || r.books.Unsure(buyer), "order %s of %s exists, and he was never told of it", id, o.User)
		}
	}
	return c
}

// once: one click is one order.
func (r *reckoning) once() Check {
	c := Check{Promise: "P4", Text: "one click is at most one order, told to its buyer alone and always the same"}
	type click struct {
		buyer int32
		click int16
	}
	first := make(map[click]string, len(r.told))
	for i := range r.told {
		o := &r.told[i]
		if o.Click < 0 {
			continue
		}
		k := click{o.Buyer, o.Click}
		other, twice := first[k]
		c.check(!twice, "click %d of %s became the orders %s and %s", o.Click, r.cast.User(o.Buyer), other, o.ID)
		first[k] = o.ID
	}
	return c
}

// noPhantom: what was told of an order is what the server holds. As many orders as the
// server said are still queued are left out: they need not be written yet.
func (r *reckoning) noPhantom() Check {
	c := Check{Promise: "P5", Text: "every order that a buyer was told of exists as he was told, for him"}
	queued := r.queued
	for i := range r.told {
		o := &r.told[i]
		held, exists := r.account.orders[o.ID]
		if queued > 0 && r.pending(o) {
			queued--
			continue
		}
		if !exists {
			c.check(false, "%s was told of order %s (%v); the server has none", r.cast.User(o.Buyer), o.ID, o.Seen)
			continue
		}
		user := r.cast.User(o.Buyer)
		c.check(user == "" || user == held.User, "order %s was told to %s and is %s's", o.ID, user, held.User)
		c.check(o.Quantity == held.Quantity && o.Amount == held.Amount && o.Currency == held.Currency,
			"order %s was told as %d for %d %s and is %d for %d %s", o.ID, o.Quantity, o.Amount, o.Currency, held.Quantity, held.Amount, held.Currency)
		c.check(mayBecome(o.Seen, held.State), "order %s was told as %v and is %s", o.ID, o.Seen, held.State)
	}
	return c
}

// mayBecome reports whether an order that was seen in some states may be in another in
// the end.
func mayBecome(seen buyers.States, now string) bool {
	before := map[string]buyers.States{
		client.StateReserved:  0,
		client.StatePaid:      buyers.Reserved,
		client.StateCancelled: buyers.Reserved,
		client.StateExpired:   buyers.Reserved,
		client.StateRejected:  0,
		client.StateRefunded:  buyers.Reserved | buyers.Paid,
	}
	may, final := before[now]
	return final && seen&^(may|buyers.Queued|buyers.StateOf(now)) == 0
}

// The outcomes of a charge, as the API writes them.
const (
	outcomePaid           = "paid"
	outcomeAlreadyPaid    = "already_paid"
	outcomeRefundRequired = "refund_required"
)

// money: each charge paid one order or is to go back, as the shop was told.
func (r *reckoning) money() Check {
	c := Check{Promise: "P7", Text: "each charge paid exactly one order or is to be given back"}
	payers := make(map[string]string)
	for id, o := range r.account.orders {
		if o.PaymentID == "" {
			continue
		}
		other, twice := payers[o.PaymentID]
		c.check(!twice, "charge %s paid the orders %s and %s", o.PaymentID, other, id)
		payers[o.PaymentID] = id
	}
	for i := range r.told {
		o := &r.told[i]
		if !o.Charged {
			continue
		}
		charge := buyers.PaymentID(o.ID)
		paid := payers[charge]
		_, back := r.account.refunds[charge]
		switch o.Outcome {
		case outcomePaid, outcomeAlreadyPaid:
			c.check(paid != "", "charge %s was told to have paid, and no order says so", charge)
		case outcomeRefundRequired:
			c.check(back && paid == "", "charge %s was told to go back; recorded: %t, paid order %q", charge, back, paid)
		case "": // nobody knows what the server made of it
			c.check(paid == "" || !back, "charge %s paid order %s and is to go back too", charge, paid)
		default:
			c.check(false, "charge %s came to %q", charge, o.Outcome)
		}
	}
	return c
}

// honest: what the books found wrong in answers by themselves is entered by checks.
func (r *reckoning) honest() Check {
	return Check{Promise: "P9", Text: "no answer was an internal error, and each 503 said when to come back", Checked: r.answers}
}

// sold sums up what became of the stock.
func (a *account) sold() SoldReport {
	var s SoldReport
	for _, o := range a.orders {
		switch o.State {
		case client.StateReserved:
			s.Reserved += o.Quantity
		case client.StatePaid:
			s.Paid += o.Quantity
		}
	}
	for i := range a.sale.Items {
		s.Free += a.sale.Items[i].Left
	}
	s.Oversold = max(0, s.Reserved+s.Paid-a.stock())
	return s
}
