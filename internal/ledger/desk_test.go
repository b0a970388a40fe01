package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/sale"
)

func noon() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }

// record is a live sale with 5 shoes at 100, 3 a buyer, and 2 free socks.
func record() Record {
	return Record{Seq: 7, Head: [32]byte{7}, Sale: sale.Sale{
		Number: 9, Slug: "drop", Key: sale.Key{1}, State: sale.Published, Terms: 4, Version: 6, Path: sale.PathDirect, Epoch: 2,
		Rules: sale.Rules{
			StartsAt: noon().Add(-time.Hour), EndsAt: noon().Add(time.Hour), PerUserLimit: 3, LimitRule: sale.LimitLive,
			Hold: time.Minute, MaxUnpaidHolds: 2, CoolDown: 10 * time.Minute, Currency: "EUR", Preferred: sale.PathFast,
		},
		Items: []sale.Item{{SKU: "shoe", Stock: 5, Sold: 2, Price: 100}, {SKU: "sock", Stock: 2}},
	}}
}

func bid(r *Record, user, key, sku string, quantity int64) *Attempt {
	return &Attempt{ID: r.OrderID(user, key), User: user, SKU: sku, Quantity: quantity}
}

// Each row breaks one more rule than the row before it, so each verdict also
// shows which rule speaks first.
func TestRefusalPrecedence(t *testing.T) {
	t.Parallel()
	type setting struct {
		rec    Record
		holder Holder
		at     time.Time
		bid    *Attempt
	}
	s := setting{rec: record(), at: noon()}
	s.bid = bid(&s.rec, "ann", "k", "shoe", 2)
	for _, step := range []struct {
		name string
		add  func()
		want sale.Verdict
	}{
		{"nothing wrong", func() {}, sale.Taken},
		{"one left", func() { s.rec.Items[0].Sold = 4 }, sale.Insufficient},
		{"none left", func() { s.rec.Items[0].Sold = 5 }, sale.SoldOut},
		{"more sold than there is", func() { s.rec.Items[0].Sold = 6 }, sale.SoldOut},
		{"cooling down", func() { s.holder.CoolUntil = noon().Add(time.Millisecond) }, sale.CoolDown},
		{"over the limit", func() { s.holder.Live = 2 }, sale.LimitReached},
		{"other terms", func() { s.bid.Expected = &Money{Amount: 199, Currency: "EUR"} }, sale.TermsChanged},
		{"too many", func() { s.bid.Quantity = 4 }, sale.BadQuantity},
		{"no such item", func() { s.bid.SKU = "boot" }, sale.NoSuchItem},
		{"paused", func() { s.rec.State = sale.Paused }, sale.PausedNow},
		{"not started", func() { s.at = s.rec.StartsAt.Add(-time.Millisecond) }, sale.NotStarted},
		{"ended", func() { s.at = s.rec.EndsAt }, sale.Ended},
		{"closed", func() { s.rec.State = sale.Closed }, sale.ClosedNow},
		{"draft", func() { s.rec.State = sale.Draft }, sale.NoSuchSale},
		{"deleted", func() { s.rec.State = sale.Deleted }, sale.NoSuchSale},
	} {
		step.add()
		rec := s.rec
		rec.Sale = s.rec.Clone()
		d := newDesk(rec, s.at)
		if s.holder != (Holder{}) {
			d.holders["ann"] = s.holder
		}
		require.Equal(t, step.want, d.attempt(s.bid).Verdict, step.name)
		c, err := d.changes()
		require.NoError(t, err)
		require.Equal(t, step.want == sale.Taken, c != nil, "%s: a refusal writes nothing", step.name)

		d = newDesk(rec, s.at)
		d.orders[s.bid.ID] = sale.Order{ID: s.bid.ID, User: "ann", SKU: "shoe", Quantity: 2, State: sale.Expired}
		again := *s.bid
		again.SKU, again.Quantity = "shoe", 2
		require.Equal(t, sale.Replayed, d.attempt(&again).Verdict, "%s: replay comes first", step.name)
	}
}

