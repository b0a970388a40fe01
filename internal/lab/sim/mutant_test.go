package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// mutant is a planted mistake: a counter or a ledger that is wrong in one way.
type mutant struct {
	name    string
	counter func(*world, stock.Counter) stock.Counter
	ledger  func(ledger.Ledger) ledger.Ledger
	// keeper, if set, is wrong with the counter as keepers see it.
	keeper func(stock.Counter) stock.Counter
	// plan bends the plans to what the mistake is about. Nil: they stay as drawn.
	plan func(*plan)
}

func (m mutant) orNone() mutant {
	if m.plan == nil {
		m.plan = func(*plan) {}
	}
	if m.keeper == nil {
		m.keeper = func(c stock.Counter) stock.Counter { return c }
	}
	if m.counter == nil {
		m.counter = func(_ *world, c stock.Counter) stock.Counter { return c }
	}
	if m.ledger == nil {
		m.ledger = func(l ledger.Ledger) ledger.Ledger { return l }
	}
	return m
}

func mutants() []mutant {
	counter := func(name string, of func(base) stock.Counter) mutant {
		return mutant{name: name, counter: func(w *world, c stock.Counter) stock.Counter { return of(base{c, w}) }}
	}
	book := func(name string, of func(ledger.Ledger) ledger.Ledger) mutant { return mutant{name: name, ledger: of} }
	laned := func(name string, of func(base) stock.Counter) mutant {
		m := counter(name, of)
		m.plan = inLanes
		return m
	}
	return []mutant{
		counter("slips are acknowledged before they are judged", func(b base) stock.Counter { return &hasty{b} }),
		counter("adopts are dropped", func(b base) stock.Counter { return &without{b, stock.ActAdopt} }),
		counter("returns are dropped", func(b base) stock.Counter { return &without{b, stock.ActReturn} }),
		{
			name: "rows are applied wherever the lane stands", counter: func(w *world, c stock.Counter) stock.Counter { return &anywhere{base{c, w}} },
			plan: func(p *plan) {
				p.rules.Hold = 2 * time.Second
				p.mix = []verb{{"buy", 8}, {"judge", 6}, {"forward", 12}, {"sweep", 3}, {"pay", 8}, {"cancel", 8}, {"refund", 8}}
			},
		},
		counter("a sync is dropped", func(b base) stock.Counter { return &deaf{b} }),
		counter("an older sync wins", func(b base) stock.Counter { return &unversioned{b} }),
		counter("ids are drawn", func(b base) stock.Counter { return &drawn{base: b} }),
		counter("the limit comes before the look-up", func(b base) stock.Counter { return &forgetful{b} }),
		counter("a lane is loaded before it is frozen", func(b base) stock.Counter { return &late{b} }),
		{
			name: "a stale lane is not noticed", counter: func(w *world, c stock.Counter) stock.Counter { return &blind{rosy: rosy{base{c, w}}} },
			plan: func(p *plan) { p.faults, p.kinds = 2, []string{"stale"} },
		},
		counter("a lost reply is a refusal", func(b base) stock.Counter { return &dishonest{b} }),
		book("a build misses what happened meanwhile", func(l ledger.Ledger) ledger.Ledger { return &noDelta{l} }),
		book("a direct attempt does not name its epoch", func(l ledger.Ledger) ledger.Ledger { return &trusting{l} }),
		{
			name:    "slips of an older epoch are not adopted, and nobody looks for losses",
			ledger:  func(l ledger.Ledger) ledger.Ledger { return &timeless{l} },
			counter: func(w *world, c stock.Counter) stock.Counter { return &rosy{base{c, w}} },
		},
		book("holds end in the ledger alone", func(l ledger.Ledger) ledger.Ledger { return &silent{l} }),
		laned("a transfer is received as often as it comes", func(b base) stock.Counter { return &greedy{b} }),
		{
			name: "a transfer is given over one that is on its way", counter: func(w *world, c stock.Counter) stock.Counter { return &careless{base{c, w}} },
			plan: func(p *plan) {
				p.lanes, p.users, p.rules.PerUserLimit, p.rules.Items[0].Stock = 2, 7, 3, 8
				p.heated, p.faults, p.slow, p.mix = true, 0, 1, []verb{{"buy", 8}, {"judge", 1}}
			},
		},
		laned("a reading shows one lane alone", func(b base) stock.Counter { return &lonely{b} }),
		laned("generations stand still", func(b base) stock.Counter { return &still{b} }),
		{
			name: "keepers do not finish transfers", plan: inLanes,
			keeper: func(c stock.Counter) stock.Counter { return &idle{c} },
		},
		{
			name: "keepers let lanes owe units", plan: func(p *plan) {
				inLanes(p)
				p.rules.Hold = 2 * time.Second // so that payments come late
				p.mix = append(p.mix, verb{"pay", 8}, verb{"sweep", 8})
			},
			keeper: func(c stock.Counter) stock.Counter { return &stingy{c} },
		},
	}
}

