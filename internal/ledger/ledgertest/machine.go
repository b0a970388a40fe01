package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Machine leads sales through random lives: batches with repeats, payments of
// every kind, sweeps, refunds, restocks, changes of every rule, leaps of the
// clock; a lane that takes, forgets and is loaded again, slips that are judged
// late, twice, by receipt or never. After every act the sale is recounted, and every answer is compared
// with that of a MemStore which lives the same life. checks is the number of
// lives. On failure rapid prints the shortest life it can find, and its seed.
func Machine(t *testing.T, open func(t *testing.T) World, checks int) {
	t.Helper()
	subject, twin := newWorld(t, open(t)), newWorld(t, MemWorld(t))
	lives, failing := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if lives++; lives > checks && !failing {
			return
		}
		failing = true    // until the end is reached: rapid comes back to shorten the life
		if lives%5 == 0 { // a MemStore copies everything it ever saw
			subject, twin = newWorld(t, open(t)), newWorld(t, MemWorld(t))
		}
		how := settingGen().Draw(rt, "setting")
		a, b := newLife(t, subject, how), newLife(t, twin, how)
		for _, o := range rapid.SliceOfN(opGen(how.verbs()), 30, 80).Draw(rt, "life") {
			said, expected := a.live(o), b.live(o)
			require.Equal(rt, expected, said, "%+v", o)
			require.Equal(rt, b.portrait(), a.portrait(), "after %+v", o)
			require.Empty(rt, a.recount(), "after %+v", o)
		}
		failing = false
	})
}

const (
	lifeUsers    = 2 // few, so that acts meet
	lifeKeys     = 5
	lifePayments = 40
)

// op is one act of a life. Which members count depends on the verb.
type op struct {
	Verb   string
	Clicks []opClick
	Slot   int  // an order: user × lifeKeys + key
	Heir   bool // its replacement instead
	Charge int
	Flag   bool
	N      int64
}

// setting is what a life begins with.
type setting struct {
	Stock    [2]int64
	Rule     sale.LimitRule
	Patience int64
	Fast     bool // it knows the fast path
}

func settingGen() *rapid.Generator[setting] {
	return rapid.Custom(func(t *rapid.T) setting {
		return setting{
			Stock: [2]int64{
				rapid.SampledFrom([]int64{4, 2, 8, 1}).Draw(t, "stock"), rapid.SampledFrom([]int64{2, 1, 0}).Draw(t, "free stock"),
			},
			Rule:     rapid.SampledFrom([]sale.LimitRule{sale.LimitLive, sale.LimitEverPaid}).Draw(t, "rule"),
			Patience: rapid.SampledFrom([]int64{0, 3, 2, 1}).Draw(t, "patience"),
			Fast:     rapid.SampledFrom([]bool{false, true, true}).Draw(t, "fast"),
		}
	})
}

// verbs are the acts that a life may do; rapid prefers what comes first.
func (s setting) verbs() []string {
	verbs := []string{
		"buy", "pay", "lapse", "buy", "cancel", "refund", "buy", "pay", "buy", "cancel", "refund", "lapse", "underpay", "fail", "sweep",
		"expire", "done", "restock", "limit", "rule", "price", "hold", "patience", "pause", "resume", "resume", "end", "wait", "wait",
	}
	if s.Fast {
		return append(fastVerbs(), verbs...)
	}
	return verbs
}

// opClick is one attempt of a batch.
type opClick struct {
	Slot     int
	Item     int
	Quantity int64
}