func TestRefusalEdges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		edit   func(*Record)
		holder Holder
		bid    Attempt
		want   sale.Verdict
		retry  time.Time
	}{
		{name: "to the limit", holder: Holder{Live: 1}, bid: Attempt{SKU: "shoe", Quantity: 2}, want: sale.Taken},
		{name: "one above the limit", holder: Holder{Live: 2}, bid: Attempt{SKU: "shoe", Quantity: 2}, want: sale.LimitReached},
		{name: "refunded counts not when live", holder: Holder{Refunded: 3}, bid: Attempt{SKU: "shoe", Quantity: 3}, want: sale.Taken},
		{name: "refunded counts for ever", edit: func(r *Record) { r.LimitRule = sale.LimitEverPaid }, holder: Holder{Refunded: 1, Live: 1}, bid: Attempt{SKU: "shoe", Quantity: 2}, want: sale.LimitReached},
		{name: "limit lowered below what is held", edit: func(r *Record) { r.PerUserLimit = 1 }, holder: Holder{Live: 3}, bid: Attempt{SKU: "shoe", Quantity: 1}, want: sale.LimitReached},
		{name: "cool-down ends at its instant", holder: Holder{CoolUntil: noon()}, bid: Attempt{SKU: "shoe", Quantity: 1}, want: sale.Taken},
		{name: "cool-down says when", holder: Holder{CoolUntil: noon().Add(time.Second)}, bid: Attempt{SKU: "shoe", Quantity: 1}, want: sale.CoolDown, retry: noon().Add(time.Second)},
		{name: "all that is left", bid: Attempt{SKU: "shoe", Quantity: 3}, want: sale.Taken},
		{name: "zero", bid: Attempt{SKU: "shoe"}, want: sale.BadQuantity},
		{name: "below zero", bid: Attempt{SKU: "shoe", Quantity: math.MinInt64}, want: sale.BadQuantity},
		{name: "beyond counting", bid: Attempt{SKU: "shoe", Quantity: math.MaxInt64}, want: sale.BadQuantity},
		{name: "which item", bid: Attempt{Quantity: 1}, want: sale.NoSuchItem},
		{name: "agreed amount", bid: Attempt{SKU: "shoe", Quantity: 2, Expected: &Money{200, "EUR"}}, want: sale.Taken},
		{name: "agreed unit price", bid: Attempt{SKU: "shoe", Quantity: 2, Expected: &Money{100, "EUR"}}, want: sale.TermsChanged},
		{name: "agreed in dollars", bid: Attempt{SKU: "shoe", Quantity: 2, Expected: &Money{200, "USD"}}, want: sale.TermsChanged},
		{name: "agreed on nothing", bid: Attempt{SKU: "sock", Quantity: 1, Expected: &Money{0, "EUR"}}, want: sale.Taken},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec := record()
			if c.edit != nil {
				c.edit(&rec)
			}
			d := newDesk(rec, noon())
			d.holders["ann"] = c.holder
			c.bid.ID, c.bid.User = rec.OrderID("ann", "k"), "ann"
			r := d.attempt(&c.bid)
			require.Equal(t, c.want, r.Verdict)
			require.Equal(t, c.retry, r.RetryAt)
		})
	}
}

func TestShut(t *testing.T) {
	t.Parallel()
	rec := record()
	for _, c := range []struct {
		state sale.State
		at    time.Time
		want  sale.Verdict
	}{
		{sale.Published, rec.StartsAt.Add(-time.Millisecond), sale.NotStarted},
		{sale.Published, rec.StartsAt, ""},
		{sale.Published, rec.EndsAt.Add(-time.Millisecond), ""},
		{sale.Published, rec.EndsAt, sale.Ended},
		{sale.Paused, rec.StartsAt.Add(-time.Millisecond), sale.NotStarted},
		{sale.Paused, rec.StartsAt, sale.PausedNow},
		{sale.Paused, rec.EndsAt, sale.Ended},
		{sale.Closed, rec.StartsAt, sale.ClosedNow},
		{sale.Closed, rec.EndsAt, sale.ClosedNow},
		{sale.Draft, rec.StartsAt, sale.NoSuchSale},
		{sale.Deleted, rec.StartsAt, sale.NoSuchSale},
	} {
		s := rec.Clone()
		s.State = c.state
		require.Equal(t, c.want, Shut(&s, c.at), "%s at %v", c.state, c.at)
	}
}

