package sim

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// counterPort is the fast counter as an instance sees it: through the wire.
// Arguments are copied, since a call may be carried out long after its sender has
// stopped waiting.
type counterPort struct {
	stock.Counter
	port
}

// to describes a call to one lane.
func to(l stock.Lane, name, args string) sent {
	return sent{kind: toCounter, name: name, args: args, lane: l.Index}
}

func n(v int64) string { return strconv.FormatInt(v, 10) }

func ids(acts []stock.Act) string {
	var b []byte
	for i := range acts {
		b = append(b, ' ', acts[i].Kind[0])
		b = append(b, acts[i].User...)
	}
	return string(b)
}

func (p *counterPort) Take(ctx context.Context, c stock.Call) (stock.Reply, error) {
	c.Attempts = slices.Clone(c.Attempts)
	args := []byte(" e" + n(c.Epoch) + " seen" + n(int64(c.Seen))) //nolint:gosec // small
	for i := range c.Attempts {
		args = append(append(args, ' '), c.Attempts[i].User...)
		args = strconv.AppendInt(append(args, '*'), c.Attempts[i].Quantity, 10)
	}
	out, err := through(ctx, p.port, to(c.Lane, "Take", string(args)), func(ctx context.Context) (stock.Reply, error) { return p.Counter.Take(ctx, c) })
	alone := len(p.of.world.lanes) == 1
	for _, left := range out.Left {
		if left == 0 && alone {
			p.of.short.Store(true)
		}
	}
	for i := range out.Results { // with several lanes an empty one alone is not remembered
		if v := out.Results[i].Verdict; v == sale.SoldOut || v == sale.Insufficient {
			p.of.short.Store(true)
		}
	}
	return out, err
}

func (p *counterPort) Records(ctx context.Context, l stock.Lane, user string) (stock.Records, error) {
	return through(ctx, p.port, to(l, "Records ", user), func(ctx context.Context) (stock.Records, error) { return p.Counter.Records(ctx, l, user) })
}

func (p *counterPort) Holders(ctx context.Context, l stock.Lane) (stock.Holders, error) {
	return through(ctx, p.port, to(l, "Holders", ""), func(ctx context.Context) (stock.Holders, error) { return p.Counter.Holders(ctx, l) })
}

func (p *counterPort) Read(ctx context.Context, l stock.Lane) (stock.Standing, error) {
	return through(ctx, p.port, to(l, "Read", ""), func(ctx context.Context) (stock.Standing, error) { return p.Counter.Read(ctx, l) })
}

func (p *counterPort) Clock(ctx context.Context, l stock.Lane) (time.Time, error) {
	return through(ctx, p.port, to(l, "Clock", ""), func(ctx context.Context) (time.Time, error) { return p.Counter.Clock(ctx, l) })
}

func (p *counterPort) Apply(ctx context.Context, l stock.Lane, a stock.Acts) (uint64, error) {
	a.Acts = slices.Clone(a.Acts)
	args := " e" + n(a.Epoch) + " " + n(int64(a.From)) + "-" + n(int64(a.To)) + ids(a.Acts) //nolint:gosec // small
	return through(ctx, p.port, to(l, "Apply", args), func(ctx context.Context) (uint64, error) { return p.Counter.Apply(ctx, l, a) })
}

func (p *counterPort) Return(ctx context.Context, l stock.Lane, epoch int64, acts []stock.Act) error {
	acts = slices.Clone(acts)
	return act(ctx, p.port, to(l, "Return", " e"+n(epoch)+ids(acts)), func(ctx context.Context) error { return p.Counter.Return(ctx, l, epoch, acts) })
}

func (p *counterPort) Sync(ctx context.Context, l stock.Lane, epoch int64, r stock.Rules) (int64, error) {
	r.Stock = slices.Clone(r.Stock)
	return through(ctx, p.port, to(l, "Sync", " e"+n(epoch)+" v"+n(r.Version)), func(ctx context.Context) (int64, error) { return p.Counter.Sync(ctx, l, epoch, r) })
}

func (p *counterPort) SetOffset(ctx context.Context, l stock.Lane, epoch int64, offset time.Duration) error {
	return act(ctx, p.port, to(l, "SetOffset", " "+offset.String()), func(ctx context.Context) error { return p.Counter.SetOffset(ctx, l, epoch, offset) })
}

// ReadAll asks all lanes at once. Their servers answer in any order, and anything
// may happen in between.
func (p *counterPort) ReadAll(ctx context.Context, lanes []stock.Lane) ([]stock.Standing, error) {
	out, errs := make([]stock.Standing, len(lanes)), make([]error, len(lanes))
	var asked sync.WaitGroup
	for i := range lanes[1:] {
		asked.Go(func() { out[i+1], errs[i+1] = p.Read(ctx, lanes[i+1]) })
	}
	out[0], errs[0] = p.Read(ctx, lanes[0])
	asked.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *counterPort) Salts(ctx context.Context, first stock.Lane, lanes int) ([]uint32, error) {
	s := sent{kind: toCounter, name: "Salts", lane: noLane}
	return through(ctx, p.port, s, func(ctx context.Context) ([]uint32, error) { return p.Counter.Salts(ctx, first, lanes) })
}