func opGen(verbs []string) *rapid.Generator[op] {
	slot := rapid.IntRange(0, lifeUsers*lifeKeys-1)
	charge := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, lifePayments-1), rapid.IntRange(0, lifePayments-1)) // some are told again
	clicks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) opClick {
		return opClick{
			Slot: slot.Draw(t, "slot"), Item: rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2}).Draw(t, "item"),
			Quantity: rapid.SampledFrom([]int64{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 0}).Draw(t, "quantity"),
		}
	}), 1, 6)
	verb := rapid.SampledFrom(verbs)
	return rapid.Custom(func(t *rapid.T) op {
		o := op{Verb: verb.Draw(t, "verb")}
		switch o.Verb {
		case "buy", "take":
			o.Clicks = clicks.Draw(t, "clicks")
		case "cancel", "expire":
			o.Slot = slot.Draw(t, "slot")
		case "pay", "underpay", "fail":
			o.Slot, o.Charge = slot.Draw(t, "slot"), charge.Draw(t, "charge")
			o.Heir = rapid.IntRange(0, 7).Draw(t, "heir") == 7
		case "refund":
			o.Slot, o.Flag, o.Heir = slot.Draw(t, "slot"), rapid.Bool().Draw(t, "restock"), rapid.IntRange(0, 3).Draw(t, "heir") == 3
		case "settle", "finish", "build":
			o.N, o.Flag = rapid.Int64Range(1, 4).Draw(t, "slips"), rapid.IntRange(0, 3).Draw(t, "lost") == 3
		case "done", "present", "withdraw":
			o.Charge = charge.Draw(t, "charge")
		case "restock":
			o.N, o.Flag = rapid.Int64Range(-4, 3).Draw(t, "add"), rapid.Bool().Draw(t, "item")
		case "limit", "patience":
			o.N = rapid.Int64Range(0, 4).Draw(t, "n")
		case "rule":
			o.Flag = rapid.Bool().Draw(t, "ever paid")
		case "end":
			o.Flag = rapid.IntRange(0, 3).Draw(t, "now") < 3
		case "price":
			o.N = rapid.SampledFrom([]int64{0, 1, 100, 2500}).Draw(t, "price")
		case "hold", "wait":
			o.N = rapid.SampledFrom([]int64{1, 999, 1000, 1001, 30_000, 60_000, 600_000}).Draw(t, "ms")
		}
		return o
	})
}

// life is a sale that is led through acts in one world. Its answers hold no
// order ids and no instants, so that two lives can be compared.
type life struct {
	t    *testing.T
	w    *world
	sale sale.Sale
	born time.Time
	lane lane
}

func newLife(t *testing.T, w *world, how setting) *life {
	t.Helper()
	s := w.open(t, func(s *sale.Sale) {
		s.PerUserLimit, s.MaxUnpaidHolds, s.CoolDown, s.Hold, s.LimitRule = 3, how.Patience, time.Minute, 30*time.Second, how.Rule
		s.Items = []sale.Item{{SKU: "A", Stock: how.Stock[0], Price: 100}, {SKU: "B", Stock: how.Stock[1], Price: 0}}
	})
	l := &life{t: t, w: w, sale: s, born: w.now(t)}
	if how.Fast {
		l.build(t.Context(), false)
	}
	return l
}

func slotNames(slot int) (user, key string) {
	return fmt.Sprint("user-", slot/lifeKeys), fmt.Sprint("key-", slot%lifeKeys)
}

// id names the order of a slot.
func (l *life) id(slot int) sale.OrderID {
	user, key := slotNames(slot)
	return l.sale.OrderID(user, key)
}

// heir names the order that may take the place of a slot's.
func (l *life) heir(slot int) sale.OrderID {
	user, _ := slotNames(slot)
	return sale.ReplacementID(l.sale.Key, user, l.id(slot))
}

// order names the order that an act is about.
func (l *life) order(o op) sale.OrderID {
	if o.Heir {
		return l.heir(o.Slot)
	}
	return l.id(o.Slot)
}

func (l *life) since(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Sub(l.born).String()
}

func (l *life) told(o *sale.Order) string {
	return fmt.Sprintf("%s %s×%d %d%s terms %d v%d epoch %d %s %s expires %s ended %s", o.User, o.SKU, o.Quantity, o.Amount, o.Currency,
		o.Terms, o.Version, o.Epoch, o.State, o.Reason, l.since(o.ExpiresAt), l.since(o.EndedAt))
}