// Every way for a notice to meet an order, by the rules of P7.
func TestBooking(t *testing.T) {
	t.Parallel()
	const (
		right = "right"
		much  = "much"
		other = "other currency"
		none  = "nothing"
		fail  = "failed"
	)
	free := map[string]sale.Outcome{
		right: sale.OutcomeAlreadyPaid, none: sale.OutcomeAlreadyPaid, fail: sale.OutcomeRecorded,
		much: sale.OutcomeRefundRequired, other: sale.OutcomeAlreadyPaid,
	}
	for name, want := range map[string]map[string]sale.Outcome{
		"reserved":  {right: sale.OutcomePaid},
		"paid":      {right: sale.OutcomeRefundRequired},
		"cancelled": {right: sale.OutcomePaid},
		"expired":   {right: sale.OutcomePaid},
		"replaced":  {right: sale.OutcomeRefundRequired},
		"refunded":  {right: sale.OutcomeRefundRequired},
		"free":      free,
	} {
		for notice, outcome := range map[string]sale.Outcome{
			right: want[right], much: sale.OutcomeRefundRequired, other: sale.OutcomeRefundRequired,
			none: sale.OutcomeRecorded, fail: sale.OutcomeRecorded,
		} {
			if name == "free" {
				outcome = free[notice]
			}
			rec := record()
			d := newDesk(rec, noon())
			d.holders["ann"] = Holder{User: "ann", Live: 2, Cap: 3}
			o := sale.Order{ID: rec.OrderID("ann", "k"), User: "ann", SKU: "shoe", Quantity: 1, Amount: 100, Currency: "EUR", State: sale.OrderState(name), Version: 1}
			switch name {
			case "replaced":
				o.State = sale.Expired
				heir := sale.ReplacementID(rec.Key, "ann", o.ID)
				d.orders[heir] = sale.Order{ID: heir, State: sale.Paid}
			case "free":
				o.State, o.Amount = sale.Paid, 0
			}
			d.orders[o.ID] = o
			p := sale.Payment{ID: "p", Order: o.ID, Status: sale.PaymentSucceeded, Amount: o.Amount, Currency: "EUR"}
			switch notice {
			case much:
				p.Amount++
			case other:
				p.Currency = "USD"
			case none:
				p.Amount = 0
			case fail:
				p.Status = sale.PaymentFailed
			}
			paid := d.book(p, o, noon().Add(-time.Second))
			require.Equal(t, outcome, paid.Outcome, "%s, %s", name, notice)
			require.Len(t, d.out.Payments, 1)
			row := d.out.Payments[0]
			require.Equal(t, PaymentRow{Payment: p, Outcome: outcome, PaidOrder: row.PaidOrder, At: noon().Add(-time.Second)}, row)
			require.Equal(t, outcome == sale.OutcomePaid, !row.PaidOrder.IsZero(), "%s, %s", name, notice)
			require.Equal(t, outcome == sale.OutcomeRefundRequired, len(d.out.Refunds) == 1, "%s, %s", name, notice)
			if outcome == sale.OutcomePaid {
				require.Equal(t, row.PaidOrder, paid.Order.ID)
				require.Equal(t, sale.Paid, paid.Order.State)
				continue
			}
			require.Equal(t, o, paid.Order)
			require.Empty(t, d.out.Orders)
		}
	}
}

func TestChangesHoldersInOrder(t *testing.T) {
	t.Parallel()
	rec := record()
	rec.Items[0].Stock = 100
	d := newDesk(rec, noon())
	for _, user := range []string{"zoe", "ann", "mia", "bob", "Zoe", "leo"} {
		require.Equal(t, sale.Taken, d.attempt(bid(&rec, user, "k", "shoe", 1)).Verdict)
	}
	c, err := d.changes()
	require.NoError(t, err)
	users := make([]string, 0, len(c.Holders))
	for _, h := range c.Holders {
		users = append(users, h.User)
	}
	require.Equal(t, []string{"Zoe", "ann", "bob", "leo", "mia", "zoe"}, users, "holders are locked by user")
}

// deskProperty lets a batch of any attempts and releases pass the desk: what it
// wants written is always consistent with itself and within stock and limit.
func deskProperty(t *rapid.T) {
	rec := record()
	rec.PerUserLimit = rapid.Int64Range(1, 4).Draw(t, "limit")
	rec.MaxUnpaidHolds = rapid.Int64Range(0, 3).Draw(t, "patience")
	before := rec.Clone()
	d := newDesk(rec, noon())
	live := map[string]int64{}
	for range rapid.IntRange(1, 30).Draw(t, "acts") {
		user := rapid.SampledFrom([]string{"ann", "bob", "cid"}).Draw(t, "user")
		a := bid(&rec, user, rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "key"),
			rapid.SampledFrom([]string{"shoe", "sock", "boot"}).Draw(t, "item"), rapid.Int64Range(-1, 5).Draw(t, "quantity"))
		old, known := d.orders[a.ID]
		if known && old.State == sale.Reserved && rapid.Bool().Draw(t, "release") {
			require.NoError(t, d.release(old, rapid.SampledFrom([]sale.OrderState{sale.Cancelled, sale.Expired}).Draw(t, "end")))
			live[user] -= old.Quantity
			continue
		}
		r := d.attempt(a)
		require.Equal(t, known, r.Verdict == sale.Replayed || r.Verdict == sale.KeyMismatch)
		if r.Verdict == sale.Taken {
			live[user] += a.Quantity
		}
		require.LessOrEqual(t, live[user], rec.PerUserLimit)
	}
	c, err := d.changes()
	require.NoError(t, err)
	if c == nil {
		return
	}
	requireConsistent(t, c, &before)
	for _, h := range c.Holders {
		require.Equal(t, live[h.User], h.Live)
		require.LessOrEqual(t, h.Live, h.Cap)
	}
}

