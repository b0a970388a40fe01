package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	seedFlag = flag.Uint64("seed", 1, "the seed that TestSeed runs")
	runsFlag = flag.Int("runs", 100_000, "how many lives TestInterleavings leads")
	fromFlag = flag.Uint64("from", 1, "the first seed of TestInterleavings")
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
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := *fromFlag + part; seed < *fromFlag+uint64(*runsFlag); seed += parts {
				if r := run(t, seed, mutant{}, false); r.failure != "" {
					explain(t, seed, mutant{}, r.failure)
				}
			}
		})
	}
}

// explain runs a seed again, for the reader.
func explain(t *testing.T, seed uint64, m mutant, failure string) {
	t.Helper()
	r := run(t, seed, m, true)
	t.Fatalf("%s\n\nseed %d; repeat it by: go test ./internal/lab/sim -run TestSeed -seed=%d\n(the repetition ended with %q)\n\n%s",
		failure, seed, seed, r.failure, strings.Join(r.lines, "\n"))
}
