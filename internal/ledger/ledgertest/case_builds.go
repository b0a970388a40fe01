package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// buildCases: a sale changes its way; old beliefs and old builders change nothing.
func buildCases() []testCase {
	return []testCase{
		{name: "Build/to the fast path and back", run: buildRound},
		{name: "Build/of a sale that does not sell", run: buildStates},
		{name: "Build/one at a time", run: buildLease},
		{name: "Build/an overtaken builder changes nothing", run: buildOvertaken},
		{name: "Build/repeated after a lost reply", run: buildRepeated},
		{name: "Build/a load that fails undoes everything", run: buildUndone},
		{name: "Build/the load sees all that happened", run: buildDelta},
		{name: "Build/the load holds the sale", run: buildLocked},
		{name: "Build/many builders at once", run: buildRace},
		{name: "Build/crosses a change of the sale", run: buildCrossed},
		{name: "Epoch/only grows", run: epochGrows},
	}
}

func buildRound(t *testing.T, w *world) {
	d := w.open(t, nil)
	w.Advance(time.Second)
	var b ledger.Build
	w.writes(t, d, nil, func() { // a right is no transition
		var err error
		b, err = w.ledger.StartBuild(t.Context(), d.Number, d.Epoch)
		require.NoError(t, err)
	})
	want := d
	want.BuildToken, want.BuildAt = b.Token, w.now(t)
	require.Equal(t, want, b.Sale)
	require.Equal(t, want, w.read(t, d))
	require.Greater(t, b.Token, d.Epoch+1, "one epoch is left for the way")
	w.take(t, d, "ann", "k", 1)

	w.Advance(time.Second)
	want.Path, want.Epoch, want.Salts, want.Items[0].Sold = sale.PathFast, b.Token, []uint32{7, 0, 1<<32 - 1}, 1
	var s sale.Sale
	w.writes(t, d, []ledger.Kind{"sale.rerouted"}, func() {
		var err error
		s, err = w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Salts: []uint32{7, 0, 1<<32 - 1}, Load: func(_ context.Context, now ledger.Present) error {
			require.Equal(t, want, now.Sale)
			return nil
		}})
		require.NoError(t, err)
	})
	require.Equal(t, want, s, "neither version nor time of change move")
	require.Equal(t, want, w.read(t, d))
	w.reopen(t)
	require.Equal(t, want, w.read(t, d))

	want.Path, want.Epoch = sale.PathDirect, s.Epoch+1
	w.writes(t, d, []ledger.Kind{"sale.rerouted"}, func() {
		require.Equal(t, want, w.direct(t, s))
		for _, from := range []int64{s.Epoch, 0, 99} { // it is direct already
			again, err := w.ledger.GoDirect(t.Context(), s.Number, from, from+5)
			require.NoError(t, err)
			require.Equal(t, want, again)
		}
	})
	again := w.act(t, s, sale.ActionPause)
	require.Equal(t, []any{want.Epoch, want.Path, want.BuildToken, want.Salts}, []any{again.Epoch, again.Path, again.BuildToken, again.Salts}, "an act leaves the way alone")
}

func buildStates(t *testing.T, w *world) {
	start := func(s sale.Sale) error {
		_, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
		return err
	}
	draft := w.draft(t, nil)
	requireCode(t, sale.CodeIllegalState, start(draft))
	closed := w.act(t, w.open(t, nil), sale.ActionClose)
	require.NoError(t, start(w.act(t, w.open(t, nil), sale.ActionPause)))
	require.NoError(t, start(w.act(t, w.open(t, nil), sale.ActionClose)), "what is queued in it may have to be judged")
	requireCode(t, sale.CodeSaleNotFound, start(w.act(t, closed, sale.ActionDelete)))
	requireCode(t, sale.CodeSaleNotFound, start(sale.Sale{Number: 4711}))
	_, err := w.ledger.GoDirect(t.Context(), 4711, 1, 2)
	requireCode(t, sale.CodeSaleNotFound, err)
	_, err = w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: ledger.Build{Sale: sale.Sale{Number: 4711}}, Load: loaded})
	requireCode(t, sale.CodeSaleNotFound, err)

	gone := w.act(t, w.open(t, nil), sale.ActionClose)
	b, err := w.ledger.StartBuild(t.Context(), gone.Number, gone.Epoch)
	require.NoError(t, err)
	w.act(t, gone, sale.ActionDelete)
	_, err = w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Load: neverLoaded(t)})
	requireCode(t, sale.CodeSaleNotFound, err)
}