// requireConsistent checks a set of changes against the sale it was made for.
func requireConsistent(t *rapid.T, c *Changes, before *sale.Sale) {
	sold := make([]int64, len(before.Items))
	states := make(map[sale.OrderID]sale.OrderState)
	for _, ch := range c.Orders {
		from, known := states[ch.After.ID]
		if !known {
			from = sale.Queued
		}
		require.Equal(t, from, ch.From)
		require.True(t, from.CanBecome(ch.After.State))
		states[ch.After.ID] = ch.After.State
		item, err := before.Item(ch.After.SKU)
		require.NoError(t, err)
		if ch.After.State.Live() {
			sold[item] += ch.After.Quantity
		} else {
			sold[item] -= ch.After.Quantity
		}
		require.LessOrEqual(t, before.Items[item].Sold+sold[item], before.Items[item].Stock, "after each row")
	}
	require.Equal(t, sold, c.Sold)
	require.Len(t, c.Entries, len(c.Orders))
	prev := c.Entries[0].Hash
	for i := range c.Entries {
		require.Equal(t, c.FromSeq+uint64(i)+1, c.Entries[i].Seq)
		if i > 0 {
			require.Equal(t, c.Entries[i].ChainHash(prev), c.Entries[i].Hash)
			prev = c.Entries[i].Hash
		}
	}
	require.Equal(t, c.Seq, c.Entries[len(c.Entries)-1].Seq)
	require.Equal(t, c.Head, prev)
}

func TestDeskProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, deskProperty)
}

func FuzzDesk(f *testing.F) { f.Fuzz(rapid.MakeFuzz(deskProperty)) }

// The bodies are read by people outside: their members must not move.
func TestBodies(t *testing.T) {
	t.Parallel()
	rec := record()
	o := sale.Order{
		ID: sale.OrderID{1}, User: "ann", SKU: "shoe", Quantity: 2, Terms: 4, Amount: 200, Currency: "EUR", State: sale.Paid,
		Epoch: 2, Version: 2, ExpiresAt: time.UnixMilli(1_800_000_000_123), PaymentID: "p", Replaces: sale.OrderID{15: 1},
	}
	for want, body := range map[string]any{
		`{"from":"reserved","state":"paid","version":2,"user":"ann","item":"shoe","quantity":2,"terms":4,"amount":200,"currency":"EUR","epoch":2,` +
			`"expires_at":1800000000123,"payment_id":"p","replaces":"ord_aaaaaaaaaaaaaaaaaaaaaaaaae"}`: orderBody(sale.Reserved, &o),
		`{"from":"","state":"","version":0,"user":"","item":"","quantity":0,"terms":0,"amount":0,"currency":"","epoch":0}`: orderBody("", &sale.Order{}),
		fmt.Sprintf(`{"sale":"drop","state":"published","version":6,"terms":4,"path":"direct","epoch":2,"title":"","starts_at":%d,"ends_at":%d,`+
			`"per_user_limit":3,"limit_rule":"live","hold_ms":60000,"max_unpaid_holds":2,"cool_down_ms":600000,"currency":"EUR",`+
			`"preferred_path":"fast","items":[{"item":"shoe","title":"","stock":5,"price":100},{"item":"sock","title":"","stock":2,"price":0}]}`,
			rec.StartsAt.UnixMilli(), rec.EndsAt.UnixMilli()): saleBody(&rec.Sale),
		`{"refund":"rfd_aiaaaaaaaaaaaaaaaaaaaaaaaa","payment_id":"p","amount":5,"currency":"EUR","reason":"late","state":"required"}`: refundBody(
			&sale.Refund{ID: sale.RefundID{2}, PaymentID: "p", Amount: 5, Currency: "EUR", Reason: sale.ReasonLate, State: sale.RefundRequired}),
	} {
		raw, err := encode(body)
		require.NoError(t, err)
		require.Equal(t, want, string(raw))
	}
}

// What CheckUser lets in comes out of a body byte for byte.
func FuzzOrderBodyUser(f *testing.F) {
	for _, user := range []string{"ann", "<&>", "\u2028", "\U0001F9A5", "e\u0301", "\ufffd", `"\`} {
		f.Add(user)
	}
	f.Fuzz(func(t *testing.T, user string) {
		if sale.CheckUser(user) != nil {
			return
		}
		raw, err := encode(orderBody(sale.Queued, &sale.Order{User: user}))
		require.NoError(t, err)
		var back OrderBody
		require.NoError(t, json.Unmarshal(raw, &back))
		require.True(t, bytes.Equal([]byte(user), []byte(back.User)))
	})
}
