package lab

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// visit sends a crowd of 400 at a fake server with 12 units and returns what its
// books say.
func visit(t *testing.T, l lie) (*crowd, []Promise) {
	t.Helper()
	const buyers, stock = 400, 12
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	fake := newFakeServer(t, stock, l)
	o := DemoOptions{Buyers: buyers, Stock: stock, Seed: 3, Timeout: time.Minute, sale: saleID}
	st := &stage{door: newPool(64), till: newPool(8), secret: make([]byte, 32)}
	t.Cleanup(st.door.close)
	t.Cleanup(st.till.close)
	var err error
	st.buyers, err = client.New(client.Options{URL: fake.URL, HTTPClient: st.door.http, Retry: client.Retry{Tries: 1}})
	require.NoError(t, err)
	st.admin, err = client.New(client.Options{URL: fake.URL, Token: "key", HTTPClient: st.till.http})
	require.NoError(t, err)
	require.NoError(t, st.door.warm(ctx, st.buyers))

	c, err := o.gather(st)
	require.NoError(t, err)
	c.opens = time.Now()
	c.run(ctx, workers(st.door.size))
	require.NoError(t, ctx.Err(), "the crowd has not finished")
	a, err := readAccount(ctx, st.admin, saleID)
	require.NoError(t, err)
	return c, c.books.reckon(a)
}

func TestACrowdAtAnHonestServerSellsEveryUnit(t *testing.T) {
	t.Parallel()
	c, promises := visit(t, honest)
	for _, p := range promises {
		require.Zero(t, p.Broken, "%s: %v", p.Name, p.Details)
	}
	require.Equal(t, c.books.stock, c.books.paidUnits())
	require.Equal(t, int64(len(c.buyers)), c.answered.Load())
	seen := make(map[verdict]bool)
	for i := range c.books.answers {
		a := &c.books.answers[i]
		seen[a.verdict] = true
		require.GreaterOrEqual(t, a.heard, a.sent)
	}
	require.True(t, seen[taken] && seen[replayed] && seen["sold_out"], "%v", seen)
	require.NotEmpty(t, c.books.notices)
}

func TestACrowdCatchesALyingServer(t *testing.T) {
	t.Parallel()
	for l, shows := range map[lie]string{oversells: soldOnce, forgetful: oneOrder, phantoms: truthful} {
		t.Run(shows, func(t *testing.T) {
			t.Parallel()
			_, promises := visit(t, l)
			var broken []string
			for _, p := range promises {
				if p.Broken > 0 {
					broken = append(broken, p.Name)
				}
			}
			require.Contains(t, broken, shows)
		})
	}
}
