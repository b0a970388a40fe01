package event_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tap is a ledger whose reads are counted, and can be made to fail or go
// without nudges.
type tap struct {
	*ledger.Book
	rows, ends atomic.Int64
	deaf       bool
	lag        time.Duration // of each read, in fake time
	failing    atomic.Bool
}

var errCable = errors.New("the cable is cut")

func (p *tap) Rows(ctx context.Context, n sale.Number, after uint64, limit int) ([]ledger.Entry, error) {
	p.rows.Add(1)
	p.wait()
	if p.failing.Load() {
		return nil, errCable
	}
	return p.Book.Rows(ctx, n, after, limit)
}

func (p *tap) End(ctx context.Context, n sale.Number) (uint64, error) {
	p.ends.Add(1)
	p.wait()
	if p.failing.Load() {
		return 0, errCable
	}
	return p.Book.End(ctx, n)
}

func (p *tap) wait() {
	if p.lag > 0 {
		<-time.NewTimer(p.lag).C
	}
}

func (p *tap) Watch(fn func([]ledger.Entry)) func() {
	if p.deaf {
		return func() {}
	}
	return p.Book.Watch(fn)
}

// watch counts what an Observer is told.
type watch struct{ failed, cut atomic.Int64 }

func (w *watch) Failed(sale.Number, error) { w.failed.Add(1) }
func (w *watch) CutOff(sale.Number)        { w.cut.Add(1) }

// world is a ledger with one open sale, followed by a feed.
type world struct {
	tap   *tap
	feed  *event.Feed
	watch *watch
	sale  sale.Sale
	stop  context.CancelFunc
	ended chan error
}

// start opens a sale and runs a feed over it until the test ends.
func start(t *testing.T, o event.Options, deaf ...string) *world {
	t.Helper()
	w := open(t, o)
	w.tap.deaf = len(deaf) > 0
	w.run(t)
	return w
}

func open(t *testing.T, o event.Options) *world {
	t.Helper()
	store := ledgertest.NewMemStore()
	w := &world{tap: &tap{Book: ledger.New(store)}, watch: &watch{}, ended: make(chan error, 1)}
	o.Observer = w.watch
	w.feed = event.NewFeed(w.tap, o)
	now, err := store.Now(t.Context())
	require.NoError(t, err)
	_, err = w.tap.CreateSale(t.Context(), sale.Sale{
		Slug:  "drop",
		Items: []sale.Item{{SKU: "shoe", Stock: sale.MaxPerUserLimit, Price: 100}},
		Rules: sale.Rules{
			StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: sale.MaxPerUserLimit, LimitRule: sale.LimitLive,
			Hold: time.Minute, Currency: "EUR",
		},
	})
	require.NoError(t, err)
	w.act(t, sale.Change{Action: sale.ActionPublish})
	return w
}

func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop = stop
	go func() { w.ended <- w.feed.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-w.ended)
	})
}

func (w *world) act(t *testing.T, c sale.Change) {
	t.Helper()
	var err error
	w.sale, err = w.tap.ChangeSale(t.Context(), "drop", 0, c)
	require.NoError(t, err)
}

// buy appends one row to the journal.
func (w *world) buy(t *testing.T, user string, key int) sale.Order {
	t.Helper()
	out, err := w.tap.Reserve(t.Context(), ledger.Batch{Sale: w.sale.Number, Epoch: w.sale.Epoch, Attempts: []ledger.Attempt{
		{ID: w.sale.OrderID(user, strconv.Itoa(key)), User: user, Quantity: 1},
	}})
	require.NoError(t, err)
	require.Equal(t, sale.Taken, out.Results[0].Verdict)
	return out.Results[0].Order
}

func (w *world) subscribe(t *testing.T, after uint64, who event.Audience) *event.Subscription {
	t.Helper()
	sub, err := w.feed.Subscribe(t.Context(), w.sale.Number, after, who)
	require.NoError(t, err)
	t.Cleanup(sub.Close)
	return sub
}

// next returns the next event; in a bubble it must come without time passing
// beyond wait.
func next(t *testing.T, sub *event.Subscription, wait time.Duration) *event.Event {
	t.Helper()
	select {
	case e, open := <-sub.Events():
		require.True(t, open, "the stream ended: %v", sub.Err())
		return e
	case <-time.After(wait): //nolint:forbidigo // fake time
		require.FailNow(t, "no event")
		return nil
	}
}

// waiting returns the numbers of the events that are there when all is quiet.
func waiting(sub *event.Subscription) []uint64 {
	synctest.Wait()
	out := []uint64{}
	for {
		select {
		case e, open := <-sub.Events():
			if !open {
				return out
			}
			out = append(out, e.Seq)
		default:
			return out
		}
	}
}