// inLanes has the sale sell by several lanes.
func inLanes(p *plan) {
	if p.lanes == 1 {
		p.lanes, p.users, p.rules.PerUserLimit = 2+p.users%2, p.users+1, 2
	}
}

// base is a counter to be wrong with.
type base struct {
	stock.Counter
	w *world
}

type hasty struct{ base }

func (m *hasty) Claim(ctx context.Context, l stock.Lane, c stock.Claim) ([]stock.Entry, error) {
	found, err := m.Counter.Claim(ctx, l, c)
	if err == nil {
		err = m.Done(ctx, l, found)
	}
	return found, err
}

type without struct {
	base
	kind stock.ActKind
}

func (m *without) Apply(ctx context.Context, l stock.Lane, a stock.Acts) (uint64, error) {
	a.Acts = slices.DeleteFunc(slices.Clone(a.Acts), func(x stock.Act) bool { return x.Kind == m.kind })
	return m.Counter.Apply(ctx, l, a)
}

func (m *without) Return(ctx context.Context, l stock.Lane, epoch int64, acts []stock.Act) error {
	if m.kind == stock.ActReturn {
		return nil
	}
	return m.Counter.Return(ctx, l, epoch, acts)
}

type anywhere struct{ base }

func (m *anywhere) Apply(ctx context.Context, l stock.Lane, a stock.Acts) (uint64, error) {
	at, err := m.Read(ctx, l)
	if err != nil {
		return 0, err
	}
	upto := a.To
	if at.Applied != a.From { // the lane's number says nothing
		a.From = at.Applied
		a.To = max(a.To, at.Applied+1)
		for i := range a.Acts {
			a.Acts[i].Seq = a.To
		}
	}
	if _, err := m.Counter.Apply(ctx, l, a); err != nil {
		return 0, err
	}
	return upto, nil
}

type deaf struct{ base }

func (m *deaf) Sync(_ context.Context, _ stock.Lane, _ int64, r stock.Rules) (int64, error) {
	return r.Version, nil
}

type unversioned struct{ base }

func (m *unversioned) Sync(ctx context.Context, l stock.Lane, epoch int64, r stock.Rules) (int64, error) {
	at, err := m.Read(ctx, l)
	if err != nil {
		return 0, err
	}
	r.Version = max(r.Version, at.Version+1)
	return m.Counter.Sync(ctx, l, epoch, r)
}

type drawn struct {
	base
	draws byte
}

func (m *drawn) Take(ctx context.Context, c stock.Call) (stock.Reply, error) {
	m.draws++
	signer := stock.NewSigner(m.w.sale.Key, m.w.sale.Number)
	for i := range c.Attempts {
		a := &c.Attempts[i]
		a.ID[15] ^= m.draws
		a.MAC = signer.Sign(&stock.Slip{ID: a.ID, User: a.User, Item: a.Item, Quantity: a.Quantity, Epoch: c.Epoch, Terms: c.Terms, AskedAt: c.AskedAt})
	}
	return m.Counter.Take(ctx, c)
}

type forgetful struct{ base }

func (m *forgetful) Take(ctx context.Context, c stock.Call) (stock.Reply, error) {
	out, err := m.Counter.Take(ctx, c)
	for i := range out.Results {
		if out.Results[i].Verdict == sale.Replayed {
			out.Results[i] = stock.Result{Verdict: sale.LimitReached}
		}
	}
	return out, err
}

type late struct{ base }

