package sim

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// counterPort is the fast counter as an instance sees it: through the wire.
// Arguments are copied, since a call may be carried out long after its sender has
// stopped waiting.
type counterPort struct {
	stock.Counter
	port
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
	out, err := through(ctx, p.port, sent{toCounter, "Take", string(args)}, func(ctx context.Context) (stock.Reply, error) { return p.Counter.Take(ctx, c) })
	for _, left := range out.Left {
		if left == 0 {
			p.of.short.Store(true)
		}
	}
	return out, err
}

func (p *counterPort) Records(ctx context.Context, l stock.Lane, user string) (stock.Records, error) {
	return through(ctx, p.port, sent{toCounter, "Records ", user}, func(ctx context.Context) (stock.Records, error) { return p.Counter.Records(ctx, l, user) })
}

func (p *counterPort) Holders(ctx context.Context, l stock.Lane) (stock.Holders, error) {
	return through(ctx, p.port, sent{toCounter, "Holders", ""}, func(ctx context.Context) (stock.Holders, error) { return p.Counter.Holders(ctx, l) })
}

func (p *counterPort) Read(ctx context.Context, l stock.Lane) (stock.Standing, error) {
	return through(ctx, p.port, sent{toCounter, "Read", ""}, func(ctx context.Context) (stock.Standing, error) { return p.Counter.Read(ctx, l) })
}

func (p *counterPort) Clock(ctx context.Context, l stock.Lane) (time.Time, error) {
	return through(ctx, p.port, sent{toCounter, "Clock", ""}, func(ctx context.Context) (time.Time, error) { return p.Counter.Clock(ctx, l) })
}

func (p *counterPort) Apply(ctx context.Context, l stock.Lane, a stock.Acts) (uint64, error) {
	a.Acts = slices.Clone(a.Acts)
	args := " e" + n(a.Epoch) + " " + n(int64(a.From)) + "-" + n(int64(a.To)) + ids(a.Acts) //nolint:gosec // small
	return through(ctx, p.port, sent{toCounter, "Apply", args}, func(ctx context.Context) (uint64, error) { return p.Counter.Apply(ctx, l, a) })
}

func (p *counterPort) Return(ctx context.Context, l stock.Lane, epoch int64, acts []stock.Act) error {
	acts = slices.Clone(acts)
	return act(ctx, p.port, sent{toCounter, "Return", " e" + n(epoch) + ids(acts)}, func(ctx context.Context) error { return p.Counter.Return(ctx, l, epoch, acts) })
}

func (p *counterPort) Sync(ctx context.Context, l stock.Lane, epoch int64, r stock.Rules) (int64, error) {
	r.Stock = slices.Clone(r.Stock)
	return through(ctx, p.port, sent{toCounter, "Sync", " e" + n(epoch) + " v" + n(r.Version)}, func(ctx context.Context) (int64, error) { return p.Counter.Sync(ctx, l, epoch, r) })
}

func (p *counterPort) SetOffset(ctx context.Context, l stock.Lane, epoch int64, offset time.Duration) error {
	return act(ctx, p.port, sent{toCounter, "SetOffset", " " + offset.String()}, func(ctx context.Context) error { return p.Counter.SetOffset(ctx, l, epoch, offset) })
}

