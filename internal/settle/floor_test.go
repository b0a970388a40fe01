package settle_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// floor is a house with a sale on the fast path. Ledger and counter go by one
// clock, which pass moves together with the bubble's.
type floor struct {
	*house
	frail   *frailStore
	counter *stocktest.Mem
	sale    sale.Sale
	takes   int
}

// newFloor opens a sale; change may alter it before it is created.
func newFloor(t *testing.T, units int64, lanes int, change func(*sale.Sale)) *floor {
	t.Helper()
	w := ledgertest.MemWorld(t)
	frail := &frailStore{Store: w.Store, refused: make(map[string]bool)}
	f := &floor{house: &house{Ledger: ledger.New(frail), world: w}, frail: frail}
	f.counter = stocktest.NewMem(func() time.Time {
		now, err := f.Now(context.Background()) //nolint:usetesting // the counter outlives no test, but has no context
		if err != nil {
			panic(err)
		}
		return now
	})
	f.open(t, "drop", units, change)
	f.build(t, lanes)
	return f
}

func (f *floor) open(t *testing.T, slug string, units int64, change func(*sale.Sale)) {
	t.Helper()
	now, err := f.Now(t.Context())
	require.NoError(t, err)
	s := sale.Sale{
		Slug: slug,
		Rules: sale.Rules{
			StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: 5, LimitRule: sale.LimitLive,
			Hold: 10 * time.Minute, Currency: "EUR", Preferred: sale.PathFast,
		},
		Items: []sale.Item{{SKU: "shoe", Stock: units, Price: 100}, {SKU: "hat", Stock: units, Price: 50}},
	}
	if change != nil {
		change(&s)
	}
	_, err = f.CreateSale(t.Context(), s)
	require.NoError(t, err)
	f.sale, err = f.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(t, err)
}

// build puts the floor's sale on the fast path.
func (f *floor) build(t *testing.T, lanes int) {
	t.Helper()
	f.sale = build(t, f, f.counter, f.sale, lanes)
}

// build puts a sale on the fast path, as a builder does for a sale without orders.
func build(tb testing.TB, l ledger.Ledger, c stock.Counter, s sale.Sale, lanes int) sale.Sale {
	tb.Helper()
	b, err := l.StartBuild(tb.Context(), s.Number, s.Epoch)
	require.NoError(tb, err)
	salts := make([]uint32, lanes)
	of := b.Sale
	of.Salts = salts
	for _, lane := range stock.LanesOf(&of) {
		_, err = c.Freeze(tb.Context(), lane, b.Token)
		require.NoError(tb, err)
	}
	s, err = l.FinishBuild(tb.Context(), ledger.Finish{Build: b, Salts: salts, Load: func(ctx context.Context, now ledger.Present) error {
		for i, lane := range stock.LanesOf(&now.Sale) {
			set := stock.Setting{Rules: stock.RulesOf(&now.Sale), Applied: now.Seq, MaxQueued: 10_000_000}
			for j := range set.Stock {
				set.Stock[j] = stock.Share(set.Stock[j], i, lanes)
				set.Left = append(set.Left, set.Stock[j])
			}
			if failed := c.Set(ctx, lane, b.Token, set); failed != nil {
				return failed
			}
		}
		return nil
	}})
	require.NoError(tb, err)
	for _, lane := range stock.LanesOf(&s) {
		require.NoError(tb, c.Unfreeze(tb.Context(), lane, b.Token))
	}
	return s
}

func (f *floor) lanes() []stock.Lane { return stock.LanesOf(&f.sale) }

func (f *floor) lane() stock.Lane { return f.lanes()[0] }

// pass lets time go by everywhere.
func (f *floor) pass(d time.Duration) {
	const step = 50 * time.Millisecond
	for range d / step {
		f.world.Advance(step)
		<-time.After(step) //nolint:forbidigo // the bubble's fake clock
	}
}

// attempt is what an instance sends for a click of user, with key k.
func (f *floor) attempt(user string, item int, asked time.Time) stock.Attempt {
	a := stock.Attempt{ID: f.sale.OrderID(user, "k"), User: user, Item: item, Quantity: 1}
	a.MAC = stock.NewSigner(f.sale.Key, f.sale.Number).Sign(&stock.Slip{
		ID: a.ID, User: user, Item: item, Quantity: 1, Epoch: f.sale.Epoch, Terms: f.sale.Terms, AskedAt: asked,
	})
	return a
}

// try sends the click of each user for one unit of the first item, and returns the
// verdicts.
func (f *floor) try(t require.TestingT, who ...string) []sale.Verdict {
	now, err := f.Now(context.Background())
	require.NoError(t, err)
	verdicts := make([]sale.Verdict, 0, len(who))
	home := make(map[stock.Lane][]stock.Attempt)
	for _, user := range who {
		l := f.lanes()[stock.Home(user, len(f.sale.Salts))]
		home[l] = append(home[l], f.attempt(user, 0, now))
	}
	for l, attempts := range home {
		for len(attempts) > 0 {
			part := attempts[:min(len(attempts), stock.MaxBatch)]
			attempts = attempts[len(part):]
			reply, err := f.counter.Take(context.Background(), stock.Call{
				Lane: l, Epoch: f.sale.Epoch, Terms: f.sale.Terms, AskedAt: now, Attempts: part,
			})
			require.NoError(t, err)
			require.Equal(t, stock.Open, reply.State)
			for _, r := range reply.Results {
				verdicts = append(verdicts, r.Verdict)
			}
		}
	}
	return verdicts
}

// take is try where every click must win.
func (f *floor) take(t require.TestingT, who ...string) {
	for _, v := range f.try(t, who...) {
		require.Equal(t, sale.Taken, v)
	}
}

