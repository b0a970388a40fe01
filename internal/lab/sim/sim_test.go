package sim

import (
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "the seed that TestSeed runs")
	runsFlag  = flag.Uint64("runs", lives, "how many lives TestInterleavings leads")
	againFlag = flag.Uint64("again", repeats, "how many lives TestSeedsRepeat leads twice")
	fromFlag  = flag.Uint64("from", 1, "the first seed of TestInterleavings")
)

// TestSeed runs one seed and shows what happened.
func TestSeed(t *testing.T) {
	t.Parallel()
	r := run(t, *seedFlag, mutant{}, true)
	if testing.Verbose() || r.failure != "" {
		t.Log("\n" + strings.Join(r.lines, "\n"))
	}
	require.Empty(t, r.failure)
}

// TestInterleavings leads many lives.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	const parts = 16
	for part := range uint64(parts) {
		t.Run(strconv.FormatUint(part, 10), func(t *testing.T) {
			t.Parallel()
			for seed := *fromFlag + part; seed < *fromFlag+*runsFlag; seed += parts {
				if r := run(t, seed, mutant{}, false); r.failure != "" {
					explain(t, seed, mutant{}, r.failure)
				}
			}
		})
	}
}

// TestSeedsRepeat runs seeds twice: everything that happens depends on the seed.
func TestSeedsRepeat(t *testing.T) {
	t.Parallel()
	// Two that once did not: a waiter's look-up by news and the one by the net were due
	// in one instant.
	seeds := []uint64{1796085436000103, 1796085436003237}
	for seed := *fromFlag; seed < *fromFlag+*againFlag; seed++ {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		first, again := run(t, seed, mutant{}, false), run(t, seed, mutant{}, false)
		if first.hash != again.hash {
			differ(t, seed)
		}
	}
}

// differ shows where two runs of a seed part.
func differ(t *testing.T, seed uint64) {
	t.Helper()
	decisions := func() []string {
		return slices.DeleteFunc(run(t, seed, mutant{}, true).lines, func(line string) bool { return strings.HasPrefix(line, remarkMark) })
	}
	one := decisions()
	for range 200 {
		other := decisions()
		for i := range min(len(one), len(other)) {
			require.Equal(t, one[i], other[i], "seed %d, line %d, after\n%s", seed, i, strings.Join(one[max(0, i-30):i], "\n"))
		}
	}
	require.Fail(t, "a seed did not repeat itself", "seed %d", seed)
}

// explain runs a seed again, for the reader.
func explain(t *testing.T, seed uint64, m mutant, failure string) {
	t.Helper()
	r := run(t, seed, m, true)
	t.Fatalf("%s\n\nseed %d; repeat it by: go test ./internal/lab/sim -run TestSeed -seed=%d\n(the repetition ended with %q)\n\n%s",
		failure, seed, seed, r.failure, strings.Join(r.lines, "\n"))
}
