package strategy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/strategy"
)

func TestStrategiesAreDescribed(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, s := range strategy.All() {
		require.NotEmpty(t, s.Title)
		require.NotEmpty(t, s.Why)
		require.Equal(t, s.Expect == strategy.Fails, s.Accident != "", "who fails says where: %s", s.Name)
		require.Contains(t, []strategy.Verdict{strategy.Fails, strategy.Holds, strategy.Must}, s.Expect, s.Name)
		require.False(t, known[s.Name], s.Name)
		known[s.Name] = true
		found, err := strategy.Find(s.Name)
		require.NoError(t, err)
		require.Equal(t, s.Info, found.Info)
	}
}