// fresh returns names of n users that nobody has used.
func (f *floor) fresh(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("buyer-%d", f.takes)
		f.takes++
	}
	return out
}

func (f *floor) id(user string) sale.OrderID { return f.sale.OrderID(user, "k") }

// states returns the states of the users' orders; an order that is not there is
// queued.
func (f *floor) states(t *testing.T, who ...string) map[sale.OrderState]int {
	t.Helper()
	ids := make([]sale.OrderID, len(who))
	for i, user := range who {
		ids[i] = f.id(user)
	}
	found, err := f.OrdersByID(t.Context(), ids)
	require.NoError(t, err)
	out := make(map[sale.OrderState]int)
	for _, id := range ids {
		if o, ok := found[id]; ok {
			out[o.State]++
		} else {
			out[sale.Queued]++
		}
	}
	return out
}

func (f *floor) standing(t *testing.T) stock.Standing {
	t.Helper()
	at, err := f.counter.Read(t.Context(), f.lane())
	require.NoError(t, err)
	return at
}

func (f *floor) tray(t *testing.T) []stock.Entry {
	t.Helper()
	entries, err := f.counter.Look(t.Context(), f.lane(), "", 10_000)
	require.NoError(t, err)
	return entries
}

func (f *floor) letters(t *testing.T) []ledger.Letter {
	t.Helper()
	out, err := f.ListLetters(t.Context(), ledger.LetterFilter{Sale: f.sale.Number, Limit: 1000})
	require.NoError(t, err)
	return out
}

// inStep requires what must hold when nothing is under way: lane and ledger agree
// on what is left of every item, the tray is empty, and the lane has recorded the
// orders that live.
func (f *floor) inStep(t require.TestingT) {
	ctx := context.Background()
	s, err := f.SaleByNumber(ctx, f.sale.Number)
	require.NoError(t, err)
	left := make([]int64, len(s.Items))
	held := make(map[sale.OrderID]int64)
	users := make(map[string]bool)
	orders, err := f.ListOrders(ctx, ledger.OrderFilter{Sale: s.Number, Limit: 1000})
	require.NoError(t, err)
	for i := range orders {
		users[orders[i].User] = true
	}
	for _, l := range stock.LanesOf(&s) {
		at, err := f.counter.Read(ctx, l)
		require.NoError(t, err)
		require.Zero(t, at.Queued, "slips wait")
		for i := range at.Left {
			left[i] += at.Left[i]
		}
		for user := range users {
			r, err := f.counter.Records(ctx, l, user)
			require.NoError(t, err)
			for _, o := range r.Orders {
				if o.Quantity > 0 {
					held[o.ID] += o.Quantity
				}
			}
		}
	}
	for i := range s.Items {
		require.Equal(t, s.Items[i].Stock-s.Items[i].Sold, left[i], "left of %s", s.Items[i].SKU)
	}
	for i := range orders {
		want := int64(0)
		if orders[i].State.Live() {
			want = orders[i].Quantity
		}
		require.Equal(t, want, held[orders[i].ID], "the lane's record of a %s order of %s", orders[i].State, orders[i].User)
	}
}

// witness notes what workers report.
type witness struct {
	mu       sync.Mutex
	batches  []int
	failures map[settle.Doing][]error
	parked   []ledger.Letter
	tookOver int
	trimmed  int
	settled  map[sale.OrderState]int
	slowest  time.Duration
	offset   time.Duration
	troubles int
	released []stock.Lane
}

func (w *witness) note(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

func (w *witness) Judged(_ stock.Lane, slips int, _ time.Duration, _ error) {
	w.note(func() { w.batches = append(w.batches, slips) })
}

func (w *witness) Settled(_ stock.Lane, o *sale.Order, after time.Duration) {
	w.note(func() {
		if w.settled == nil {
			w.settled = make(map[sale.OrderState]int)
		}
		w.settled[o.State]++
		w.slowest = max(w.slowest, after)
	})
}

func (w *witness) Parked(_ stock.Lane, l *ledger.Letter) {
	w.note(func() { w.parked = append(w.parked, *l) })
}

func (w *witness) TookOver(_ stock.Lane, n int) { w.note(func() { w.tookOver += n }) }
func (w *witness) Trimmed(_ stock.Lane, n int)  { w.note(func() { w.trimmed += n }) }
func (w *witness) Queued(stock.Lane, int64)     {}
func (w *witness) Behind(stock.Lane, uint64)    {}
func (w *witness) Released(l stock.Lane)        { w.note(func() { w.released = append(w.released, l) }) }

func (w *witness) Offset(_ stock.Lane, offset, _ time.Duration) {
	w.note(func() { w.offset = offset })
}

func (w *witness) Failed(_ stock.Lane, doing settle.Doing, err error) {
	w.note(func() {
		if w.failures == nil {
			w.failures = make(map[settle.Doing][]error)
		}
		w.failures[doing] = append(w.failures[doing], err)
	})
}

// options are those of a worker that tells w.
func options(name string, w *witness) settle.LaneOptions {
	return settle.LaneOptions{
		Consumer: name, Clock: time.Now, Observer: w,
		Trouble: func(sale.Number) { w.note(func() { w.troubles++ }) },
	}
}

// hire runs lanes over a ledger and a counter until the test, or the worker, ends.
func hire(t *testing.T, l ledger.Ledger, c stock.Counter, o settle.LaneOptions) (leave func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background()) //nolint:usetesting // it ends before the bubble does
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = settle.NewLanes(l, c, o).Run(ctx)
	}()
	once := sync.OnceFunc(func() {
		stop()
		<-done
	})
	t.Cleanup(once)
	return once
}
