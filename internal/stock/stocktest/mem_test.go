package stocktest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	stocktest.Run(t, stocktest.MemWorld)
}

// TestMemForgetsTransfers: what was saved stays as it was while units move on.
func TestMemForgetsTransfers(t *testing.T) {
	t.Parallel()
	w := stocktest.MemWorld(t)
	m, ok := w.Counter.(*stocktest.Mem)
	require.True(t, ok)
	ctx, l := t.Context(), w.Lane
	_, err := m.Freeze(ctx, l, 1)
	require.NoError(t, err)
	require.NoError(t, m.Set(ctx, l, 1, stock.Setting{Rules: stock.Rules{Stock: []int64{9}}, Left: []int64{9}}))
	require.NoError(t, m.Unfreeze(ctx, l, 1))
	move := func(number uint64) {
		_, problem := m.Give(ctx, l, stock.Transfer{Epoch: 1, From: l.Index, To: 0, Number: number, Units: 2})
		require.NoError(t, problem)
		require.NoError(t, m.Receive(ctx, l, stock.Transfer{Epoch: 1, From: 0, To: l.Index, Number: number, Units: 1}))
	}
	move(1)
	before, err := m.Read(ctx, l)
	require.NoError(t, err)
	saved := m.Save()
	for range 2 {
		move(2)
		m.Restore(saved)
		after, err := m.Read(ctx, l)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
}
