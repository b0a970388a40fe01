package stocktest

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// takeCases: what becomes of an attempt that is taken, and of its repeats.
func takeCases() []testCase {
	return []testCase{
		{name: "Take/a unit", run: takeUnit},
		{name: "Take/the slip", run: takeSlip},
		{name: "Take/items have their own stock and share the limit", run: takeItems},
		{name: "Take/more than there is", run: takeShort},
		{name: "Take/nothing is asked", run: takeNothing},
		{name: "Replay/the same id", run: replaySame},
		{name: "Replay/inside a batch", run: replayInside},
		{name: "Replay/another item or quantity", run: replayMismatch},
		{name: "Replay/before every refusal", run: replayFirst},
		{name: "Replay/of an order that has ended", run: replayEnded},
		{name: "Limit/over several calls", run: limitCalls},
		{name: "Limit/inside a batch", run: limitInside},
		{name: "Limit/what still counts of an ended order", run: limitCounted},
		{name: "Limit/a buyer with many orders", run: limitMany},
		{name: "Limit/users are compared byte for byte", run: limitNames},
		{name: "CoolDown/until it ends", run: coolDown},
	}
}

func takeUnit(t *testing.T, w *world) {
	w.open(t, nil)
	before := w.read(t)
	r := w.take(t, w.click("ann", "k", 2))
	require.InDelta(t, 0, w.now(t).Sub(r.At).Seconds(), 5)
	record := stock.Record{ID: w.id("ann", "k"), Quantity: 2, Counted: 2, TakenAt: r.At}
	require.Equal(t, []stock.Result{{Verdict: sale.Taken, Left: 8, Record: record}}, r.Results)
	require.Equal(t, []int64{8}, r.Left)
	require.Equal(t, before.Version, r.Version)

	after := w.read(t)
	require.Equal(t, before.Seq+1, after.Seq)
	require.Equal(t, after.Seq, r.Seq)
	require.Equal(t, before.Generation, after.Generation, "a take is none of what generations tell")
	require.Equal(t, []int64{2, 0, 1}, []int64{after.Taken, after.Returned, after.Queued})

	records, err := w.Counter.Records(t.Context(), w.Lane, "ann")
	require.NoError(t, err)
	require.Equal(t, stock.Records{State: stock.Open, Epoch: w.epoch, Orders: []stock.Record{record}}, records)
	require.Empty(t, w.records(t, "bob"))
	holders, err := w.Counter.Holders(t.Context(), w.Lane)
	require.NoError(t, err)
	require.Equal(t, stock.Holders{Epoch: w.epoch, Generation: after.Generation, Seq: after.Seq, Hashes: []uint64{sale.UserHash("ann")}}, holders)
}

func takeSlip(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Terms, s.Stock, s.Left = 3, []int64{5, 5}, []int64{5, 5} })
	two := w.click("bob", "k", 2)
	two.Item = 1
	c := w.call(t, w.click("ann", "k", 1), w.click("ann", "k", 1), two, w.click("cid", "k", 3), w.click("dan", "k", 1))
	r := w.send(t, c)
	require.Equal(t, []sale.Verdict{sale.Taken, sale.Replayed, sale.Taken, sale.BadQuantity, sale.Taken}, verdicts(r.Results))
	entries := w.look(t)
	require.Len(t, entries, 1, "one entry a call")
	slips := w.slips(t, entries)
	require.Len(t, slips, 3)
	for i, from := range []int{0, 2, 4} {
		a := &c.Attempts[from]
		require.Equal(t, stock.Slip{
			ID: a.ID, User: a.User, Item: a.Item, Quantity: a.Quantity, Epoch: w.epoch, Terms: 3,
			AskedAt: c.AskedAt, TakenAt: r.At, MAC: a.MAC,
		}, slips[i])
	}
	w.refuse(t, w.click("cid", "k", 3), sale.BadQuantity)
	require.Len(t, w.look(t), 1, "a refusal leaves no entry")
}

