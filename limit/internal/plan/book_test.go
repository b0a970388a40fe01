package plan

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// once is a rate that no other call names.
func once(i int) limit.Rate {
	return limit.Rate{Name: "once", Algorithm: limit.FixedWindow, Quota: 1, Window: time.Minute + time.Duration(i)*time.Microsecond}
}

func of(tb testing.TB, b *Book, r limit.Rate) *Plan {
	tb.Helper()
	p, err := b.Of(r)
	require.NoError(tb, err)
	require.Equal(tb, r, p.Rate)
	return p
}

// A flood of rates that are named once drives out no rate that is used, and leaves
// room for later ones.
func TestFloodOfRates(t *testing.T) {
	t.Parallel()
	var b Book
	lasting := limit.Rate{Name: "user", Algorithm: limit.TokenBucket, Quota: 5, Window: time.Second}
	first := of(t, &b, lasting)
	for i := range 5000 {
		of(t, &b, once(i))
		require.Same(t, first, of(t, &b, lasting), "after %d others", i)
	}
	later := lasting
	later.Name = "later"
	kept := of(t, &b, later)
	require.Same(t, kept, of(t, &b, later))
	require.Less(t, len(*b.known.Load())+len(b.fresh), maxKnown+maxFresh+1)
}

// Rates that nobody uses any more make room.
func TestUnusedRatesGo(t *testing.T) {
	t.Parallel()
	var b Book
	for i := range 5000 {
		of(t, &b, once(i%600)) // all of them are used again and again
	}
	for i := range 5000 {
		of(t, &b, once(600+i))
	}
	for i := range 600 {
		_, ok := (*b.known.Load())[once(i)]
		require.False(t, ok)
	}
}

// A known rate is looked up without any memory.
func TestKnownRateCostsNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	var b Book
	r := once(0)
	of(t, &b, r)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = b.Of(r) }))
}

// Many at once, with rates that come and go.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	var b Book
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for k := range 2000 {
				r := once(k % (200 * (i + 1)))
				if p, err := b.Of(r); err != nil || p.Rate != r {
					t.Errorf("%v, %+v", err, p)
				}
			}
		})
	}
	work.Wait()
}