// ReadAll reads the lanes one after another, so that anything may happen in between.
func (p *counterPort) ReadAll(ctx context.Context, lanes []stock.Lane) ([]stock.Standing, error) {
	out := make([]stock.Standing, len(lanes))
	for i, l := range lanes {
		var err error
		if out[i], err = p.Read(ctx, l); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func move(t *stock.Transfer) string {
	return " e" + n(t.Epoch) + " " + n(int64(t.From)) + ">" + n(int64(t.To)) + " #" + n(int64(t.Number)) + " " + n(t.Units) //nolint:gosec // small
}

func (p *counterPort) Give(ctx context.Context, l stock.Lane, t stock.Transfer) (stock.Transfer, error) {
	return through(ctx, p.port, sent{toCounter, "Give", move(&t)}, func(ctx context.Context) (stock.Transfer, error) { return p.Counter.Give(ctx, l, t) })
}

func (p *counterPort) Receive(ctx context.Context, l stock.Lane, t stock.Transfer) error {
	return act(ctx, p.port, sent{toCounter, "Receive", move(&t)}, func(ctx context.Context) error { return p.Counter.Receive(ctx, l, t) })
}

func (p *counterPort) Want(ctx context.Context, l stock.Lane, epoch int64, d time.Duration) error {
	return act(ctx, p.port, sent{toCounter, "Want", " e" + n(epoch)}, func(ctx context.Context) error { return p.Counter.Want(ctx, l, epoch, d) })
}

func (p *counterPort) Freeze(ctx context.Context, l stock.Lane, token int64) (stock.Standing, error) {
	return through(ctx, p.port, sent{toCounter, "Freeze", " t" + n(token)}, func(ctx context.Context) (stock.Standing, error) { return p.Counter.Freeze(ctx, l, token) })
}

func (p *counterPort) Load(ctx context.Context, l stock.Lane, token int64, acts []stock.Act) error {
	acts = slices.Clone(acts)
	return act(ctx, p.port, sent{toCounter, "Load", " t" + n(token) + ids(acts)}, func(ctx context.Context) error { return p.Counter.Load(ctx, l, token, acts) })
}

func (p *counterPort) Set(ctx context.Context, l stock.Lane, token int64, s stock.Setting) error {
	s.Left, s.Stock = slices.Clone(s.Left), slices.Clone(s.Stock)
	return act(ctx, p.port, sent{toCounter, "Set", " t" + n(token)}, func(ctx context.Context) error { return p.Counter.Set(ctx, l, token, s) })
}

func (p *counterPort) Unfreeze(ctx context.Context, l stock.Lane, token int64) error {
	return act(ctx, p.port, sent{toCounter, "Unfreeze", " t" + n(token)}, func(ctx context.Context) error { return p.Counter.Unfreeze(ctx, l, token) })
}

func (p *counterPort) Clear(ctx context.Context, l stock.Lane, token int64) error {
	return act(ctx, p.port, sent{toCounter, "Clear", " t" + n(token)}, func(ctx context.Context) error { return p.Counter.Clear(ctx, l, token) })
}

func (p *counterPort) Claim(ctx context.Context, l stock.Lane, c stock.Claim) ([]stock.Entry, error) {
	return through(ctx, p.port, sent{toCounter, "Claim", ""}, func(ctx context.Context) ([]stock.Entry, error) { return p.Counter.Claim(ctx, l, c) })
}

func (p *counterPort) TakeOver(ctx context.Context, l stock.Lane, consumer string, idle time.Duration, limit int) ([]stock.Entry, error) {
	return through(ctx, p.port, sent{toCounter, "TakeOver", ""}, func(ctx context.Context) ([]stock.Entry, error) {
		return p.Counter.TakeOver(ctx, l, consumer, idle, limit)
	})
}

func (p *counterPort) Look(ctx context.Context, l stock.Lane, after string, limit int) ([]stock.Entry, error) {
	return through(ctx, p.port, sent{toCounter, "Look", ""}, func(ctx context.Context) ([]stock.Entry, error) { return p.Counter.Look(ctx, l, after, limit) })
}

func (p *counterPort) Done(ctx context.Context, l stock.Lane, entries []stock.Entry) error {
	entries = slices.Clone(entries)
	return act(ctx, p.port, sent{toCounter, "Done", " " + n(int64(len(entries)))}, func(ctx context.Context) error { return p.Counter.Done(ctx, l, entries) })
}

func (p *counterPort) Retire(ctx context.Context, l stock.Lane, consumer string) error {
	return act(ctx, p.port, sent{toCounter, "Retire", ""}, func(ctx context.Context) error { return p.Counter.Retire(ctx, l, consumer) })
}

// Tell sends a piece of news on its way to every instance that lives.
func (p *counterPort) Tell(ctx context.Context, m stock.Message) error {
	return act(ctx, p.port, sent{toCounter, "Tell ", string(m.Kind)}, func(context.Context) error {
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
