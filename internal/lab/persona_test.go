package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCastIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	first, second := cast(7, 500), cast(7, 500)
	require.Equal(t, first, second)
	require.Equal(t, first[:100], cast(7, 100), "a buyer does not depend on how many there are")
	require.NotEqual(t, first, cast(8, 500))
}

func TestCastHasEverybodyInAboutTheirShare(t *testing.T) {
	t.Parallel()
	const n = 20_000
	manners, endings := make(map[manner]int), make(map[ending]int)
	users := make(map[string]bool)
	for _, b := range cast(1, n) {
		manners[b.manner]++
		endings[b.ending]++
		users[b.user] = true
		require.GreaterOrEqual(t, b.patience, minPatience)
		require.Less(t, b.patience, maxPatience)
		require.Less(t, b.think, maxThink)
	}
	require.Len(t, users, n)
	wantManners, wantEndings := lots()
	for m, share := range wantManners {
		require.InDelta(t, share, 100*float64(manners[manner(m)])/n, 1.5)
	}
	for e, share := range wantEndings {
		require.InDelta(t, share, 100*float64(endings[ending(e)])/n, 1.5)
	}
}

func TestLatecomersWantOneAndPay(t *testing.T) {
	t.Parallel()
	for _, b := range castLate(50) {
		require.Equal(t, int64(1), b.wants())
		require.Equal(t, pays, b.ending)
	}
}
