package strategy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// prepared returns a world with some stock, and a shop in it.
func prepared(t *testing.T, name string, stock int64) (*World, Shop) {
	t.Helper()
	p := Place{Name: name, Sale: "s", PostgresURL: testenv.Postgres(t).URL, RedisURL: testenv.Redis(t, "appendonly no").URL}
	w, err := Open(t.Context(), p)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	require.NoError(t, w.Prepare(t.Context(), stock))
	return w, opened(t, w)
}

func opened(t *testing.T, w *World) Shop {
	t.Helper()
	shop, err := w.open(w)
	require.NoError(t, err)
	if c, ok := shop.(interface{ Close() error }); ok {
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
	}
	return shop
}

func buyer(n int) Click { return Click{Buyer: fmt.Sprint("b", n), Key: fmt.Sprint("k", n)} }

// With one buyer at a time, every strategy is right: what is wrong with it shows only
// in a crowd. But for redis_decr, whose counter has passed zero by one who was refused.
func TestStrategiesSellOneByOne(t *testing.T) {
	t.Parallel()
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			w, shop := prepared(t, s.Name, 2)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			first, err := shop.Buy(ctx, buyer(1))
			require.NoError(t, err)
			_, err = shop.Buy(ctx, buyer(2))
			require.NoError(t, err)
			left, err := w.left(ctx)
			require.NoError(t, err)
			require.Zero(t, left)
			if s.Name != "redis_decr" {
				_, err = shop.Buy(ctx, buyer(3))
				require.Equal(t, sale.CodeSoldOut, sale.CodeOf(err))
			}

			require.NoError(t, shop.Cancel(ctx, first))
			again, err := shop.Buy(ctx, buyer(1))
			require.NoError(t, err, "who has cancelled may buy again")
			require.NotEqual(t, first, again)
			_, err = shop.Buy(ctx, buyer(3))
			require.Equal(t, sale.CodeSoldOut, sale.CodeOf(err))

			books, err := w.Recount(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 2, books.Sold())
			require.Len(t, books.Orders, 3)
			require.Equal(t, Order{ID: first, Buyer: "b1", Key: "k1"}, books.Orders[0])
		})
	}
}

func TestCancelEndsAnOrderOnce(t *testing.T) {
	t.Parallel()
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			w, shop := prepared(t, s.Name, 5)
			order, err := shop.Buy(t.Context(), buyer(1))
			require.NoError(t, err)
			require.NoError(t, shop.Cancel(t.Context(), order))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(shop.Cancel(ctx, order)))
			left, err := w.left(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 5, left)
		})
	}
}

// A holder that has lost the lock without knowing it writes nothing: the book has seen
// the fence of the next one.
func TestFenceStopsALateHolder(t *testing.T) {
	t.Parallel()
	w, shop := prepared(t, "fair_lock", 5)
	first, ok := shop.(*fair)
	require.True(t, ok)
	paused, goOn, late := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	first.midway = func(ctx context.Context) error {
		close(paused)
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	go func() {
		_, err := shop.Buy(t.Context(), buyer(1))
		late <- err
	}()
	<-paused
	info, err := first.locker.Inspect(t.Context(), first.name())
	require.NoError(t, err)
	other, ok := opened(t, w).(*fair) // a Locker that knows nothing of the first
	require.True(t, ok)
	require.NoError(t, other.locker.Break(t.Context(), first.name(), info.Holders[0].Owner))
	_, err = other.Buy(t.Context(), buyer(2))
	require.NoError(t, err)

	close(goOn)
	err = <-late
	require.Error(t, err)
	require.Equal(t, sale.CodeBusy, sale.CodeOf(err))
	books, err := w.Recount(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, books.Sold())
	left, err := w.left(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 4, left)
}

// Holders that pause are counted, in the one process that is faulty.
func TestFaultsAreCounted(t *testing.T) {
	t.Parallel()
	w, shop := prepared(t, "compare_delete", 2*slowFirst)
	for n := range 2 * slowFirst {
		w.faulty = n >= slowFirst
		_, err := shop.Buy(t.Context(), buyer(n))
		require.NoError(t, err)
		books, err := w.Recount(t.Context())
		require.NoError(t, err)
		require.Equal(t, n+1 == 2*slowFirst, books.Struck == 1)
		require.LessOrEqual(t, books.Struck, int64(1))
	}
}

// What a consumer had read and not written when it died, another one writes.
func TestMessagesOfADeadConsumerAreWritten(t *testing.T) {
	t.Parallel()
	w, err := Open(t.Context(), Place{
		Name: "lua_publish", Sale: "s", PostgresURL: testenv.Postgres(t).URL, RedisURL: testenv.Redis(t, "appendonly no").URL,
	})
	require.NoError(t, err)
	t.Cleanup(w.Close)
	require.NoError(t, w.Prepare(t.Context(), 5))
	(&publishing{w: w}).send([]message{{"ord_1", buyer(1)}, {"ord_2", buyer(2)}})
	read, err := w.receive(t.Context(), "dead")
	require.NoError(t, err)
	require.Len(t, read, 2)

	opened(t, w)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	books, err := w.Recount(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, books.Sold())
}

func TestPlaceIsChecked(t *testing.T) {
	t.Parallel()
	for _, p := range []Place{
		{Name: "hope", Sale: "s", PostgresURL: "postgres://h/d"},
		{Name: "none", Sale: "S;", PostgresURL: "postgres://h/d"},
		{Name: "none", Sale: "s", PostgresURL: "postgres://u:secret@h:x/d"},
	} {
		_, err := Open(t.Context(), p)
		require.Equal(t, sale.CodeInvalid, sale.CodeOf(err))
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := Open(t.Context(), Place{Name: "none", Sale: "s", PostgresURL: "postgres://u:secret@127.0.0.1:1/d"}) //nolint:gosec // nobody's
	require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
	require.NotContains(t, err.Error(), "secret")
}

func TestDiscardLeavesNothing(t *testing.T) {
	t.Parallel()
	w, shop := prepared(t, "fair_lock", 5)
	_, err := shop.Buy(t.Context(), buyer(1))
	require.NoError(t, err)
	require.NoError(t, w.Discard(t.Context()))
	require.NoError(t, w.Discard(t.Context()), "again")
	n, err := w.redis.Do(t.Context(), w.redis.B().Dbsize().Build()).AsInt64()
	require.NoError(t, err)
	require.Zero(t, n)
	var schemas int64
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname = $1`, w.schema).Scan(&schemas))
	require.Zero(t, schemas)
}
