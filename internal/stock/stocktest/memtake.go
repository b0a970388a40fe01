package stocktest

import (
	"slices"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// memTake is one call of Take.
type memTake struct {
	lane    *memLane
	meta    *memMeta
	call    *stock.Call
	now     time.Time
	results []stock.Result
	slips   []byte
	taken   int64 // slips
}

// refusal returns why the whole call is refused, or Open.
func (t *memTake) refusal() stock.State {
	switch m := t.meta; {
	case m.frozenBy != 0:
		return stock.Frozen
	case m.epoch != t.call.Epoch:
		return stock.WrongEpoch
	case m.seq < t.call.Seen:
		return stock.Stale
	case m.rules.Terms != t.call.Terms:
		return stock.WrongTerms
	case m.queued >= m.maxQueued:
		return stock.Full
	}
	return stock.Open
}

func (t *memTake) decide() {
	t.results = make([]stock.Result, len(t.call.Attempts))
	for i := range t.call.Attempts {
		t.results[i] = t.attempt(&t.call.Attempts[i])
	}
	for i := range t.results {
		a, r := &t.call.Attempts[i], &t.results[i]
		if r.Verdict != sale.SoldOut && r.Verdict != sale.Insufficient && t.has(a.Item) {
			r.Left = max(0, t.meta.left[a.Item])
		}
	}
	if len(t.slips) == 0 {
		return
	}
	t.meta.seq++
	t.meta.queued += t.taken
	t.lane.tray.add(t.now, map[string]string{
		stock.FieldVersion: stock.EntryVersion, stock.FieldEpoch: decimal(t.call.Epoch), stock.FieldTerms: decimal(t.call.Terms),
		stock.FieldAsked: decimal(t.call.AskedAt.UnixMilli()), stock.FieldTaken: decimal(t.now.UnixMilli()),
		stock.FieldSlips: string(t.slips),
	})
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func (t *memTake) has(item int) bool { return item >= 0 && item < len(t.meta.left) }

func (t *memTake) attempt(a *stock.Attempt) stock.Result {
	buyer := t.lane.buyers[t.meta.epoch][a.User]
	for _, r := range buyer.orders {
		if r.ID != a.ID {
			continue
		}
		// A tombstone does not know what the order once held.
		if r.Item != a.Item || a.Units() == 0 || (r.Quantity != 0 && r.Quantity != a.Units()) {
			return stock.Result{Verdict: sale.KeyMismatch, Record: r}
		}
		return stock.Result{Verdict: sale.Replayed, Record: r}
	}
	if r := t.refuse(a, buyer); r.Verdict != "" {
		return r
	}
	t.meta.left[a.Item] -= a.Quantity
	t.meta.taken += a.Quantity
	r := stock.Record{ID: a.ID, Item: a.Item, Quantity: a.Quantity, Counted: a.Quantity, TakenAt: t.now}
	buyer.orders = append(slices.Clone(buyer.orders), r)
	t.lane.of(t.meta.epoch)[a.User] = buyer
	t.slips = stock.AppendSlip(t.slips, &stock.Slip{ID: a.ID, User: a.User, Item: a.Item, Quantity: a.Quantity, MAC: a.MAC})
	t.taken++
	return stock.Result{Verdict: sale.Taken, Record: r}
}

// refuse returns the first reason to refuse a fresh attempt, in the order of the
// ledger's.
func (t *memTake) refuse(a *stock.Attempt, buyer memBuyer) stock.Result {
	rules := &t.meta.rules
	switch units := a.Units(); {
	case rules.State != sale.Published && rules.State != sale.Paused:
		return stock.Result{Verdict: sale.ClosedNow}
	case !t.now.Before(millis(rules.EndsAt)):
		return stock.Result{Verdict: sale.Ended}
	case t.now.Before(millis(rules.StartsAt)):
		return stock.Result{Verdict: sale.NotStarted}
	case rules.State == sale.Paused:
		return stock.Result{Verdict: sale.PausedNow}
	case !t.has(a.Item):
		return stock.Result{Verdict: sale.NoSuchItem}
	case units == 0 || units > rules.PerUserLimit:
		return stock.Result{Verdict: sale.BadQuantity}
	case a.OtherTerms:
		return stock.Result{Verdict: sale.TermsChanged}
	case buyer.counted()+units > rules.PerUserLimit:
		return stock.Result{Verdict: sale.LimitReached}
	case t.now.Before(buyer.coolUntil):
		return stock.Result{Verdict: sale.CoolDown, RetryAt: buyer.coolUntil}
	case t.meta.left[a.Item] <= 0:
		return stock.Result{Verdict: sale.SoldOut}
	case units > t.meta.left[a.Item]:
		return stock.Result{Verdict: sale.Insufficient, Left: t.meta.left[a.Item]}
	}
	return stock.Result{}
}

func (b *memBuyer) counted() (n int64) {
	for i := range b.orders {
		n += b.orders[i].Counted
	}
	return n
}
