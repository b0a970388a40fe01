package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// counted is a counter whose calls are counted and can be held up.
type counted struct {
	stock.Counter
	takes, holders, returns, syncs atomic.Int64
	mute                           atomic.Bool // nobody hears anything

	mu      sync.Mutex
	states  map[stock.State]int
	before  func(*stock.Call) error // runs before Take; an error fails it
	after   func(*stock.Reply)      // runs between the answer of Take and the caller
	syncIn  func(stock.Lane) error  // runs before Sync; an error fails it
	loadIn  func()                  // runs once, before Holders
	loadErr error                   // fails Holders
	stuck   bool                    // Holders lasts until its caller gives up
	lookIn  func()                  // runs once, before Records
	readIn  func()                  // runs once, before ReadAll
	cut     map[string]error        // what fails, by step of a transfer; "unheard …" when it has happened
}

// cutOff returns the error with which a step fails.
func (c *counted) cutOff(step string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut[step]
}

func (c *counted) Give(ctx context.Context, l stock.Lane, t stock.Transfer) (stock.Transfer, error) {
	if err := c.cutOff("give"); err != nil {
		return stock.Transfer{}, err
	}
	out, err := c.Counter.Give(ctx, l, t)
	return out, errors.Join(err, c.cutOff("unheard give"))
}

func (c *counted) Receive(ctx context.Context, l stock.Lane, t stock.Transfer) error {
	if err := c.cutOff("receive"); err != nil {
		return err
	}
	return errors.Join(c.Counter.Receive(ctx, l, t), c.cutOff("unheard receive"))
}

func (c *counted) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *counted) Take(ctx context.Context, call stock.Call) (stock.Reply, error) {
	c.takes.Add(1)
	c.mu.Lock()
	before, after := c.before, c.after
	c.mu.Unlock()
	if before != nil {
		if err := before(&call); err != nil {
			return stock.Reply{}, err
		}
	}
	r, err := c.Counter.Take(ctx, call)
	c.set(func() { c.states[r.State]++ })
	if after != nil && err == nil {
		after(&r)
	}
	return r, err
}

func (c *counted) Listen(ctx context.Context, fn func(stock.Message)) error {
	return c.Counter.Listen(ctx, func(m stock.Message) {
		if !c.mute.Load() {
			fn(m)
		}
	})
}

func (c *counted) Holders(ctx context.Context, l stock.Lane) (stock.Holders, error) {
	c.holders.Add(1)
	c.mu.Lock()
	before, err, stuck := c.loadIn, c.loadErr, c.stuck
	c.loadIn = nil
	c.mu.Unlock()
	if before != nil {
		before()
	}
	if stuck {
		<-ctx.Done()
		return stock.Holders{}, ctx.Err()
	}
	if err != nil {
		return stock.Holders{}, err
	}
	return c.Counter.Holders(ctx, l)
}

func (c *counted) Records(ctx context.Context, l stock.Lane, user string) (stock.Records, error) {
	c.mu.Lock()
	before := c.lookIn
	c.lookIn = nil
	c.mu.Unlock()
	if before != nil {
		before()
	}
	return c.Counter.Records(ctx, l, user)
}

func (c *counted) ReadAll(ctx context.Context, lanes []stock.Lane) ([]stock.Standing, error) {
	c.mu.Lock()
	before := c.readIn
	c.readIn = nil
	c.mu.Unlock()
	if before != nil {
		before()
	}
	return c.Counter.ReadAll(ctx, lanes)
}

func (c *counted) Return(ctx context.Context, l stock.Lane, epoch int64, acts []stock.Act) error {
	c.returns.Add(1)
	return c.Counter.Return(ctx, l, epoch, acts)
}

func (c *counted) Sync(ctx context.Context, l stock.Lane, epoch int64, r stock.Rules) (int64, error) {
	c.syncs.Add(1)
	c.mu.Lock()
	before := c.syncIn
	c.mu.Unlock()
	if before != nil {
		if err := before(l); err != nil {
			return 0, err
		}
	}
	return c.Counter.Sync(ctx, l, epoch, r)
}

