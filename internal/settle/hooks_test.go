package settle_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

var errHook = errors.New("the test made this fail")

// hooks lets a test stand in the way of calls. before may fail a call that then
// does not happen; after may fail one that has happened.
type hooks struct {
	mu            sync.Mutex
	calls         map[string]int
	before, after func(call string) error
}

func (h *hooks) set(before, after func(call string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.after = before, after
}

func (h *hooks) count(call string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[call]
}

func (h *hooks) enter(call string) error {
	h.mu.Lock()
	if h.calls == nil {
		h.calls = make(map[string]int)
	}
	h.calls[call]++
	fn := h.before
	h.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn(call)
}

func (h *hooks) leave(call string, err error) error {
	h.mu.Lock()
	fn := h.after
	h.mu.Unlock()
	if fn == nil || err != nil {
		return err
	}
	return fn(call)
}

// hookedLedger is a ledger with hooks on what workers call. The orders of the
// users in refused fail alone, each with its error; their letters do not.
type hookedLedger struct {
	ledger.Ledger
	hooks
	refused sync.Map
}

func (l *hookedLedger) Reserve(ctx context.Context, b ledger.Batch) (ledger.Batched, error) {
	if err := l.enter("Reserve"); err != nil {
		return ledger.Batched{}, err
	}
	good := b
	good.Attempts = nil
	var places []int
	all := make([]ledger.Result, len(b.Attempts))
	for i := range b.Attempts {
		if why, bad := l.refused.Load(b.Attempts[i].User); bad {
			all[i].Err, _ = why.(error)
			continue
		}
		good.Attempts = append(good.Attempts, b.Attempts[i])
		places = append(places, i)
	}
	var out ledger.Batched
	var err error
	if len(places) > 0 {
		out, err = l.Ledger.Reserve(ctx, good)
	}
	if err = l.leave("Reserve", err); err != nil {
		return ledger.Batched{}, err
	}
	for i, at := range places {
		all[at] = out.Results[i]
	}
	out.Results = all
	return out, nil
}

func (l *hookedLedger) Now(ctx context.Context) (time.Time, error) {
	if err := l.enter("Now"); err != nil {
		return time.Time{}, err
	}
	return l.Ledger.Now(ctx)
}

func (l *hookedLedger) Park(ctx context.Context, n sale.Number, letters []ledger.Letter) error {
	if err := l.enter("Park"); err != nil {
		return err
	}
	return l.leave("Park", l.Ledger.Park(ctx, n, letters))
}

func (l *hookedLedger) LaneRows(ctx context.Context, n sale.Number, after uint64, limit int) (ledger.LaneRows, error) {
	if err := l.enter("LaneRows"); err != nil {
		return ledger.LaneRows{}, err
	}
	return l.Ledger.LaneRows(ctx, n, after, limit)
}

// hookedCounter is a counter with hooks on what workers call.
type hookedCounter struct {
	stock.Counter
	hooks
}

func (c *hookedCounter) Claim(ctx context.Context, l stock.Lane, claim stock.Claim) ([]stock.Entry, error) {
	if err := c.enter("Claim"); err != nil {
		return nil, err
	}
	out, err := c.Counter.Claim(ctx, l, claim)
	if len(out) == 0 {
		return out, err
	}
	if err = c.leave("Claim", err); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *hookedCounter) TakeOver(ctx context.Context, l stock.Lane, consumer string, idle time.Duration, limit int) (out []stock.Entry, err error) {
	if err = c.enter("TakeOver"); err == nil {
		out, err = c.Counter.TakeOver(ctx, l, consumer, idle, limit)
	}
	return out, c.leave("TakeOver", err)
}

func (c *hookedCounter) Done(ctx context.Context, l stock.Lane, entries []stock.Entry) error {
	if err := c.enter("Done"); err != nil {
		return err
	}
	return c.leave("Done", c.Counter.Done(ctx, l, entries))
}

func (c *hookedCounter) Tell(ctx context.Context, m stock.Message) error {
	if err := c.enter("Tell"); err != nil {
		return err
	}
	return c.leave("Tell", c.Counter.Tell(ctx, m))
}

func (c *hookedCounter) Apply(ctx context.Context, l stock.Lane, a stock.Acts) (uint64, error) {
	if err := c.enter("Apply"); err != nil {
		return 0, err
	}
	n, err := c.Counter.Apply(ctx, l, a)
	return n, c.leave("Apply", err)
}

func (c *hookedCounter) Sync(ctx context.Context, l stock.Lane, epoch int64, r stock.Rules) (int64, error) {
	if err := c.enter("Sync"); err != nil {
		return 0, err
	}
	n, err := c.Counter.Sync(ctx, l, epoch, r)
	return n, c.leave("Sync", err)
}

func (c *hookedCounter) Clock(ctx context.Context, l stock.Lane) (time.Time, error) {
	if err := c.enter("Clock"); err != nil {
		return time.Time{}, err
	}
	return c.Counter.Clock(ctx, l)
}

// listless is a ledger that at times cannot list its sales.
type listless struct {
	ledger.Ledger
	fails atomic.Bool
}

func (l *listless) ListSales(ctx context.Context, after sale.Number, limit int) ([]sale.Sale, error) {
	if l.fails.Load() {
		return nil, errHook
	}
	return l.Ledger.ListSales(ctx, after, limit)
}

// frailStore refuses every row of the orders of some users, until it is mended.
type frailStore struct {
	ledger.Store
	mu      sync.Mutex
	refused map[string]bool
}

func (s *frailStore) refuse(user string) { s.set(user, true) }
func (s *frailStore) mend(user string)   { s.set(user, false) }

func (s *frailStore) set(user string, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[user] = refused
}

func (s *frailStore) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	return s.Store.Update(ctx, func(tx ledger.Tx) error { return fn(&frailTx{Tx: tx, store: s}) })
}

type frailTx struct {
	ledger.Tx
	store *frailStore
}

func (tx *frailTx) Write(ctx context.Context, c *ledger.Changes) error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	for i := range c.Orders {
		if tx.store.refused[c.Orders[i].After.User] {
			return ledger.ErrConstraint
		}
	}
	return tx.Tx.Write(ctx, c)
}
