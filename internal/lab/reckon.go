package lab

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// account is what the server says in the end, read through the admin API.
type account struct {
	sale    client.AdminSale
	orders  []client.Order
	refunds []client.Refund
}

// Promise is one promise as the crowd can judge it from outside.
type Promise struct {
	Name    string   `json:"name"`
	Checked int      `json:"checked"`           // facts that were compared
	Broken  int      `json:"broken"`            // how many of them break it
	Details []string `json:"details,omitempty"` // the first of these
}

const maxDetails = 10

// check enters one fact; the format describes it where it is not as promised.
func (p *Promise) check(ok bool, format string, args ...any) { //nolint:revive // an assertion takes its condition
	p.Checked++
	if ok {
		return
	}
	p.Broken++
	if len(p.Details) < maxDetails {
		p.Details = append(p.Details, fmt.Sprintf(format, args...))
	}
}

// reckoning compares the books with the account.
type reckoning struct {
	answers   []answer
	notices   []notice
	sightings []sighting
	troubles  []trouble
	account   account
	orders    map[string]client.Order  // the server's, by id
	refunds   map[string]client.Refund // the server's, by payment
}

// reckon compares what the crowd was told with what the server holds in the
// end, when nobody is asking any more.
func (b *books) reckon(a account) []Promise {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := reckoning{
		answers: b.answers, notices: b.notices, sightings: b.sightings, troubles: b.troubles, account: a,
		orders: make(map[string]client.Order, len(a.orders)), refunds: make(map[string]client.Refund, len(a.refunds)),
	}
	for i := range a.orders {
		r.orders[a.orders[i].ID] = a.orders[i]
	}
	for i := range a.refunds {
		r.refunds[a.refunds[i].PaymentID] = a.refunds[i]
	}
	return []Promise{r.soldOnce(), r.limit(), r.once(), r.truth(), r.steady(), r.money(), r.honest()}
}

// soldOnce: every unit is paid in the end, and at no time did more buyers hold
// units than there are.
func (r *reckoning) soldOnce() Promise {
	p := Promise{Name: "every unit is paid by one buyer: none oversold, none left over"}
	for i := range r.account.orders {
		o := &r.account.orders[i]
		p.check(o.State != stateReserved, "order %s is still reserved", o.ID)
	}
	paid, most := r.account.paid(), peak(r.account.orders)
	for i := range r.account.sale.Items {
		it := &r.account.sale.Items[i]
		p.check(paid == it.Stock, "%d units are paid of a stock of %d", paid, it.Stock)
		p.check(most <= it.Stock, "%d units were held at one time of a stock of %d", most, it.Stock)
		p.check(it.Sold == it.Stock && it.Left == 0, "the server counts %d of %d units as sold and %d as left", it.Sold, it.Stock, it.Left)
	}
	p.check(len(r.account.sale.Items) == 1, "the sale has %d items instead of one", len(r.account.sale.Items))
	return p
}

// paid returns how many units paid orders hold.
func (a *account) paid() int64 {
	var units int64
	for i := range a.orders {
		if a.orders[i].State == statePaid {
			units += a.orders[i].Quantity
		}
	}
	return units
}

// peak returns the most units that the orders held at one time, by the instants
// the server gave them. What ends in the millisecond in which something else
// begins is taken to have ended before.
func peak(orders []client.Order) int64 {
	type step struct {
		at    time.Time
		units int64
	}
	steps := make([]step, 0, 2*len(orders))
	for i := range orders {
		o := &orders[i]
		if o.State == stateRejected {
			continue
		}
		steps = append(steps, step{o.ReservedAt, o.Quantity})
		if o.State != stateReserved && o.State != statePaid && o.EndedAt != nil {
			steps = append(steps, step{*o.EndedAt, -o.Quantity})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.units, b.units)) })
	var held, most int64
	for _, s := range steps {
		held += s.units
		most = max(most, held)
	}
	return most
}

// limit: nobody ever held more than the sale allows.
func (r *reckoning) limit() Promise {
	p := Promise{Name: "nobody ever had more units than the limit per buyer"}
	byUser := make(map[string][]client.Order)
	for i := range r.account.orders {
		o := &r.account.orders[i]
		byUser[o.User] = append(byUser[o.User], *o)
	}
	for user, orders := range byUser {
		most := peak(orders)
		p.check(most <= r.account.sale.PerUserLimit, "%s held %d units; the limit is %d", user, most, r.account.sale.PerUserLimit)
	}
	return p
}

// click is what a buyer means to be one purchase, however often he sends it.
type click struct{ user, key string }

// once: one click is at most one order, and stays it.
func (r *reckoning) once() Promise {
	p := Promise{Name: "one click makes at most one order, however often it is sent"}
	clicks := make(map[click][]*answer)
	owner := make(map[string]click)
	for i := range r.answers {
		a := &r.answers[i]
		c := click{a.user, a.key}
		clicks[c] = append(clicks[c], a)
		if a.order == nil {
			continue
		}
		first, known := owner[a.order.ID]
		p.check(!known || first == c, "order %s was given to %s (%s) and to %s (%s)", a.order.ID, first.user, first.key, a.user, a.key)
		if !known {
			owner[a.order.ID] = c
		}
	}
	for c, all := range clicks {
		if len(all) > 1 {
			p.sameClick(c, all)
		}
	}
	return p
}