// fastShop is a shop on the fast path. Its engines share ledger and counter as
// instances do: a journal row of one is no news for the other.
type fastShop struct {
	*shop
	mem     *stocktest.Mem
	counter *counted
	second  *engine.Engine
	books   []*watched
	trouble atomic.Int64
	sale    sale.Sale
}

// onFastPath runs a test in a bubble with a fast sale of so many units in lanes.
func onFastPath(t *testing.T, test func(t *testing.T, s *fastShop), tune ...func(*sale.Sale)) {
	t.Helper()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1, tune...)
		s.build(1)
		test(t, s)
	})
}

func inFastBubble(t *testing.T, o engine.Options, test func(t *testing.T, s *fastShop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		world := ledgertest.MemWorld(t)
		now := func() time.Time {
			at, err := world.Store.Now(context.WithoutCancel(t.Context()))
			require.NoError(t, err)
			return at
		}
		mem := stocktest.NewMem(now)
		s := &fastShop{mem: mem, counter: &counted{Counter: mem, states: make(map[stock.State]int)}}
		o.Clock, o.Trouble = time.Now, func(sale.Number) { s.trouble.Add(1) }
		for range 2 {
			s.books = append(s.books, &watched{Ledger: ledger.New(world.Store)})
		}
		s.shop = &shop{Engine: engine.New(s.books[0], s.counter, o), ledger: s.books[0], world: world, t: t}
		s.second = engine.New(s.books[1], s.counter, o)
		defer func() {
			ctx := context.WithoutCancel(t.Context())
			require.NoError(t, errors.Join(s.Close(ctx), s.second.Close(ctx), world.Store.Close()))
		}()
		synctest.Wait() // both listen
		test(t, s)
	})
}

// build puts the sale on the fast path with so many lanes.
func (s *fastShop) build(lanes int) {
	s.t.Helper()
	b, err := s.ledger.StartBuild(s.t.Context(), s.sale.Number, s.sale.Epoch)
	require.NoError(s.t, err)
	for i := range lanes {
		_, err = s.mem.Freeze(s.t.Context(), stock.Lane{Sale: s.sale.Number, Index: i, Salt: 7}, b.Token)
		require.NoError(s.t, err)
	}
	s.judge(lanes)
	s.sale, err = s.ledger.FinishBuild(s.t.Context(), ledger.Finish{
		Build: b, Salts: repeated(7, lanes), After: 0,
		Load: func(ctx context.Context, now ledger.Present) error { return s.load(ctx, &b, &now, lanes) },
	})
	require.NoError(s.t, err)
	for _, l := range stock.LanesOf(&s.sale) {
		require.NoError(s.t, s.mem.Unfreeze(s.t.Context(), l, b.Token))
	}
}

func repeated(salt uint32, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = salt
	}
	return out
}

func (s *fastShop) load(ctx context.Context, b *ledger.Build, now *ledger.Present, lanes int) error {
	orders, err := s.world.Store.Read().ListOrders(ctx, ledger.OrderFilter{Sale: now.Sale.Number, Limit: 1000})
	if err != nil {
		return err
	}
	now.Sale.Salts = repeated(7, lanes)
	for i, l := range stock.LanesOf(&now.Sale) {
		setting := stock.Setting{Rules: stock.RulesOf(&now.Sale), Applied: now.Seq, MaxQueued: 10_000}
		for j := range setting.Stock {
			setting.Stock[j] = stock.Share(setting.Stock[j], i, lanes)
			setting.Left = append(setting.Left, setting.Stock[j]-stock.Share(now.Sale.Items[j].Sold, i, lanes))
		}
		var acts []stock.Act
		for _, o := range orders {
			a := stock.Act{Kind: stock.ActReturn, ID: o.ID, User: o.User, TakenAt: o.ReservedAt}
			switch {
			case o.State.Live():
				a.Kind, a.Quantity, a.Counted = stock.ActAdopt, o.Quantity, o.Quantity
			case o.State == sale.Refunded && now.Sale.LimitRule == sale.LimitEverPaid:
				a.Counted = o.Quantity
			}
			if stock.Home(o.User, lanes) == i {
				acts = append(acts, a)
			}
		}
		if err := s.mem.Load(ctx, l, b.Token, acts); err != nil {
			return err
		}
		if err := s.mem.Set(ctx, l, b.Token, setting); err != nil {
			return err
		}
	}
	return nil
}

