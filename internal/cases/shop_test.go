package cases_test

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/audit"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
)

// clock is a clock that a test moves.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time        { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) pass(d time.Duration)  { c.ms.Add(d.Milliseconds()) }
func (c *clock) set(instant time.Time) { c.ms.Store(instant.UnixMilli()) }

// shop is a whole house in this process: engine, ledger on a SQLite file, and
// sweeper, on a clock that the test moves. Most tests have one sale, "drop".
type shop struct {
	*engine.Engine
	t       *testing.T
	slug    string
	path    string
	clock   *clock
	store   *sqliteledger.Store
	book    *ledger.Book
	sweeper *settle.Sweeper
	before  *atomic.Pointer[func(statement string) error] // sees each statement of a write transaction
	keys    *atomic.Int64
}

const (
	drop  = "drop"
	price = 1000
)

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{
		t: t, slug: drop, path: filepath.Join(t.TempDir(), "ledger.db"), clock: &clock{},
		before: &atomic.Pointer[func(string) error]{}, keys: &atomic.Int64{},
	}
	s.clock.set(time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC))
	s.start()
	t.Cleanup(s.stop)
	return s
}

// start opens the ledger and whatever works on it.
func (s *shop) start() {
	s.t.Helper()
	store, err := sqliteledger.Open(s.t.Context(), sqliteledger.Options{
		Path: s.path, Clock: s.clock.now, Migrate: true,
		BeforeStatement: func(statement string) error {
			if before := s.before.Load(); before != nil {
				return (*before)(statement)
			}
			return nil
		},
	})
	require.NoError(s.t, err)
	s.store, s.book = store, ledger.New(store)
	s.Engine = engine.New(s.book, nil, engine.Options{Clock: s.clock.now})
	s.sweeper = settle.New(s.book, settle.Options{})
}

// stop lets go of the ledger. It may run after the context of the test.
func (s *shop) stop() {
	s.t.Helper()
	require.NoError(s.t, s.Close(context.Background()))
	require.NoError(s.t, s.book.Close())
}

// restart forgets all that was in memory.
func (s *shop) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// instance returns one more engine on the same file that hears nothing of what
// the others write, with a clock that is wrong by skew.
func (s *shop) instance(skew time.Duration) *engine.Engine {
	s.t.Helper()
	e := engine.New(ledger.New(s.store), nil, engine.Options{Clock: func() time.Time { return s.clock.now().Add(skew) }})
	s.t.Cleanup(func() { require.NoError(s.t, e.Close(context.Background())) })
	return e
}

// at returns the same shop, speaking of another sale.
func (s *shop) at(slug string) *shop {
	other := *s
	other.slug = slug
	return &other
}

// open publishes the sale: live for an hour, holds of a minute, one item.
func (s *shop) open(stock, limit int64, change ...func(*sale.Sale)) sale.Sale {
	s.t.Helper()
	draft := sale.Sale{
		Slug: s.slug,
		Rules: sale.Rules{
			StartsAt: s.clock.now(), EndsAt: s.clock.now().Add(time.Hour), PerUserLimit: limit, LimitRule: sale.LimitLive,
			Hold: time.Minute, Currency: "EUR",
		},
		Items: []sale.Item{{SKU: "unit", Stock: stock, Price: price}},
	}
	for _, f := range change {
		f(&draft)
	}
	_, err := s.CreateSale(s.t.Context(), draft)
	require.NoError(s.t, err)
	return s.act(sale.Change{Action: sale.ActionPublish})
}

// act changes the sale, whatever its version.
func (s *shop) act(c sale.Change) sale.Sale {
	s.t.Helper()
	changed, err := s.ChangeSale(s.t.Context(), s.slug, 0, c)
	require.NoError(s.t, err)
	return changed.Sale
}

// reply is the answer to one request to buy.
type reply struct {
	engine.Decision
	err error
}

// ask sends a request to buy to an engine.
func (s *shop) ask(e *engine.Engine, user, key string, quantity int64) reply {
	d, err := e.Buy(s.t.Context(), engine.Request{Sale: s.slug, User: user, Key: key, Quantity: quantity})
	return reply{d, err}
}

func (s *shop) try(user, key string, quantity int64) reply {
	return s.ask(s.Engine, user, key, quantity)
}