// live does one act and returns the answer.
func (l *life) live(o op) string {
	ctx := l.t.Context()
	switch o.Verb {
	case "buy":
		return l.buy(ctx, o.Clicks)
	case "cancel":
		user, _ := slotNames(o.Slot)
		after, err := l.w.ledger.Cancel(ctx, l.id(o.Slot), user)
		return l.answer(l.told(&after), err)
	case "pay", "underpay", "fail":
		return l.pay(ctx, o)
	case "lapse":
		l.w.Advance(time.Minute)
		return l.sweep(ctx)
	case "sweep":
		return l.sweep(ctx)
	case "expire":
		n, err := l.w.ledger.Expire(ctx, []sale.OrderID{l.id(o.Slot)})
		return l.answer(strconv.Itoa(n), err)
	case "refund":
		after, err := l.w.ledger.Refund(ctx, l.order(o), ledger.Refunding{Restock: o.Flag})
		return l.answer(l.told(&after), err)
	case "done":
		r, err := l.w.ledger.RefundDone(ctx, sale.DeriveRefundID(l.charge(o.Charge)))
		return l.answer(fmt.Sprint(r.Amount, r.Currency, r.Reason, r.State, l.since(r.DoneAt)), err)
	case "wait":
		l.w.Advance(time.Duration(o.N) * time.Millisecond)
		return ""
	}
	if said, done := l.liveFast(ctx, o); done {
		return said
	}
	after, err := l.w.ledger.ChangeSale(ctx, l.sale.Slug, 0, l.changeOf(o))
	return l.answer(fmt.Sprintf("%s v%d terms %d %+v", after.State, after.Version, after.Terms, after.Items), err)
}

// answer says what went well, or the code of the refusal.
func (l *life) answer(said string, err error) string {
	if err == nil {
		return said
	}
	require.NotEqual(l.t, sale.CodeUnavailable, sale.CodeOf(err), "%v", err)
	return string(sale.CodeOf(err))
}

func (l *life) buy(ctx context.Context, clicks []opClick) string {
	attempts := make([]ledger.Attempt, 0, len(clicks))
	for _, c := range clicks {
		user, key := slotNames(c.Slot)
		attempts = append(attempts, ledger.Attempt{
			ID: l.sale.OrderID(user, key), User: user, SKU: []string{"A", "B", "C"}[c.Item], Quantity: c.Quantity,
		})
	}
	return l.reserve(ctx, attempts)
}

// now returns the sale as it is.
func (l *life) now(ctx context.Context) sale.Sale {
	s, err := l.w.ledger.SaleByNumber(ctx, l.sale.Number)
	require.NoError(l.t, err)
	return s
}

func (l *life) reserve(ctx context.Context, attempts []ledger.Attempt) string {
	epoch := l.now(ctx).Epoch
	out, err := l.w.ledger.Reserve(ctx, ledger.Batch{Sale: l.sale.Number, Epoch: epoch, Attempts: attempts})
	if errors.Is(err, ledger.ErrWrongEpoch) {
		return "wrong epoch"
	}
	require.NoError(l.t, err)
	var said strings.Builder
	for i := range out.Results {
		r := &out.Results[i]
		require.NoError(l.t, r.Err)
		fmt.Fprintf(&said, "%s left %d retry %s: %s\n", r.Verdict, r.Left, l.since(r.RetryAt), l.told(&r.Order))
	}
	return said.String()
}

func (l *life) charge(n int) string { return fmt.Sprint("charge-", l.sale.Number, "-", n) }

func (l *life) pay(ctx context.Context, o op) string {
	p := sale.Payment{ID: l.charge(o.Charge), Order: l.order(o), Status: sale.PaymentSucceeded, Amount: 1, Currency: "EUR"}
	if order, err := l.w.ledger.Order(ctx, p.Order); err == nil {
		p.Amount = order.Amount
	}
	switch o.Verb {
	case "underpay":
		p.Amount = max(0, p.Amount-1)
	case "fail":
		p.Status = sale.PaymentFailed
	}
	paid, err := l.w.ledger.Pay(ctx, p)
	return l.answer(string(paid.Outcome)+" "+l.told(&paid.Order), err)
}