func (m *late) Freeze(ctx context.Context, l stock.Lane, _ int64) (stock.Standing, error) {
	return m.Read(ctx, l)
}

func (m *late) Load(ctx context.Context, l stock.Lane, token int64, acts []stock.Act) error {
	if _, err := m.Counter.Freeze(ctx, l, token); err != nil {
		return err
	}
	return m.Counter.Load(ctx, l, token, acts)
}

func (m *late) Set(ctx context.Context, l stock.Lane, token int64, s stock.Setting) error {
	if _, err := m.Counter.Freeze(ctx, l, token); err != nil {
		return err
	}
	return m.Counter.Set(ctx, l, token, s)
}

// rosy lets nobody see how much a lane holds.
type rosy struct{ base }

func (m *rosy) Read(ctx context.Context, l stock.Lane) (stock.Standing, error) {
	at, err := m.Counter.Read(ctx, l)
	for i := range at.Left {
		at.Left[i] -= 100
	}
	return at, err
}

// blind lets nobody see that a lane went back in time.
type blind struct {
	rosy
	applied uint64
}

func (m *blind) Take(ctx context.Context, c stock.Call) (stock.Reply, error) {
	c.Seen = 0
	return m.Counter.Take(ctx, c)
}

func (m *blind) Read(ctx context.Context, l stock.Lane) (stock.Standing, error) {
	at, err := m.rosy.Read(ctx, l)
	m.applied = max(m.applied, at.Applied)
	at.Applied = m.applied
	return at, err
}

type dishonest struct{ base }

func (m *dishonest) Take(ctx context.Context, c stock.Call) (stock.Reply, error) {
	out, err := m.Counter.Take(ctx, c)
	if err == nil && out.State == stock.Full || out.State == stock.Frozen {
		out.State, out.Results = stock.Open, make([]stock.Result, len(c.Attempts))
		for i := range out.Results {
			out.Results[i].Verdict = sale.SoldOut
		}
	}
	return out, err
}

type noDelta struct{ ledger.Ledger }

func (m *noDelta) FinishBuild(ctx context.Context, f ledger.Finish) (sale.Sale, error) {
	load := f.Load
	f.Load = func(ctx context.Context, now ledger.Present) error {
		now.Delta = nil
		return load(ctx, now)
	}
	return m.Ledger.FinishBuild(ctx, f)
}

type trusting struct{ ledger.Ledger }

func (m *trusting) Reserve(ctx context.Context, b ledger.Batch) (ledger.Batched, error) {
	out, err := m.Ledger.Reserve(ctx, b)
	if !errors.Is(err, ledger.ErrWrongEpoch) {
		return out, err
	}
	s, err := m.SaleByNumber(ctx, b.Sale)
	if err != nil {
		return out, err
	}
	b.Epoch = s.Epoch
	if s.Path == sale.PathFast {
		now, err := m.Now(ctx)
		if err != nil {
			return out, err
		}
		b.Attempts = slices.Clone(b.Attempts)
		for i := range b.Attempts {
			b.Attempts[i].Slip = &ledger.Slip{Epoch: s.Epoch, Terms: s.Terms, TakenAt: now}
		}
	}
	return m.Ledger.Reserve(ctx, b)
}

type timeless struct{ ledger.Ledger }

func (m *timeless) Reserve(ctx context.Context, b ledger.Batch) (ledger.Batched, error) {
	s, err := m.SaleByNumber(ctx, b.Sale)
	if err != nil {
		return ledger.Batched{}, err
	}
	for i := range b.Attempts {
		if old := b.Attempts[i].Slip; old != nil {
			slip := *old
			slip.Epoch, slip.Presented = s.Epoch, false
			b.Attempts[i].Slip = &slip
		}
	}
	return m.Ledger.Reserve(ctx, b)
}

type silent struct{ ledger.Ledger }

func (m *silent) LaneRows(ctx context.Context, number sale.Number, after uint64, limit int) (ledger.LaneRows, error) {
	out, err := m.Ledger.LaneRows(ctx, number, after, limit)
	out.Rows = slices.DeleteFunc(out.Rows, func(e ledger.Entry) bool { return e.Kind == ledger.OrderKind(sale.Expired) })
	return out, err
}
