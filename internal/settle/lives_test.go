package settle_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// life is a sale that two judges and two forwarders work on, each step by step,
// with crashes between any two calls of theirs.
type life struct {
	*floor
	ledger   *hookedLedger
	counter  *hookedCounter
	judges   [2]*settle.Worker
	couriers [2]*settle.Courier
	hired    int
	taken    map[sale.OrderID]bool
	charges  int
}

func newLife(t *testing.T, rule sale.LimitRule, units int64) *life {
	t.Helper()
	f := newFloor(t, units, 1, func(s *sale.Sale) {
		s.LimitRule, s.PerUserLimit, s.Hold, s.MaxUnpaidHolds = rule, 3, 5*time.Second, 0
	})
	l := &life{floor: f, ledger: &hookedLedger{Ledger: f}, counter: &hookedCounter{Counter: f.counter}, taken: make(map[sale.OrderID]bool)}
	for i := range l.judges {
		l.hire(i)
		l.couriers[i] = l.courier(l.ledger, l.counter, &witness{})
	}
	return l
}

func (l *life) hire(i int) {
	l.hired++
	o := options(fmt.Sprintf("judge-%d", l.hired), &witness{})
	o.Clock = func() time.Time {
		now, err := l.Now(context.Background())
		if err != nil {
			panic(err)
		}
		return now
	}
	l.judges[i] = settle.NewJudge(l.ledger, l.counter, o).Worker(l.lane(), &l.sale)
}

// act is one thing that happens in a life. Which members count depends on the verb.
type act struct {
	Verb string
	Who  int // a user, a judge, a forwarder
	Key  int
	Item int
	N    int64
	// Dies is the number of the call, from 1, at which the worker dies, 0 for never;
	// Done says that the call happens all the same.
	Dies int
	Done bool
}

func actGen() *rapid.Generator[act] {
	return rapid.Custom(func(t *rapid.T) act {
		return act{
			Verb: rapid.SampledFrom([]string{
				"take", "take", "take", "judge", "judge", "forward", "forward", "cancel", "cancel queued", "pay", "refund", "restock", "pass", "sweep",
			}).Draw(t, "verb"),
			Who: rapid.IntRange(0, 3).Draw(t, "who"), Key: rapid.IntRange(0, 2).Draw(t, "key"), Item: rapid.IntRange(0, 1).Draw(t, "item"),
			N: rapid.Int64Range(1, 3).Draw(t, "n"), Dies: rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4}).Draw(t, "dies"), Done: rapid.Bool().Draw(t, "done"),
		}
	})
}

func (l *life) order(a act) sale.OrderID {
	return l.sale.OrderID(fmt.Sprintf("user-%d", a.Who), fmt.Sprintf("key-%d", a.Key))
}

// mortal lets the calls of a worker fail from the n-th on.
func (l *life) mortal(a act) (dead func() bool) {
	calls, died := 0, false
	check := func(happened bool) func(string) error {
		return func(string) error {
			if !happened {
				calls++
			}
			if died || a.Dies > 0 && calls >= a.Dies && happened == a.Done {
				died = true
				return errHook
			}
			return nil
		}
	}
	l.ledger.set(check(false), check(true))
	l.counter.set(check(false), check(true))
	return func() bool {
		l.ledger.set(nil, nil)
		l.counter.set(nil, nil)
		return died
	}
}

func (l *life) live(t *rapid.T, a act) {
	ctx := context.Background()
	switch a.Verb {
	case "take":
		l.takeSome(t, a)
	case "judge":
		dead := l.mortal(a)
		err := l.judges[a.Who%2].Step(ctx)
		if dead() {
			l.hire(a.Who % 2) // what it knew is lost
		} else {
			require.NoError(t, err)
		}
	case "forward":
		dead := l.mortal(a)
		err := l.couriers[a.Who%2].Round(ctx)
		if dead() {
			l.couriers[a.Who%2] = l.courier(l.ledger, l.counter, &witness{})
		} else {
			require.NoError(t, err)
		}
	case "cancel":
		_, err := l.Cancel(ctx, l.order(a), "")
		business(t, err)
	case "cancel queued":
		l.cancelQueued(t, a)
	case "pay":
		l.charges++
		o, err := l.Order(ctx, l.order(a))
		if business(t, err); err != nil {
			return
		}
		_, err = l.Pay(ctx, sale.Payment{
			ID: fmt.Sprintf("charge-%d", l.charges), Order: o.ID, Status: sale.PaymentSucceeded, Amount: o.Amount, Currency: "EUR",
		})
		business(t, err)
	case "refund":
		_, err := l.Refund(ctx, l.order(a), ledger.Refunding{Restock: a.Done})
		business(t, err)
	case "restock":
		add := a.N
		if a.Done {
			add = -add
		}
		s, err := l.ChangeSale(ctx, l.sale.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: l.sale.Items[a.Item].SKU, Add: add}})
		if business(t, err); err == nil {
			require.Equal(t, l.sale.Epoch, s.Epoch)
		}
	case "pass":
		l.world.Advance(time.Duration(a.N) * 2 * time.Second)
	case "sweep":
		settle.New(l, settle.Options{}).Sweep(ctx, time.Now())
	}
}

