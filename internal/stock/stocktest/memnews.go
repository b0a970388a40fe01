package stocktest

import (
	"context"
	"maps"
	"slices"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// Tell implements stock.Counter. Every listener has heard the message when it
// returns.
func (m *Mem) Tell(ctx context.Context, msg stock.Message) error {
	if err := do(ctx, m, func() error { return nil }); err != nil {
		return err
	}
	m.hearing.Lock()
	defer m.hearing.Unlock()
	for _, ear := range slices.Sorted(maps.Keys(m.listeners)) {
		m.listeners[ear](stock.Message{Kind: msg.Kind, Sale: msg.Sale, IDs: slices.Clone(msg.IDs)})
	}
	return nil
}

// Listen implements stock.Counter.
func (m *Mem) Listen(ctx context.Context, fn func(stock.Message)) error {
	ear := m.join(fn)
	<-ctx.Done()
	m.hearing.Lock()
	defer m.hearing.Unlock()
	delete(m.listeners, ear)
	return nil
}

func (m *Mem) join(fn func(stock.Message)) int {
	m.hearing.Lock()
	defer m.hearing.Unlock()
	m.nextEar++
	m.listeners[m.nextEar] = fn
	fn(stock.Message{Kind: stock.KindGap})
	return m.nextEar
}
