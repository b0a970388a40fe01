package sim

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// ledgerPort is the ledger as an instance sees it: through the wire.
type ledgerPort struct {
	ledger.Ledger
	port
}

func (p *ledgerPort) read(name string) sent  { return sent{kind: toRead, name: name} }
func (p *ledgerPort) write(name string) sent { return sent{kind: toWrite, name: name} }

func (p *ledgerPort) Now(ctx context.Context) (time.Time, error) {
	return through(ctx, p.port, p.read("Now"), p.Ledger.Now)
}

func (p *ledgerPort) ChangeSale(ctx context.Context, slug string, version int64, c sale.Change) (sale.Sale, error) {
	return through(ctx, p.port, p.write("ChangeSale "+string(c.Action)), func(ctx context.Context) (sale.Sale, error) {
		return p.Ledger.ChangeSale(ctx, slug, version, c)
	})
}

func (p *ledgerPort) Sale(ctx context.Context, slug string) (sale.Sale, error) {
	return through(ctx, p.port, p.read("Sale"), func(ctx context.Context) (sale.Sale, error) { return p.Ledger.Sale(ctx, slug) })
}

func (p *ledgerPort) SaleByNumber(ctx context.Context, number sale.Number) (sale.Sale, error) {
	return through(ctx, p.port, p.read("SaleByNumber"), func(ctx context.Context) (sale.Sale, error) { return p.Ledger.SaleByNumber(ctx, number) })
}

func (p *ledgerPort) ListSales(ctx context.Context, after sale.Number, limit int) ([]sale.Sale, error) {
	return through(ctx, p.port, p.read("ListSales"), func(ctx context.Context) ([]sale.Sale, error) { return p.Ledger.ListSales(ctx, after, limit) })
}

func (p *ledgerPort) Reserve(ctx context.Context, b ledger.Batch) (ledger.Batched, error) {
	b.Attempts = append([]ledger.Attempt(nil), b.Attempts...)
	s := p.write("Reserve e" + n(b.Epoch))
	for i := range b.Attempts {
		s.args += wanted(&b.Attempts[i])
	}
	out, err := through(ctx, p.port, s, func(ctx context.Context) (ledger.Batched, error) { return p.Ledger.Reserve(ctx, b) })
	for i := range out.Results {
		if out.Results[i].Left == 0 {
			p.of.short.Store(true)
		}
	}
	return out, err
}

func wanted(a *ledger.Attempt) string {
	if a.Slip != nil {
		return " " + a.User + "*" + n(a.Quantity) + "@e" + n(a.Slip.Epoch)
	}
	return " " + a.User + "*" + n(a.Quantity)
}

func (p *ledgerPort) Order(ctx context.Context, id sale.OrderID) (sale.Order, error) {
	return through(ctx, p.port, p.read("Order "+id.String()), func(ctx context.Context) (sale.Order, error) { return p.Ledger.Order(ctx, id) })
}

func (p *ledgerPort) OrdersByID(ctx context.Context, list []sale.OrderID) (map[sale.OrderID]sale.Order, error) {
	list = append([]sale.OrderID(nil), list...)
	return through(ctx, p.port, p.read("OrdersByID"), func(ctx context.Context) (map[sale.OrderID]sale.Order, error) {
		return p.Ledger.OrdersByID(ctx, list)
	})
}

func (p *ledgerPort) ListOrders(ctx context.Context, f ledger.OrderFilter) ([]sale.Order, error) {
	return through(ctx, p.port, p.read("ListOrders"), func(ctx context.Context) ([]sale.Order, error) { return p.Ledger.ListOrders(ctx, f) })
}

func (p *ledgerPort) AnyReserved(ctx context.Context, n sale.Number) (bool, error) {
	return through(ctx, p.port, p.read("AnyReserved"), func(ctx context.Context) (bool, error) { return p.Ledger.AnyReserved(ctx, n) })
}

func (p *ledgerPort) CancelQueued(ctx context.Context, a ledger.Attempt) (sale.Order, error) {
	return through(ctx, p.port, p.write("CancelQueued "+a.User), func(ctx context.Context) (sale.Order, error) { return p.Ledger.CancelQueued(ctx, a) })
}

func (p *ledgerPort) Cancel(ctx context.Context, id sale.OrderID, user string) (sale.Order, error) {
	return through(ctx, p.port, p.write("Cancel "+id.String()), func(ctx context.Context) (sale.Order, error) { return p.Ledger.Cancel(ctx, id, user) })
}

func (p *ledgerPort) Due(ctx context.Context, from time.Time, limit int) (ledger.DueOrders, error) {
	return through(ctx, p.port, p.read("Due"), func(ctx context.Context) (ledger.DueOrders, error) { return p.Ledger.Due(ctx, from, limit) })
}

func (p *ledgerPort) Expire(ctx context.Context, list []sale.OrderID) (int, error) {
	list = append([]sale.OrderID(nil), list...)
	return through(ctx, p.port, p.write("Expire"), func(ctx context.Context) (int, error) { return p.Ledger.Expire(ctx, list) })
}