// business requires that an error, if any, is an answer.
func business(t *rapid.T, err error) {
	if err != nil {
		require.NotEqual(t, sale.CodeUnavailable, sale.CodeOf(err), err)
	}
}

func (l *life) takeSome(t *rapid.T, a act) {
	ctx := context.Background()
	now, err := l.Now(ctx)
	require.NoError(t, err)
	at := stock.Attempt{ID: l.order(a), User: fmt.Sprintf("user-%d", a.Who), Item: a.Item, Quantity: a.N}
	at.MAC = stock.NewSigner(l.sale.Key, l.sale.Number).Sign(&stock.Slip{
		ID: at.ID, User: at.User, Item: at.Item, Quantity: at.Quantity, Epoch: l.sale.Epoch, Terms: l.sale.Terms, AskedAt: now,
	})
	reply, err := l.floor.counter.Take(ctx, stock.Call{Lane: l.lane(), Epoch: l.sale.Epoch, Terms: l.sale.Terms, AskedAt: now, Attempts: []stock.Attempt{at}})
	require.NoError(t, err)
	require.Equal(t, stock.Open, reply.State)
	if reply.Results[0].Verdict == sale.Taken {
		l.taken[at.ID] = true
	}
}

func (l *life) cancelQueued(t *rapid.T, a act) {
	ctx := context.Background()
	user := fmt.Sprintf("user-%d", a.Who)
	records, err := l.floor.counter.Records(ctx, l.lane(), user)
	require.NoError(t, err)
	for _, r := range records.Orders {
		if r.ID == l.order(a) && r.Quantity > 0 {
			_, err := l.CancelQueued(ctx, ledger.Attempt{
				ID: r.ID, User: user, SKU: l.sale.Items[r.Item].SKU, Quantity: r.Quantity,
				Slip: &ledger.Slip{Epoch: l.sale.Epoch, Terms: l.sale.Terms, TakenAt: r.TakenAt},
			})
			business(t, err)
		}
	}
}

// rest lets everything come to its end.
func (l *life) rest(t *rapid.T) {
	ctx := context.Background()
	for range 12 {
		l.world.Advance(time.Second)
		for i := range l.judges {
			require.NoError(t, l.judges[i].Step(ctx))
			require.NoError(t, l.couriers[i].Round(ctx))
		}
	}
	left, err := l.floor.counter.Look(ctx, l.lane(), "", 1000)
	require.NoError(t, err)
	require.Empty(t, left, "the tray ends empty")
	ids := make([]sale.OrderID, 0, len(l.taken))
	for id := range l.taken {
		ids = append(ids, id)
	}
	found, err := l.OrdersByID(ctx, ids)
	require.NoError(t, err)
	require.Len(t, found, len(ids), "whatever was taken has become an order")
	l.inStep(t)
}

// TestRandomLivesEndInStep leads sales through random lives. However often workers
// die, and at whichever call, lane and ledger agree in the end on every unit and
// on every order, and nothing is oversold at any moment.
func TestRandomLivesEndInStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(t, rapid.SampledFrom([]sale.LimitRule{sale.LimitLive, sale.LimitEverPaid}).Draw(rt, "rule"), rapid.Int64Range(1, 6).Draw(rt, "units"))
		for _, a := range rapid.SliceOfN(actGen(), 10, 80).Draw(rt, "life") {
			l.live(rt, a)
			s, err := l.SaleByNumber(t.Context(), l.sale.Number)
			require.NoError(rt, err)
			for i := range s.Items {
				require.LessOrEqual(rt, s.Items[i].Sold, s.Items[i].Stock, "after %+v", a)
			}
		}
		l.rest(rt)
	})
}
