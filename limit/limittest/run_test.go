package limittest

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A case is run where a world can examine it, and absent elsewhere.
func TestCasesOfKinds(t *testing.T) {
	t.Parallel()
	names := func(is Kind) []string { return slices.Sorted(maps.Keys(cases(is))) }
	exact := []string{"C46_L11_NoDoubleAtAnEdge", "L5_PartsOfTokensStay", "L7_ExactPace", "NeverAboveTheBound/sliding_window"}
	require.Subset(t, names(Kind{Still: true}), exact)
	for _, name := range exact {
		require.NotContains(t, names(Kind{Shared: true}), name)
	}
	require.Contains(t, names(Kind{Shared: true}), "C49_ProcessesShare")
	require.NotContains(t, names(Kind{Still: true}), "C49_ProcessesShare")
	all := 0
	for _, g := range []group{callCases(), countCases(), sharedCases(), exactCases(), changeCases(), turnCases(), slotCases(), modelCases()} {
		all += len(g)
	}
	require.Len(t, cases(Kind{Shared: true, Still: true}), all, "no two have one name, and none is left out")
}