// neverLoaded is a Load that must not be called.
func neverLoaded(t *testing.T) func(context.Context, ledger.Present) error {
	t.Helper()
	return func(context.Context, ledger.Present) error {
		t.Error("the load ran")
		return nil
	}
}

func buildLease(t *testing.T, w *world) {
	s := w.open(t, nil)
	first, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	for _, wait := range []time.Duration{0, time.Second, ledger.BuildLease - time.Second - time.Millisecond} {
		w.Advance(wait)
		_, err = w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
		require.ErrorIs(t, err, ledger.ErrBuilding)
	}
	for _, epoch := range []int64{0, s.Epoch - 1, s.Epoch + 1, first.Token} {
		_, err = w.ledger.StartBuild(t.Context(), s.Number, epoch)
		require.ErrorIs(t, err, ledger.ErrWrongEpoch)
	}
	w.Advance(time.Millisecond)
	second, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	require.Greater(t, second.Token, first.Token)
	w.Advance(-time.Hour) // a clock that is set back locks nobody out
	third, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	w.Advance(time.Hour)
	fast, err := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: third, Load: loaded})
	require.NoError(t, err)
	_, err = w.ledger.StartBuild(t.Context(), s.Number, fast.Epoch)
	require.NoError(t, err, "a finished build keeps nobody waiting")
}

func buildOvertaken(t *testing.T, w *world) {
	s := w.open(t, nil)
	paid := w.pay(t, w.take(t, s, "ann", "k", 1), "p")
	slow, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	w.Advance(ledger.BuildLease)
	quick, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	overtaken := func() {
		t.Helper()
		w.writes(t, s, nil, func() {
			_, finishErr := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: slow, Load: neverLoaded(t)})
			require.ErrorIs(t, finishErr, ledger.ErrSuperseded)
		})
	}
	overtaken()
	fast, err := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: quick, Load: loaded})
	require.NoError(t, err)
	overtaken()
	w.writes(t, s, nil, func() {
		_, changeErr := w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionPause, Path: sale.PathDirect})
		require.ErrorIs(t, changeErr, ledger.ErrWrongEpoch)
		_, refundErr := w.ledger.Refund(t.Context(), paid.ID, ledger.Refunding{Path: sale.PathDirect})
		require.ErrorIs(t, refundErr, ledger.ErrWrongEpoch)
		for _, way := range [][2]int64{{slow.Sale.Epoch, slow.Token - 1}, {fast.Epoch, fast.Epoch}, {fast.Epoch, slow.Token}, {fast.Epoch + 1, fast.Epoch + 2}} {
			_, directErr := w.ledger.GoDirect(t.Context(), s.Number, way[0], way[1])
			require.ErrorIs(t, directErr, ledger.ErrWrongEpoch)
		}
	})
	w.direct(t, fast)
	overtaken()
	refunded, err := w.ledger.Refund(t.Context(), paid.ID, ledger.Refunding{Path: sale.PathDirect})
	require.NoError(t, err)
	require.Equal(t, sale.Refunded, refunded.State)
	again, err := w.ledger.Refund(t.Context(), paid.ID, ledger.Refunding{Path: sale.PathFast})
	require.NoError(t, err, "nothing changes")
	require.Equal(t, refunded, again)
	require.Greater(t, w.read(t, s).Epoch, quick.Token)
}