func move(t *stock.Transfer) string {
	return " e" + n(t.Epoch) + " " + n(int64(t.From)) + ">" + n(int64(t.To)) + " #" + n(int64(t.Number)) + " " + n(t.Units) //nolint:gosec // small
}

func (p *counterPort) Give(ctx context.Context, l stock.Lane, t stock.Transfer) (stock.Transfer, error) {
	return through(ctx, p.port, to(l, "Give", move(&t)), func(ctx context.Context) (stock.Transfer, error) { return p.Counter.Give(ctx, l, t) })
}

func (p *counterPort) Receive(ctx context.Context, l stock.Lane, t stock.Transfer) error {
	return act(ctx, p.port, to(l, "Receive", move(&t)), func(ctx context.Context) error { return p.Counter.Receive(ctx, l, t) })
}

func (p *counterPort) Want(ctx context.Context, l stock.Lane, epoch int64, d time.Duration) error {
	return act(ctx, p.port, to(l, "Want", " e"+n(epoch)), func(ctx context.Context) error { return p.Counter.Want(ctx, l, epoch, d) })
}

func (p *counterPort) Freeze(ctx context.Context, l stock.Lane, token int64) (stock.Standing, error) {
	return through(ctx, p.port, to(l, "Freeze", " t"+n(token)), func(ctx context.Context) (stock.Standing, error) { return p.Counter.Freeze(ctx, l, token) })
}

func (p *counterPort) Load(ctx context.Context, l stock.Lane, token int64, acts []stock.Act) error {
	acts = slices.Clone(acts)
	return act(ctx, p.port, to(l, "Load", " t"+n(token)+ids(acts)), func(ctx context.Context) error { return p.Counter.Load(ctx, l, token, acts) })
}

func (p *counterPort) Set(ctx context.Context, l stock.Lane, token int64, s stock.Setting) error {
	s.Left, s.Stock = slices.Clone(s.Left), slices.Clone(s.Stock)
	return act(ctx, p.port, to(l, "Set", " t"+n(token)), func(ctx context.Context) error { return p.Counter.Set(ctx, l, token, s) })
}

func (p *counterPort) Unfreeze(ctx context.Context, l stock.Lane, token int64) error {
	return act(ctx, p.port, to(l, "Unfreeze", " t"+n(token)), func(ctx context.Context) error { return p.Counter.Unfreeze(ctx, l, token) })
}

func (p *counterPort) Clear(ctx context.Context, l stock.Lane, token int64) error {
	return act(ctx, p.port, to(l, "Clear", " t"+n(token)), func(ctx context.Context) error { return p.Counter.Clear(ctx, l, token) })
}

func (p *counterPort) Claim(ctx context.Context, l stock.Lane, c stock.Claim) ([]stock.Entry, error) {
	return through(ctx, p.port, to(l, "Claim", ""), func(ctx context.Context) ([]stock.Entry, error) { return p.Counter.Claim(ctx, l, c) })
}

func (p *counterPort) TakeOver(ctx context.Context, l stock.Lane, consumer string, idle time.Duration, limit int) ([]stock.Entry, error) {
	return through(ctx, p.port, to(l, "TakeOver", ""), func(ctx context.Context) ([]stock.Entry, error) {
		return p.Counter.TakeOver(ctx, l, consumer, idle, limit)
	})
}

func (p *counterPort) Look(ctx context.Context, l stock.Lane, after string, limit int) ([]stock.Entry, error) {
	return through(ctx, p.port, to(l, "Look", ""), func(ctx context.Context) ([]stock.Entry, error) { return p.Counter.Look(ctx, l, after, limit) })
}

func (p *counterPort) Done(ctx context.Context, l stock.Lane, entries []stock.Entry) error {
	entries = slices.Clone(entries)
	return act(ctx, p.port, to(l, "Done", " "+n(int64(len(entries)))), func(ctx context.Context) error { return p.Counter.Done(ctx, l, entries) })
}

func (p *counterPort) Retire(ctx context.Context, l stock.Lane, consumer string) error {
	return act(ctx, p.port, to(l, "Retire", ""), func(ctx context.Context) error { return p.Counter.Retire(ctx, l, consumer) })
}

// Tell sends a piece of news on its way to every instance that lives.
func (p *counterPort) Tell(ctx context.Context, m stock.Message) error {
	return act(ctx, p.port, sent{kind: toCounter, name: "Tell ", args: string(m.Kind), lane: noLane}, func(context.Context) error {
		if p.of.world.down {
			return toCounter.trouble()
		}
		p.of.world.spread(stock.Message{Kind: m.Kind, Sale: m.Sale, IDs: slices.Clone(m.IDs)})
		return nil
	})
}

func (p *counterPort) Listen(ctx context.Context, fn func(stock.Message)) error {
	w := &p.of.world.wire
	w.mu.Lock()
	w.heard[p.of] = append(w.heard[p.of], fn)
	w.mu.Unlock()
	fn(stock.Message{Kind: stock.KindGap})
	<-ctx.Done()
	return nil
}
