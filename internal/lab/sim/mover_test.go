package sim

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// greedy takes a transfer each time it comes.
type greedy struct{ base }

func (m *greedy) Receive(ctx context.Context, l stock.Lane, t stock.Transfer) error {
	at, err := m.Read(ctx, l)
	if err != nil {
		return err
	}
	t.Number = at.Received[t.From] + 1
	return m.Counter.Receive(ctx, l, t)
}

// careless forgets a transfer that has not arrived.
type careless struct{ base }

func (m *careless) Give(ctx context.Context, l stock.Lane, t stock.Transfer) (stock.Transfer, error) {
	at, err := m.Read(ctx, l)
	if err != nil {
		return stock.Transfer{}, err
	}
	t.Number = at.Given[t.To].Number + 1
	return m.Counter.Give(ctx, l, t)
}

// lonely shows no other lane to one that is short.
type lonely struct{ base }

func (m *lonely) Read(ctx context.Context, l stock.Lane) (stock.Standing, error) {
	at, err := m.Counter.Read(ctx, l)
	for i := range at.Left {
		at.Left[i] = min(at.Left[i], 0)
	}
	return at, err
}

// still lets nobody see that anything came or went between two readings.
type still struct{ base }

func (m *still) Read(ctx context.Context, l stock.Lane) (stock.Standing, error) {
	at, err := m.Counter.Read(ctx, l)
	at.Generation = 1
	return at, err
}

func (m *still) Take(ctx context.Context, c stock.Call) (stock.Reply, error) {
	out, err := m.Counter.Take(ctx, c)
	out.Generation = 1
	return out, err
}

func (m *still) Holders(ctx context.Context, l stock.Lane) (stock.Holders, error) {
	out, err := m.Counter.Holders(ctx, l)
	out.Generation = 1
	return out, err
}

// idle leaves on its way what is there.
type idle struct{ stock.Counter }

func (*idle) Receive(context.Context, stock.Lane, stock.Transfer) error { return nil }

// stingy gives nothing.
type stingy struct{ stock.Counter }

func (*stingy) Give(_ context.Context, _ stock.Lane, t stock.Transfer) (stock.Transfer, error) {
	t.Units = 0
	return t, nil
}