// buildRepeated repeats each step as if its reply had been lost.
func buildRepeated(t *testing.T, w *world) {
	s := w.open(t, nil)
	b, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	_, err = w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.ErrorIs(t, err, ledger.ErrBuilding, "the right is somebody's; whose, nobody can tell")
	fast, err := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Load: loaded})
	require.NoError(t, err)
	repeat := func(want error) {
		t.Helper()
		w.writes(t, s, nil, func() {
			before := w.read(t, s)
			again, finishErr := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Salts: []uint32{9}, Load: neverLoaded(t)})
			require.ErrorIs(t, finishErr, want)
			require.Equal(t, before, w.read(t, s))
			if want == nil {
				require.Equal(t, before, again)
			}
		})
	}
	repeat(nil)
	_, err = w.ledger.StartBuild(t.Context(), s.Number, fast.Epoch)
	require.NoError(t, err)
	repeat(nil)
	w.direct(t, fast)
	repeat(ledger.ErrSuperseded)

	// The newest right, finished and left again: its epoch must not come back.
	w.Advance(ledger.BuildLease)
	now := w.fast(t, w.read(t, s))
	d := w.direct(t, now)
	b = ledger.Build{Sale: d, Token: now.Epoch}
	require.Equal(t, b.Token, d.BuildToken)
	repeat(ledger.ErrSuperseded)
	require.Equal(t, now.Epoch+1, w.read(t, s).Epoch)
}

func buildUndone(t *testing.T, w *world) {
	s := w.open(t, nil)
	b, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	before := w.dump(t)
	sentinel := errors.New("the counter does not answer")
	calls := 0
	after, err := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Load: func(context.Context, ledger.Present) error {
		calls++
		return sentinel
	}})
	require.ErrorIs(t, err, sentinel)
	require.Zero(t, after)
	require.Equal(t, before, w.dump(t))
	ctx, cancel := context.WithCancel(t.Context())
	_, err = w.ledger.FinishBuild(ctx, ledger.Finish{Build: b, Load: func(context.Context, ledger.Present) error {
		calls++
		cancel()
		return nil
	}})
	require.ErrorIs(t, err, context.Canceled, "the sale was held for too long")
	require.Equal(t, before, w.dump(t))
	require.Equal(t, 2, calls)
	_, err = w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Load: loaded})
	require.NoError(t, err, "the right is still there")
}

func buildDelta(t *testing.T, w *world) {
	d := w.open(t, stock(2000))
	first := w.take(t, d, "ann", "k", 2)
	b, err := w.ledger.StartBuild(t.Context(), d.Number, d.Epoch)
	require.NoError(t, err)
	after := w.end(t, d)
	w.cancel(t, first)
	clicks := make([]ledger.Attempt, 1100) // more than a page of rows
	for i := range clicks {
		clicks[i] = click(d, fmt.Sprint("user-", i), "k", 1)
	}
	w.reserve(t, d, clicks...)
	w.restock(t, d, 5)
	rows := w.rowsOf(t, d)
	_, err = w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, After: after, Load: func(_ context.Context, now ledger.Present) error {
		require.Equal(t, rows[after:], now.Delta)
		require.Equal(t, uint64(len(rows))+1, now.Seq)
		require.Equal(t, int64(1100), now.Sale.Items[0].Sold)
		require.Equal(t, int64(2005), now.Sale.Items[0].Stock)
		return nil
	}})
	require.NoError(t, err)
	require.Equal(t, uint64(len(rows))+1, w.end(t, d), "the lane that contains Seq lacks nothing")
	require.Empty(t, w.tail(t, d, uint64(len(rows))+1))
}

