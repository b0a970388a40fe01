package handover_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// deaf is a counter one of whose servers does not answer: that of the lanes of some
// sales.
type deaf struct {
	*fragile
	mu    sync.Mutex
	dead  map[sale.Number]bool
	hangs bool // a dead server lets its callers wait
	reads map[sale.Number]int
}

func (d *deaf) ReadAll(ctx context.Context, lanes []stock.Lane) ([]stock.Standing, error) {
	d.mu.Lock()
	dead, hangs := d.dead[lanes[0].Sale], d.hangs
	d.reads[lanes[0].Sale]++
	d.mu.Unlock()
	if dead && hangs {
		<-ctx.Done()
	}
	if dead {
		return nil, stock.ErrUnavailable
	}
	return d.fragile.ReadAll(ctx, lanes)
}

// counted returns how many sales have been read since it was called last.
func (d *deaf) counted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.reads)
	clear(d.reads)
	return n
}

func (d *deaf) silence(sales ...sale.Sale) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = make(map[sale.Number]bool)
	for i := range sales {
		d.dead[sales[i].Number] = true
	}
}

// ended enters so many sales, and lets time pass until they are over and cleared away.
func (w *world) ended(sales int) (*deaf, *handover.Keeper, []sale.Sale) {
	t := w.t
	t.Helper()
	over := append(make([]sale.Sale, 0, sales), w.sale(5))
	for i := range sales - 1 {
		over = append(over, w.like(&over[0], "over"+strconv.Itoa(i), over[0].StartsAt))
	}
	d := &deaf{fragile: w.counter, reads: make(map[sale.Number]int)}
	k := handover.New(w.book, d, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log, CallTimeout: time.Hour})
	w.store.Advance(time.Hour)
	k.Look(t.Context())
	require.Len(t, w.log.built, sales)
	w.store.Advance(time.Hour)
	for range 2 {
		k.Look(t.Context()) // they are cleared, and known to be
	}
	require.Len(t, w.log.left, sales)
	require.Empty(t, w.log.failed)
	d.counted()
	return d, k, over
}

// like enters a published sale of an hour that is like another one.
func (w *world) like(other *sale.Sale, slug string, starts time.Time) sale.Sale {
	w.t.Helper()
	rules := other.Rules
	rules.StartsAt, rules.EndsAt = starts, starts.Add(time.Hour)
	_, err := w.book.CreateSale(w.t.Context(), sale.Sale{Slug: slug, Rules: rules, Items: other.Items})
	require.NoError(w.t, err)
	s, err := w.book.ChangeSale(w.t.Context(), slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(w.t, err)
	return s
}

// Any number of sales that are over may be on a server that does not answer.
func TestSalesThatAreOverHoldUpNoneThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, k, over := w.ended(20)
	d.hangs = true
	d.silence(over...)
	w.store.Advance(time.Minute)
	w.like(&over[0], "runs", w.now())
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- k.Run(ctx) }()
	epoch := int64(0)
	built := func() bool {
		s, err := w.book.Sale(t.Context(), "runs")
		require.NoError(t, err)
		if s.Path != sale.PathFast || s.Epoch <= epoch {
			return false
		}
		epoch = s.Epoch
		return true
	}
	require.Eventually(t, built, time.Minute, time.Millisecond)
	d.Wipe()
	w.store.Advance(ledger.BuildLease)
	k.Trouble(0)
	require.Eventually(t, built, time.Minute, time.Millisecond, "the next looks are not held up either")
	stop()
	require.NoError(t, <-stopped)
}

func TestLanesThatCannotBeReadAreLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, k, over := w.ended(3)
	w.store.Advance(time.Minute)
	d.silence(over[1])
	for _, want := range []int{3, 0, 0} {
		k.Look(t.Context())
		require.Equal(t, want, d.counted())
	}
	require.Len(t, w.log.failed, 1)
	w.store.Advance(time.Minute)
	k.Look(t.Context())
	require.Equal(t, 3, d.counted())
	require.Len(t, w.log.failed, 2)
	closed, err := w.book.ChangeSale(t.Context(), over[1].Slug, 0, sale.Change{Action: sale.ActionClose})
	require.NoError(t, err)
	require.ErrorIs(t, k.Clear(t.Context(), &closed), stock.ErrUnavailable, "who puts a sale away wants to know")
}

func TestSalesThatAreOverAreNotLookedAtAllAtOnce(t *testing.T) {
	t.Parallel()
	const sales = 30
	w := newWorld(t)
	d, k, _ := w.ended(sales)
	most, all := 0, 0
	for range 60 {
		w.store.Advance(time.Second)
		k.Look(t.Context())
		n := d.counted()
		most, all = max(most, n), all+n
	}
	require.GreaterOrEqual(t, all, sales, "each within a minute")
	require.LessOrEqual(t, most, sales/5)
}

// Where there are many orders a build takes longer than its lease. Keepers that see it
// getting on leave it alone; one that begins anew would be begun anew itself, for ever.
func TestBuildThatGetsOnIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.sale(5)
	w.store.Advance(time.Hour)
	k := w.keeper()
	b, err := w.book.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	l := stock.FirstLane(&s)
	_, err = w.counter.Freeze(t.Context(), l, b.Token)
	require.NoError(t, err)
	look := func(after time.Duration) int64 {
		t.Helper()
		w.store.Advance(after)
		k.Look(t.Context())
		return w.again().BuildToken
	}
	require.Equal(t, b.Token, look(0))
	for i := range 5 {
		user := "u" + strconv.Itoa(i)
		require.NoError(t, w.counter.Load(t.Context(), l, b.Token, []stock.Act{{ID: s.OrderID(user, "k"), User: user, Quantity: 1, Counted: 1}}))
		require.Equal(t, b.Token, look(4*time.Second), "it gets on")
	}
	require.Greater(t, look(ledger.BuildLease), b.Token, "it has died")
	w.sound()
}

// A sale whose lanes somebody has begun to build, or to clear, can be put away when they
// are gone.
func TestSaleWithABuildThatNeverEndedCanBePutAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.sale(5)
	b, err := w.book.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	_, err = w.counter.Freeze(t.Context(), stock.FirstLane(&s), b.Token)
	require.NoError(t, err)
	closed, err := w.book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionClose})
	require.NoError(t, err)
	w.store.Advance(ledger.BuildLease)
	k := w.keeper()
	for range 2 {
		require.NoError(t, k.Clear(t.Context(), &closed))
	}
	gone, err := w.book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionDelete})
	require.NoError(t, err)
	require.Equal(t, sale.Deleted, gone.State)
	at, err := w.counter.Read(t.Context(), stock.FirstLane(&s))
	require.NoError(t, err)
	require.Equal(t, stock.Cold, at.State)
}