func takeItems(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.PerUserLimit, s.Stock, s.Left = 3, []int64{1, 2, 7}, []int64{1, 2, 7} })
	of := func(a stock.Attempt, item int) stock.Attempt {
		a.Item = item
		return a
	}
	r := w.take(
		t,
		of(w.click("ann", "1", 1), 0), of(w.click("ann", "2", 2), 1), of(w.click("ann", "3", 1), 1),
		of(w.click("bob", "1", 1), 0), of(w.click("bob", "2", 1), 3), of(w.click("bob", "3", 1), -1), of(w.click("bob", "4", 3), 2),
		of(w.click("bob", "5", 1), 254), of(w.click("bob", "6", 1), 1<<40),
	)
	want := []sale.Verdict{
		sale.Taken, sale.Taken, sale.LimitReached, sale.SoldOut, sale.NoSuchItem, sale.NoSuchItem, sale.Taken, sale.NoSuchItem, sale.NoSuchItem,
	}
	require.Equal(t, want, verdicts(r.Results))
	require.Equal(t, []int64{0, 0, 4}, r.Left)
	require.Equal(t, int64(4), r.Results[6].Left)
	require.Equal(t, []int64{0, 0, 4}, w.read(t).Left)
}

func takeShort(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{4}, []int64{4} })
	r := w.take(
		t,
		w.click("a", "k", 2), w.click("b", "k", 1), w.click("c", "k", 2), w.click("d", "k", 1), w.click("e", "k", 1), w.click("a", "k", 2),
	)
	for i, want := range []struct {
		verdict sale.Verdict
		left    int64
	}{{sale.Taken, 0}, {sale.Taken, 0}, {sale.Insufficient, 1}, {sale.Taken, 0}, {sale.SoldOut, 0}, {sale.Replayed, 0}} {
		require.Equal(t, want.verdict, r.Results[i].Verdict, "attempt %d", i)
		require.Equal(t, want.left, r.Results[i].Left, "attempt %d", i)
	}
	w.refuse(t, w.click("f", "k", 1), sale.SoldOut)
}

func takeNothing(t *testing.T, w *world) {
	w.open(t, nil)
	before := w.read(t)
	r := w.take(t)
	require.Equal(t, []int64{10}, r.Left)
	require.Equal(t, before, w.read(t))
}

func replaySame(t *testing.T, w *world) {
	w.open(t, nil)
	first := w.take(t, w.click("ann", "k", 1))
	w.take(t, w.click("bob", "k", 1))
	before := w.read(t)
	r := w.take(t, w.click("ann", "k", 1))
	require.Equal(t, []stock.Result{{Verdict: sale.Replayed, Left: 8, Record: first.Results[0].Record}}, r.Results)
	require.Equal(t, before, w.read(t), "a replay writes nothing")
	require.Equal(t, before.Seq, r.Seq)
}

func replayInside(t *testing.T, w *world) {
	w.open(t, nil)
	r := w.take(t, w.click("ann", "k", 1), w.click("bob", "k", 1), w.click("ann", "k", 1), w.click("ann", "k", 2), w.click("ann", "k2", 1))
	require.Equal(t, []sale.Verdict{sale.Taken, sale.Taken, sale.Replayed, sale.KeyMismatch, sale.Taken}, verdicts(r.Results))
	for _, i := range []int{2, 3} {
		require.Equal(t, r.Results[0].Record, r.Results[i].Record, "attempt %d", i)
		require.Equal(t, int64(7), r.Results[i].Left)
	}
	require.Len(t, w.records(t, "ann"), 2)
	require.Len(t, w.slips(t, w.look(t)), 3)
}

func replayMismatch(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.PerUserLimit, s.Stock, s.Left = 5, []int64{9, 9}, []int64{9, 9} })
	record := w.buy(t, "ann", "k", 2)
	for _, other := range []func(*stock.Attempt){
		func(a *stock.Attempt) { a.Quantity = 1 },
		func(a *stock.Attempt) { a.Quantity = 0 },
		func(a *stock.Attempt) { a.Quantity = -2 },
		func(a *stock.Attempt) { a.Quantity = 2 + 1<<24 },
		func(a *stock.Attempt) { a.Item = 1 },
		func(a *stock.Attempt) { a.Item = 2 },
		func(a *stock.Attempt) { a.Item = -1 },
	} {
		a := w.click("ann", "k", 2)
		other(&a)
		require.Equal(t, record, w.refuse(t, a, sale.KeyMismatch).Record, "%+v", a)
	}
	require.Equal(t, sale.Replayed, w.try(t, w.click("ann", "k", 2)).Verdict)
}