// buildLocked: while the load runs nothing else happens in the sale, and readers
// see it as it was.
func buildLocked(t *testing.T, w *world) {
	s := w.open(t, nil)
	b, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	loading, bought := make(chan struct{}), make(chan error, 1)
	go func() {
		<-loading
		_, buyErr := w.tryOne(t.Context(), &s, click(s, "ann", "k", 1))
		bought <- buyErr
	}()
	fast, err := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Load: func(ctx context.Context, now ledger.Present) error {
		close(loading)
		seen, readErr := w.ledger.SaleByNumber(ctx, s.Number)
		if readErr != nil {
			return readErr
		}
		require.Equal(t, sale.PathDirect, seen.Path)
		require.Zero(t, now.Sale.Items[0].Sold)
		return nil
	}})
	require.NoError(t, err)
	if err := <-bought; err == nil {
		require.Equal(t, int64(9), w.left(t, s))
		t.Error("a buyer who came during the load was sold to under the old epoch")
	} else {
		require.ErrorIs(t, err, ledger.ErrWrongEpoch)
	}
	require.Equal(t, int64(10), w.left(t, fast))
}

func buildRace(t *testing.T, w *world) {
	s := w.open(t, nil)
	var tokens [8]int64
	var loads atomic.Int32
	together(t, len(tokens), func(ctx context.Context, i int) error {
		b, err := w.ledger.StartBuild(ctx, s.Number, s.Epoch)
		if errors.Is(err, ledger.ErrBuilding) || errors.Is(err, ledger.ErrWrongEpoch) {
			return nil
		}
		if err != nil {
			return err
		}
		tokens[i] = b.Token
		_, err = w.ledger.FinishBuild(ctx, ledger.Finish{Build: b, Load: func(context.Context, ledger.Present) error {
			loads.Add(1)
			return nil
		}})
		return err
	})
	builders := 0
	for _, token := range tokens {
		if token != 0 {
			builders++
			require.Equal(t, token, w.read(t, s).Epoch)
		}
	}
	require.Equal(t, 1, builders)
	require.GreaterOrEqual(t, loads.Load(), int32(1))
}

// buildCrossed: an operator's change between the steps of a build is kept.
func buildCrossed(t *testing.T, w *world) {
	s := w.open(t, nil)
	b, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	changed := w.patch(t, s, sale.Patch{Title: new("Changed"), Preferred: new(sale.PathFast)})
	require.Equal(t, b.Token, changed.BuildToken)
	require.Equal(t, sale.PathFast, changed.Preferred)
	fast, err := w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: b, Load: loaded})
	require.NoError(t, err)
	require.Equal(t, "Changed", fast.Title)
	require.Equal(t, changed.Version, fast.Version)
	_, err = w.ledger.ChangeSale(t.Context(), s.Slug, changed.Version, sale.Change{Action: sale.ActionPause})
	require.NoError(t, err, "a way is no version: whoever saw the sale before may change it")
	def := w.patch(t, s, sale.Patch{Preferred: new(sale.Path(""))})
	require.Equal(t, sale.PathDirect, def.Preferred)
}

func epochGrows(t *testing.T, w *world) {
	s := w.open(t, nil)
	seen := s.Epoch
	grown := func(now sale.Sale) sale.Sale {
		require.Greater(t, now.Epoch, seen)
		seen = now.Epoch
		return now
	}
	for range 4 {
		abandoned, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch)
		require.NoError(t, err)
		w.Advance(ledger.BuildLease)
		s = grown(w.fast(t, s))
		require.Greater(t, s.Epoch, abandoned.Token)
		again, err := w.ledger.StartBuild(t.Context(), s.Number, s.Epoch) // a rebuild goes direct first
		require.NoError(t, err)
		s, err = w.ledger.GoDirect(t.Context(), s.Number, s.Epoch, again.Token-1)
		require.NoError(t, err)
		grown(s)
		s, err = w.ledger.FinishBuild(t.Context(), ledger.Finish{Build: again, Load: loaded})
		require.NoError(t, err)
		grown(s)
		s = grown(w.direct(t, s))
		w.Advance(ledger.BuildLease)
	}
}