// buy sends a request that must be decided.
func (s *shop) buy(user, key string, quantity int64) engine.Decision {
	s.t.Helper()
	r := s.try(user, key, quantity)
	require.NoError(s.t, r.err)
	return r.Decision
}

// take buys with a key of its own and must succeed.
func (s *shop) take(user string, quantity int64) sale.Order {
	s.t.Helper()
	d := s.buy(user, s.key(), quantity)
	require.Equal(s.t, sale.Taken, d.Verdict)
	return d.Order
}

// key returns a new idempotency key or payment id.
func (s *shop) key() string { return "k" + strconv.FormatInt(s.keys.Add(1), 10) }

// notice is the report of a captured charge of exactly what an order costs.
func notice(o sale.Order, payment string) sale.Payment {
	return sale.Payment{ID: payment, Order: o.ID, Status: sale.PaymentSucceeded, Amount: o.Amount, Currency: o.Currency}
}

// pay books a payment notice.
func (s *shop) pay(p sale.Payment) ledger.Paid {
	s.t.Helper()
	paid, err := s.Pay(s.t.Context(), p)
	require.NoError(s.t, err)
	return paid
}

func (s *shop) cancel(o sale.Order) sale.Order {
	s.t.Helper()
	after, err := s.Cancel(s.t.Context(), o.ID, o.User)
	require.NoError(s.t, err)
	return after
}

// order returns an order as it is now.
func (s *shop) order(id sale.OrderID) sale.Order {
	s.t.Helper()
	o, err := s.Order(s.t.Context(), id, "")
	require.NoError(s.t, err)
	return o
}

// sweep ends the holds that are over.
func (s *shop) sweep() int { return s.sweeper.Sweep(s.t.Context(), s.clock.now()) }

// pass lets time go by and sweeps.
func (s *shop) pass(d time.Duration) int {
	s.clock.pass(d)
	return s.sweep()
}

// sale returns the sale as the ledger has it.
func (s *shop) sale() sale.Sale {
	s.t.Helper()
	found, err := s.book.Sale(s.t.Context(), s.slug)
	require.NoError(s.t, err)
	return found
}

// left returns the units that nobody holds.
func (s *shop) left() int64 {
	s.t.Helper()
	found, sum := s.sale(), int64(0)
	for i := range found.Items {
		sum += found.Items[i].Left()
	}
	return sum
}

// refunds returns every refund record.
func (s *shop) refunds() []sale.Refund {
	s.t.Helper()
	found, err := s.book.ListRefunds(s.t.Context(), ledger.RefundFilter{Limit: 1000})
	require.NoError(s.t, err)
	return found
}

// rows returns the journal of a sale.
func (s *shop) rows(n sale.Number) []ledger.Entry {
	s.t.Helper()
	var all []ledger.Entry
	for {
		after := uint64(len(all))
		page, err := s.book.Rows(s.t.Context(), n, after, 1000)
		require.NoError(s.t, err)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// settled recounts every promise of every sale and requires that free, reserved
// and paid units are the stock of this one, whose figures it returns.
func (s *shop) settled() audit.Figures {
	s.t.Helper()
	report, err := audit.Run(s.t.Context(), s.book, audit.Options{Running: true})
	require.NoError(s.t, err)
	number := s.sale().Number
	var out audit.Figures
	for _, one := range report.Sales {
		for _, rule := range one.Rules {
			require.Zero(s.t, rule.Broken, "sale %s breaks %s: %v", one.Slug, rule.Rule, rule.Violations)
		}
		if one.Number == number {
			out = one.Figures
		}
	}
	require.Equal(s.t, out.Stock, s.left()+out.Reserved+out.Paid, "free + reserved + paid = stock")
	return out
}

// crowd runs n calls that are let go together and returns what each returned.
func crowd[T any](n int, call func(i int) T) []T {
	out := make([]T, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			out[i] = call(i)
		})
	}
	close(gate)
	wg.Wait()
	return out
}

// verdicts counts the verdicts of replies, none of which may be an error.
func verdicts(t *testing.T, replies []reply) map[sale.Verdict]int {
	t.Helper()
	out := make(map[sale.Verdict]int)
	for _, r := range replies {
		require.NoError(t, r.err)
		out[r.Verdict]++
	}
	return out
}

// name numbers users, keys and payments.
func name(kind string, i int) string { return kind + strconv.Itoa(i) }