func replayFirst(t *testing.T, w *world) {
	s := w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{2}, []int64{2} })
	record := w.buy(t, "ann", "k", 1)
	dead := w.buy(t, "ann", "dead", 1)
	w.apply(t, stock.Act{Kind: stock.ActReturn, ID: dead.ID, User: "ann", CoolUntil: s.EndsAt.Add(time.Hour)})
	w.buy(t, "bob", "k", 1)
	check := func(why string, fresh sale.Verdict, user string) {
		t.Helper()
		a := w.click("ann", "k", 1)
		a.OtherTerms = true
		r := w.take(t, a, w.click("ann", "dead", 1), w.click(user, "new", 1))
		require.Equal(t, []sale.Verdict{sale.Replayed, sale.Replayed, fresh}, verdicts(r.Results), why)
		require.Equal(t, record, r.Results[0].Record, why)
		require.Equal(t, stock.Record{ID: dead.ID, TakenAt: dead.TakenAt}, r.Results[1].Record, why)
	}
	sync := func(change func(*stock.Rules)) {
		t.Helper()
		s.Version++
		change(&s.Rules)
		_, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch, s.Rules)
		require.NoError(t, err)
	}
	check("cool-down", sale.CoolDown, "ann")
	check("sold out", sale.SoldOut, "cid")
	sync(func(r *stock.Rules) { r.PerUserLimit = 1 })
	check("limit", sale.LimitReached, "bob")
	sync(func(r *stock.Rules) { r.State = sale.Paused })
	check("paused", sale.PausedNow, "cid")
	sync(func(r *stock.Rules) { r.StartsAt = r.EndsAt.Add(-time.Minute) })
	check("not started", sale.NotStarted, "cid")
	sync(func(r *stock.Rules) {
		r.StartsAt, r.EndsAt = r.StartsAt.Add(-24*time.Hour), r.StartsAt.Add(-23*time.Hour)
	})
	check("ended", sale.Ended, "cid")
	for _, state := range []sale.State{sale.Closed, sale.Deleted, sale.Draft, "some later one"} {
		sync(func(r *stock.Rules) { r.State = state })
		check(string(state), sale.ClosedNow, "cid")
	}
	sync(func(r *stock.Rules) { r.State, r.EndsAt = sale.Deleted, s.EndsAt.Add(48*time.Hour) })
	check("deleted while it would last", sale.ClosedNow, "cid")
}

func replayEnded(t *testing.T, w *world) {
	w.open(t, nil)
	o := w.buy(t, "ann", "k", 2)
	w.apply(t, giveBack(0, o, "ann"))
	before := w.read(t)
	tombstone := stock.Record{ID: o.ID, TakenAt: o.TakenAt}
	r := w.take(t, w.click("ann", "k", 2), w.click("ann", "k", 1))
	require.Equal(t, []sale.Verdict{sale.Replayed, sale.Replayed}, verdicts(r.Results), "a tombstone does not know its quantity")
	require.Equal(t, tombstone, r.Results[0].Record)
	require.Equal(t, sale.KeyMismatch, w.try(t, w.click("ann", "k", 0)).Verdict)
	require.Equal(t, before, w.read(t))
	w.buy(t, "ann", "k2", 2)
}

func limitCalls(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.PerUserLimit = 3 })
	w.buy(t, "ann", "1", 2)
	w.refuse(t, w.click("ann", "2", 2), sale.LimitReached)
	w.buy(t, "ann", "3", 1)
	w.refuse(t, w.click("ann", "4", 1), sale.LimitReached)
	for _, bad := range []int64{0, -1, 4, 1 << 24, 1<<24 + 1, 1 << 62} {
		w.refuse(t, w.click("ann", name("bad", int(bad)), bad), sale.BadQuantity)
	}
	w.buy(t, "bob", "1", 3)
}

func limitInside(t *testing.T, w *world) {
	w.open(t, nil)
	require.Equal(t, []sale.Verdict{sale.Taken, sale.Taken, sale.LimitReached, sale.LimitReached, sale.Taken}, w.verdicts(
		t, w.click("ann", "1", 1), w.click("ann", "2", 1), w.click("ann", "3", 1), w.click("ann", "4", 2), w.click("bob", "k", 2),
	))
	require.Equal(t, int64(6), w.left(t))
}

func limitCounted(t *testing.T, w *world) {
	w.open(t, nil)
	gone, counted := w.buy(t, "ann", "1", 1), w.buy(t, "ann", "2", 1)
	still := giveBack(0, counted, "ann")
	still.Counted = 1
	w.apply(t, giveBack(0, gone, "ann"), still)
	require.Equal(t, []stock.Record{{ID: gone.ID, TakenAt: gone.TakenAt}, {ID: counted.ID, Counted: 1, TakenAt: counted.TakenAt}}, w.records(t, "ann"))
	w.refuse(t, w.click("ann", "3", 2), sale.LimitReached)
	w.buy(t, "ann", "4", 1)
	require.Equal(t, int64(9), w.left(t))
}