func (l *life) sweep(ctx context.Context) string {
	// Not from Due: holds of earlier lives wait in the same world.
	waiting, err := l.w.ledger.ListOrders(ctx, ledger.OrderFilter{Sale: l.sale.Number, State: sale.Reserved, Limit: 1000})
	require.NoError(l.t, err)
	ids := make([]sale.OrderID, 0, len(waiting))
	for i := range waiting {
		ids = append(ids, waiting[i].ID)
	}
	n, err := l.w.ledger.Expire(ctx, ids)
	return l.answer(strconv.Itoa(n), err)
}

func (l *life) changeOf(o op) sale.Change {
	c := sale.Change{Action: sale.ActionUpdate}
	switch o.Verb {
	case "restock":
		sku := "A"
		if o.Flag {
			sku = "B"
		}
		return sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: sku, Add: o.N}}
	case "pause":
		return sale.Change{Action: sale.ActionPause}
	case "resume":
		return sale.Change{Action: sale.ActionResume}
	case "limit":
		c.Patch.PerUserLimit = &o.N
	case "patience":
		c.Patch.MaxUnpaidHolds = &o.N
	case "price":
		c.Patch.Items = []sale.ItemPatch{{SKU: "A", Price: &o.N}}
	case "hold":
		c.Patch.Hold = new(time.Duration(o.N) * time.Millisecond)
	case "rule":
		c.Patch.LimitRule = new(sale.LimitLive)
		if o.Flag {
			c.Patch.LimitRule = new(sale.LimitEverPaid)
		}
	case "end":
		end := l.w.now(l.t)
		if o.Flag {
			end = end.Add(24 * time.Hour)
		}
		c.Patch.StartsAt, c.Patch.EndsAt = new(l.born.Add(-time.Hour)), &end
	}
	return c
}

// portrait is the sale, its orders, holders and money as text without ids.
func (l *life) portrait() string {
	ctx := l.t.Context()
	var said strings.Builder
	require.NoError(l.t, l.w.Store.Snapshot(ctx, func(r ledger.Reader) error {
		said.Reset()
		rec, err := r.SaleByNumber(ctx, l.sale.Number)
		if err != nil {
			return err
		}
		fmt.Fprintf(&said, "%s v%d terms %d %s %d of %d row %d %+v\n", rec.State, rec.Version, rec.Terms, rec.Path, rec.Epoch, rec.BuildToken, rec.Seq, rec.Items)
		said.WriteString(l.lane.portrait())
		var ids []sale.OrderID
		for slot := range lifeUsers * lifeKeys {
			ids = append(ids, l.id(slot), l.heir(slot))
		}
		found, err := r.OrdersByID(ctx, ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if o, ok := found[id]; ok {
				said.WriteString(l.told(&o) + "\n")
			}
		}
		for n := range lifePayments {
			row, known, readErr := r.Payment(ctx, l.charge(n))
			if readErr != nil {
				return readErr
			}
			fmt.Fprintf(&said, "%d %v %s %d %s %s\n", n, known, row.Status, row.Amount, row.Outcome, l.since(row.At))
		}
		var holders []string
		err = r.EachHolder(ctx, l.sale.Number, func(h ledger.Holder) error {
			if h == (ledger.Holder{User: h.User}) {
				return nil // a store may keep a row for a buyer who counts for nothing
			}
			holders = append(holders, fmt.Sprintf("%s live %d refunded %d unpaid %d cap %d cool %s\n",
				h.User, h.Live, h.Refunded, h.Unpaid, h.Cap, l.since(h.CoolUntil)))
			return nil
		})
		slices.Sort(holders) // a store may have them in any order
		said.WriteString(strings.Join(holders, ""))
		return err
	}))
	return said.String()
}

func (l *life) recount() []string {
	var found []string
	require.NoError(l.t, l.w.Store.Snapshot(l.t.Context(), func(r ledger.Reader) error {
		var err error
		found, err = Recount(l.t.Context(), r, l.sale.Number)
		return err
	}))
	return found
}