// sameClick compares all answers to one click.
func (p *Promise) sameClick(c click, all []*answer) {
	var first *answer // the one whose order was heard of first
	births := 0
	for _, a := range all {
		if a.verdict == taken {
			births++
		}
		if a.order != nil && (first == nil || a.heard < first.heard) {
			first = a
		}
	}
	p.check(births <= 1, "%s (%s) was answered %d times with a new order", c.user, c.key, births)
	if first == nil {
		return
	}
	for _, a := range all {
		switch {
		case a.order != nil:
			p.check(a.order.ID == first.order.ID, "%s (%s) became the orders %s and %s", c.user, c.key, first.order.ID, a.order.ID)
		case a.sent > first.heard && a.verdict.decided():
			p.check(false, "%s (%s) had order %s and was then told %s", c.user, c.key, first.order.ID, a.verdict)
		}
	}
}

// truth: whatever anybody was told about an order is what the server holds, and
// it holds no order that nobody knows of.
func (r *reckoning) truth() Promise {
	p := Promise{Name: "what buyers were told is what the ledger holds"}
	told := make(map[string]bool, len(r.orders))
	for i := range r.sightings {
		s := &r.sightings[i]
		told[s.order.ID] = true
		held, ok := r.orders[s.order.ID]
		p.check(ok, "%s was told of order %s (%s), which the server does not hold", s.user, s.order.ID, s.order.State)
		if !ok {
			continue
		}
		p.check(sameFacts(&s.order, &held) && held.User == s.user, "order %s was shown to %s as %s and is %s of %s",
			held.ID, s.user, facts(&s.order), facts(&held), held.User)
		p.check(mayFollow(s.order.State, held.State), "%s was told that order %s is %s; it is %s", s.user, held.ID, s.order.State, held.State)
	}
	unheard := make(map[string]bool)
	for i := range r.answers {
		if a := &r.answers[i]; !a.verdict.decided() {
			unheard[a.user] = true
		}
	}
	for id, o := range r.orders {
		p.check(told[id] || unheard[o.User], "order %s of %s exists and nobody was told", id, o.User)
	}
	return p
}

func sameFacts(a, b *client.Order) bool {
	return a.Sale == b.Sale && a.SKU == b.SKU && a.Quantity == b.Quantity && a.Amount == b.Amount && a.Currency == b.Currency
}

func facts(o *client.Order) string {
	return fmt.Sprintf("%d × %s of %s for %d %s", o.Quantity, o.SKU, o.Sale, o.Amount, o.Currency)
}

// steady: an order never goes back to a state it has left.
func (r *reckoning) steady() Promise {
	p := Promise{Name: "an order that has ended stays ended"}
	byOrder := make(map[string][]*sighting)
	for i := range r.sightings {
		id := r.sightings[i].order.ID
		byOrder[id] = append(byOrder[id], &r.sightings[i])
	}
	for id, all := range byOrder {
		slices.SortFunc(all, func(a, b *sighting) int { return cmp.Compare(a.heard, b.heard) })
		for i, before := range all {
			for _, after := range all[i+1:] {
				if after.sent < before.heard {
					continue // asked at the same time: either may be the older view
				}
				p.check(mayFollow(before.order.State, after.order.State), "order %s was %s and later %s", id, before.order.State, after.order.State)
			}
		}
	}
	return p
}

// money: each charge has paid one order or must go back, never both or neither.
func (r *reckoning) money() Promise {
	p := Promise{Name: "each charge paid exactly one order or is to be given back"}
	payers := make(map[string]string, len(r.notices)) // order by the payment that paid it
	for i := range r.account.orders {
		o := &r.account.orders[i]
		if o.State != statePaid {
			continue
		}
		other, twice := payers[o.PaymentID]
		p.check(!twice, "charge %s paid the orders %s and %s", o.PaymentID, other, o.ID)
		payers[o.PaymentID] = o.ID
	}
	sent := make(map[string]bool, len(r.notices))
	for i := range r.notices {
		n := &r.notices[i]
		sent[n.payment] = true
		order, paid := payers[n.payment]
		refund, back := r.refunds[n.payment]
		p.check(paid != back, "charge %s for order %s: paid %t, to be given back %t", n.payment, n.order, paid, back)
		switch n.outcome {
		case outcomePaid, outcomeAlreadyPaid:
			p.check(paid && order == n.after.ID, "charge %s was told to have paid order %s; it paid %q", n.payment, n.after.ID, order)
		case outcomeRefundRequired:
			p.check(back && refund.Amount == n.amount, "charge %s of %d was told to go back; the record says %d", n.payment, n.amount, refund.Amount)
		default:
			p.check(false, "charge %s for order %s came to %q", n.payment, n.order, n.outcome)
		}
	}
	for payment, order := range payers {
		p.check(sent[payment], "order %s is paid by charge %q, which nobody made", order, payment)
	}
	return p
}

// The outcomes of a notice, as the API writes them.
const (
	outcomePaid           = "paid"
	outcomeAlreadyPaid    = "already_paid"
	outcomeRefundRequired = "refund_required"
)

// honest: trouble is told as trouble; a server that is up answers.
func (r *reckoning) honest() Promise {
	p := Promise{Name: "every call got an answer, and no answer was an internal error"}
	for i := range r.answers {
		a := &r.answers[i]
		// Trouble that passes is told as 503 and says when to come back.
		passing := a.status == http.StatusServiceUnavailable && a.pause > 0
		p.check(a.verdict != unanswered && (a.status < http.StatusInternalServerError || passing),
			"%s (%s) was answered %s with status %d, to be repeated after %v", a.user, a.key, a.verdict, a.status, a.pause)
	}
	for _, t := range r.troubles {
		p.check(false, "%s: %s failed with %s (status %d)", t.user, t.what, t.code, t.status)
	}
	return p
}