func limitNames(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.PerUserLimit, s.Stock, s.Left = 1, []int64{100}, []int64{100} })
	for _, user := range []string{"jo", "Jo", "jo ", " jo", "jo\x00", "\x00", "e\u0301", "\u00e9", "o", "\u043e", "0", "-1", "\xff\xfe"} {
		w.buy(t, user, "k", 1)
		w.refuse(t, w.click(user, "k2", 1), sale.LimitReached)
	}
}

func coolDown(t *testing.T, w *world) {
	s := w.open(t, nil)
	past, future := s.StartsAt.Add(time.Minute), s.EndsAt.Add(-time.Minute)
	w.apply(t, stock.Act{Kind: stock.ActReturn, User: "ann", CoolUntil: past})
	w.buy(t, "ann", "1", 1)
	w.apply(t, stock.Act{Kind: stock.ActReturn, User: "ann", CoolUntil: future}, stock.Act{Kind: stock.ActReturn, User: "bob", CoolUntil: future})
	for _, user := range []string{"ann", "bob"} {
		require.Equal(t, future, w.refuse(t, w.click(user, "2", 1), sale.CoolDown).RetryAt)
	}
	w.apply(t, stock.Act{Kind: stock.ActReturn, User: "ann", CoolUntil: past})
	r, err := w.Counter.Records(t.Context(), w.Lane, "ann")
	require.NoError(t, err)
	require.Equal(t, future, r.CoolUntil, "the latest counts")
	require.Len(t, r.Orders, 1)
	w.refuse(t, w.click("ann", "3", 2), sale.LimitReached)
	w.buy(t, "cid", "1", 1)
}

// limitMany has a buyer come with more orders than most have, in batches: all are found
// again, and all count.
func limitMany(t *testing.T, w *world) {
	const limit = 100
	s := w.open(t, func(s *stock.Setting) { s.PerUserLimit, s.Stock, s.Left = limit, []int64{1000}, []int64{1000} })
	key := func(i int) string { return "k" + strconv.Itoa(i) }
	const orders = 60
	batch, want := make([]stock.Attempt, 0, 3*orders), make([]sale.Verdict, 0, 3*orders)
	for i := range orders { // each twice in one batch
		batch = append(batch, w.click("ann", key(i), 1), w.click("bob", key(i), 1), w.click("ann", key(i), 1))
		want = append(want, sale.Taken, sale.Taken, sale.Replayed)
	}
	require.Equal(t, want, w.verdicts(t, batch...))
	require.Equal(t, []sale.Verdict{
		sale.Replayed, sale.KeyMismatch, sale.LimitReached, sale.Taken, sale.Replayed, sale.LimitReached, sale.Taken, sale.Taken, sale.LimitReached,
	}, w.verdicts(t,
		w.click("ann", key(7), 1), w.click("ann", key(7), 2), w.click("ann", "more", limit-59), w.click("ann", "more", limit-61),
		w.click("ann", "more", limit-61), w.click("ann", "last", 2), w.click("ann", "last", 1), w.click("bob", "more", limit-60), w.click("bob", "last", 1)))
	require.Len(t, w.records(t, "ann"), 62)
	require.Equal(t, int64(1000-2*limit), w.left(t))

	gone := w.records(t, "ann")[30]
	w.apply(t, stock.Act{Kind: stock.ActReturn, ID: gone.ID, User: "ann"})
	require.Equal(t, []sale.Verdict{sale.Replayed, sale.Taken, sale.LimitReached},
		w.verdicts(t, w.click("ann", key(30), 1), w.click("ann", "again", 1), w.click("ann", "once more", 1)))
	w.apply(t, stock.Act{Kind: stock.ActReturn, ID: w.id("ann", "again"), User: "ann", CoolUntil: s.EndsAt})
	cool := w.take(t, w.click("ann", "cool", 1), w.click("ann", key(3), 1), w.click("ann", "cool", 1)).Results
	require.Equal(t, []sale.Verdict{sale.CoolDown, sale.Replayed, sale.CoolDown}, verdicts(cool))
}