func (p *ledgerPort) Refund(ctx context.Context, id sale.OrderID, r ledger.Refunding) (sale.Order, error) {
	return through(ctx, p.port, p.write("Refund "+id.String()), func(ctx context.Context) (sale.Order, error) { return p.Ledger.Refund(ctx, id, r) })
}

func (p *ledgerPort) Buyers(ctx context.Context, number sale.Number) ([]uint64, error) {
	return through(ctx, p.port, p.read("Buyers"), func(ctx context.Context) ([]uint64, error) { return p.Ledger.Buyers(ctx, number) })
}

func (p *ledgerPort) Pay(ctx context.Context, b sale.Payment) (ledger.Paid, error) {
	return through(ctx, p.port, p.write("Pay "+b.ID), func(ctx context.Context) (ledger.Paid, error) { return p.Ledger.Pay(ctx, b) })
}

func (p *ledgerPort) Rows(ctx context.Context, number sale.Number, after uint64, limit int) ([]ledger.Entry, error) {
	return through(ctx, p.port, p.read("Rows"), func(ctx context.Context) ([]ledger.Entry, error) { return p.Ledger.Rows(ctx, number, after, limit) })
}

func (p *ledgerPort) LaneRows(ctx context.Context, number sale.Number, after uint64, limit int) (ledger.LaneRows, error) {
	return through(ctx, p.port, p.read("LaneRows"), func(ctx context.Context) (ledger.LaneRows, error) {
		return p.Ledger.LaneRows(ctx, number, after, limit)
	})
}

// Snapshot sees the instant at which the call is carried out; what fn does then
// takes its time.
func (p *ledgerPort) Snapshot(ctx context.Context, fn func(ledger.Reader) error) error {
	if express(ctx) {
		return p.Ledger.Snapshot(ctx, fn)
	}
	r, err := through(ctx, p.port, p.read("Snapshot"), func(ctx context.Context) (r ledger.Reader, err error) {
		err = p.Ledger.Snapshot(ctx, func(seen ledger.Reader) error {
			r = seen
			return nil
		})
		return r, err
	})
	if err != nil {
		return err
	}
	return fn(r)
}

func (p *ledgerPort) StartBuild(ctx context.Context, number sale.Number, epoch int64) (ledger.Build, error) {
	return through(ctx, p.port, p.write("StartBuild"), func(ctx context.Context) (ledger.Build, error) { return p.Ledger.StartBuild(ctx, number, epoch) })
}

func (p *ledgerPort) GoDirect(ctx context.Context, number sale.Number, from, to int64) (sale.Sale, error) {
	return through(ctx, p.port, p.write("GoDirect"), func(ctx context.Context) (sale.Sale, error) { return p.Ledger.GoDirect(ctx, number, from, to) })
}

// FinishBuild is led through by its caller, call by call, while the sale is locked:
// other writers wait, and the counter's other users do not.
func (p *ledgerPort) FinishBuild(ctx context.Context, f ledger.Finish) (sale.Sale, error) {
	if express(ctx) {
		return p.Ledger.FinishBuild(ctx, f)
	}
	w := &p.of.world.wire
	c := &call{
		from: p.of, role: p.role, name: "FinishBuild", kind: toOwn, key: p.of.name + p.role + ".FinishBuild t" + n(f.Token), answer: make(chan fate, 1),
		perform: func() { w.writing.Store(true) }, show: func() string { return "begun" },
	}
	if !w.add(c) {
		return sale.Sale{}, errDead
	}
	var what fate
	select {
	case what = <-c.answer:
	case <-ctx.Done():
		w.leave(c)
		return sale.Sale{}, context.Cause(ctx)
	}
	if what == dropped {
		return sale.Sale{}, errLost
	}
	after, err := p.Ledger.FinishBuild(ctx, f)
	w.writing.Store(false)
	if what == unheard {
		return sale.Sale{}, errLost
	}
	return after, err
}

func (p *ledgerPort) ListLetters(ctx context.Context, f ledger.LetterFilter) ([]ledger.Letter, error) {
	return through(ctx, p.port, p.read("ListLetters"), func(ctx context.Context) ([]ledger.Letter, error) { return p.Ledger.ListLetters(ctx, f) })
}

func (p *ledgerPort) Letter(ctx context.Context, id ledger.LetterID) (ledger.Letter, error) {
	return through(ctx, p.port, p.read("Letter"), func(ctx context.Context) (ledger.Letter, error) { return p.Ledger.Letter(ctx, id) })
}

func (p *ledgerPort) CloseLetter(ctx context.Context, id ledger.LetterID, s ledger.LetterState) (ledger.Letter, error) {
	return through(ctx, p.port, p.write("CloseLetter "+string(s)), func(ctx context.Context) (ledger.Letter, error) { return p.Ledger.CloseLetter(ctx, id, s) })
}

func (p *ledgerPort) Park(ctx context.Context, number sale.Number, letters []ledger.Letter) error {
	return act(ctx, p.port, p.write("Park"), func(ctx context.Context) error { return p.Ledger.Park(ctx, number, letters) })
}