// freeze stops the first lane, as a builder does.
func (s *fastShop) freeze() {
	s.t.Helper()
	_, err := s.mem.Freeze(s.t.Context(), s.lane(0), s.sale.Epoch+1)
	require.NoError(s.t, err)
}

// goDirect puts the sale on the direct path, as another process would.
func (s *fastShop) goDirect() {
	s.t.Helper()
	var err error
	s.sale, err = ledger.New(s.world.Store).GoDirect(s.t.Context(), s.sale.Number, s.sale.Epoch, s.sale.Epoch+1)
	require.NoError(s.t, err)
}

// judge has every slip in the trays judged, tells it, and returns the ids. It is
// another process's work.
func (s *fastShop) judge(lanes int) []sale.OrderID {
	s.t.Helper()
	return s.judgeBy(ledger.New(s.world.Store), lanes)
}

func (s *fastShop) judgeBy(book ledger.Ledger, lanes int) []sale.OrderID {
	s.t.Helper()
	signer := stock.NewSigner(s.sale.Key, s.sale.Number)
	var ids []sale.OrderID
	for i := range lanes {
		l := stock.Lane{Sale: s.sale.Number, Index: i, Salt: 7}
		entries, err := s.mem.Look(s.t.Context(), l, "", 100_000)
		require.NoError(s.t, err)
		batch := ledger.Batch{Sale: s.sale.Number}
		for j := range entries {
			slips, readErr := stock.ReadSlips(s.sale.Number, &entries[j])
			require.NoError(s.t, readErr)
			for k := range slips {
				require.True(s.t, signer.Check(&slips[k]), "every slip is authentic")
				ids = append(ids, slips[k].ID)
				batch.Attempts = append(batch.Attempts, ledger.Attempt{
					ID: slips[k].ID, User: slips[k].User, SKU: s.sale.Items[slips[k].Item].SKU, Quantity: slips[k].Quantity,
					Slip: &ledger.Slip{Epoch: slips[k].Epoch, Terms: slips[k].Terms, TakenAt: slips[k].TakenAt},
				})
			}
		}
		if len(entries) == 0 {
			continue
		}
		_, err = book.Reserve(s.t.Context(), batch)
		require.NoError(s.t, err)
		require.NoError(s.t, s.mem.Done(s.t.Context(), l, entries))
	}
	if len(ids) > 0 {
		require.NoError(s.t, s.mem.Tell(s.t.Context(), stock.Message{Kind: stock.KindJudged, Sale: s.sale.Number, IDs: ids}))
	}
	return ids
}

// lane returns a lane of the sale.
func (s *fastShop) lane(index int) stock.Lane { return stock.LanesOf(&s.sale)[index] }

func (s *fastShop) left() int64 {
	s.t.Helper()
	var n int64
	for _, l := range stock.LanesOf(&s.sale) {
		standing, err := s.mem.Read(s.t.Context(), l)
		require.NoError(s.t, err)
		n += standing.Left[0]
	}
	return n
}

// buyAt buys one unit through an engine.
func (s *fastShop) buyAt(e *engine.Engine, user string) engine.Decision {
	s.t.Helper()
	d, err := e.Buy(s.t.Context(), engine.Request{Sale: slug, User: user, Key: "k", Quantity: 1})
	require.NoError(s.t, err)
	return d
}

// order returns the order as its buyer sees it.
func (s *fastShop) order(id sale.OrderID, user string) sale.Order {
	s.t.Helper()
	o, err := s.Order(s.t.Context(), id, user)
	require.NoError(s.t, err)
	return o
}

// sellAll sells what is left through the first engine.
func (s *fastShop) sellAll(units int) []engine.Decision {
	s.t.Helper()
	out := make([]engine.Decision, units)
	for i := range out {
		out[i] = s.buyAt(s.Engine, fmt.Sprintf("owner-%d", i))
		require.Equal(s.t, sale.Taken, out[i].Verdict)
	}
	return out
}
