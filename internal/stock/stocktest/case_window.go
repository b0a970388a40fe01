package stocktest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// windowCases: the window is a half-open interval of the ledger's time.
func windowCases() []testCase {
	return []testCase{
		{name: "Window/the offset moves the lane's time", run: windowOffset},
		{name: "Window/the edges of running time", run: windowEdges},
		{name: "Window/the edges to the millisecond", run: windowExact, needs: func(w *World) bool { return w.Advance != nil }},
	}
}

func windowOffset(t *testing.T, w *world) {
	s := w.open(t, nil)
	for _, step := range []struct {
		offset time.Duration
		want   sale.Verdict
	}{
		{offset: 2 * time.Hour, want: sale.NotStarted}, // the lane's clock is ahead of the ledger's
		{offset: -2 * time.Hour, want: sale.Ended},
		{offset: 1234 * time.Millisecond, want: sale.Taken},
	} {
		require.NoError(t, w.Counter.SetOffset(t.Context(), w.Lane, w.epoch, step.offset))
		w.offset = step.offset
		require.Equal(t, step.offset, w.read(t).Offset)
		r := w.take(t, w.click("ann", "k", 1))
		require.Equal(t, step.want, r.Results[0].Verdict, "offset %s", step.offset)
		require.InDelta(t, 0, w.now(t).Sub(r.At).Seconds(), 5)
		require.Equal(t, r.At.Truncate(time.Millisecond), r.At)
	}
	require.ErrorIs(t, w.Counter.SetOffset(t.Context(), w.Lane, w.epoch+1, 0), stock.ErrEpoch)
	require.True(t, w.read(t).Epoch == w.epoch && s.Version == w.read(t).Version)
}

// windowEdges runs attempts over a window of some milliseconds and compares each
// verdict with the time that the lane says it was.
func windowEdges(t *testing.T, w *world) {
	s := w.open(t, func(s *stock.Setting) {
		s.PerUserLimit, s.Stock, s.Left = 1, []int64{1 << 40}, []int64{1 << 40}
		s.StartsAt = s.StartsAt.Add(time.Hour + 30*time.Millisecond)
		s.EndsAt = s.StartsAt.Add(30 * time.Millisecond)
	})
	for i := 0; ; i++ {
		if w.Advance != nil {
			w.Advance(time.Millisecond)
		}
		r := w.take(t, w.click(name("u", i), "k", 1))
		want := sale.Taken
		switch {
		case r.At.Before(s.StartsAt):
			want = sale.NotStarted
		case !r.At.Before(s.EndsAt):
			want = sale.Ended
		}
		require.Equal(t, want, r.Results[0].Verdict, "at %s of %s to %s", r.At, s.StartsAt, s.EndsAt)
		if want == sale.Ended {
			break
		}
	}
}

func windowExact(t *testing.T, w *world) {
	s := w.open(t, func(s *stock.Setting) {
		s.StartsAt = s.StartsAt.Add(2 * time.Hour)
		s.EndsAt = s.StartsAt.Add(time.Second)
		s.Offset = 77 * time.Millisecond
	})
	to := func(at time.Time) {
		w.Advance(at.Sub(w.now(t)))
		require.Equal(t, at, w.now(t))
	}
	to(s.StartsAt.Add(-time.Millisecond))
	w.refuse(t, w.click("ann", "1", 1), sale.NotStarted)
	to(s.StartsAt)
	require.Equal(t, s.StartsAt, w.buy(t, "ann", "2", 1).TakenAt)
	to(s.EndsAt.Add(-time.Millisecond))
	w.buy(t, "ann", "3", 1)
	to(s.EndsAt)
	w.refuse(t, w.click("bob", "4", 1), sale.Ended)
	w.apply(t, stock.Act{Kind: stock.ActReturn, User: "bob", CoolUntil: s.EndsAt.Add(time.Second)})
	s.Version, s.EndsAt = 2, s.EndsAt.Add(time.Hour)
	_, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch, s.Rules)
	require.NoError(t, err)
	w.Advance(999 * time.Millisecond)
	w.refuse(t, w.click("bob", "5", 1), sale.CoolDown)
	w.Advance(time.Millisecond)
	w.buy(t, "bob", "6", 1)
}

// largeCases: the largest things that may come.
func largeCases() []testCase {
	return []testCase{
		{name: "Large/a full batch", run: largeBatch},
		{name: "Large/users of 128 bytes of anything", run: largeUsers},
		{name: "Large/stock up to 2^53-1", run: largeStock},
		{name: "Large/a hundred items", run: largeItems},
		{name: "Large/one buyer with many orders", run: largeBuyer},
	}
}

func largeBatch(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{300}, []int64{300} })
	batch := func(prefix string) []stock.Attempt {
		attempts := make([]stock.Attempt, stock.MaxBatch)
		for i := range attempts {
			attempts[i] = w.click(name(prefix, i), "k", 1)
		}
		return attempts
	}
	first := batch("a")
	for i, r := range w.take(t, first...).Results {
		require.Equal(t, sale.Taken, r.Verdict, "attempt %d", i)
		require.Equal(t, first[i].ID, r.Record.ID)
		require.Equal(t, int64(44), r.Left)
	}
	for i, r := range w.take(t, first...).Results {
		require.Equal(t, sale.Replayed, r.Verdict, "attempt %d", i)
		require.Equal(t, first[i].ID, r.Record.ID)
	}
	for i, v := range w.verdicts(t, batch("b")...) {
		want := sale.Taken
		if i >= 44 {
			want = sale.SoldOut
		}
		require.Equal(t, want, v, "attempt %d", i)
	}
	slips := w.slips(t, w.look(t))
	require.Len(t, slips, 300)
	for i := range stock.MaxBatch {
		require.Equal(t, first[i].ID, slips[i].ID, "in the order of the attempts")
	}
	holders, err := w.Counter.Holders(t.Context(), w.Lane)
	require.NoError(t, err)
	want := make([]uint64, 0, len(slips))
	for i := range slips {
		want = append(want, sale.UserHash(slips[i].User))
	}
	require.ElementsMatch(t, want, holders.Hashes)
}

func largeUsers(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{1000}, []int64{1000} })
	const drawn = 60
	users := append(make([]string, 0, 9+drawn),
		strings.Repeat("\x00", sale.MaxUserLen), strings.Repeat("\xff", sale.MaxUserLen), strings.Repeat("é", sale.MaxUserLen/2),
		strings.Repeat("票", sale.MaxUserLen/3), "\r\n$5\r\nhello\r\n", "{}", "%s%d%%", "'\"]]--", strings.Repeat("\x00", sale.MaxUserLen-1)+"\x01",
	)
	random := seeded(0)
	for range drawn {
		b := make([]byte, 1+random.IntN(sale.MaxUserLen))
		for i := range b {
			b[i] = byte(random.IntN(256)) //nolint:gosec // it fits
		}
		users = append(users, string(b))
	}
	attempts := make([]stock.Attempt, len(users))
	for i, user := range users {
		attempts[i] = w.click(user, "k", 1)
	}
	w.take(t, attempts...)
	for i, slip := range w.slips(t, w.look(t)) {
		require.Equal(t, users[i], slip.User)
	}
	for i, user := range users {
		require.Equal(t, sale.Replayed, w.try(t, attempts[i]).Verdict, "%q", user)
		require.Len(t, w.records(t, user), 1, "%q", user)
	}
	w.apply(t, stock.Act{Kind: stock.ActReturn, ID: attempts[0].ID, User: users[0]})
	require.Zero(t, w.records(t, users[0])[0].Quantity)
	require.Equal(t, int64(1), w.records(t, users[8])[0].Quantity)
}

func largeStock(t *testing.T, w *world) {
	const most = sale.MaxInteger
	s := w.open(t, func(s *stock.Setting) {
		s.PerUserLimit, s.Stock, s.Left = sale.MaxPerUserLimit, []int64{most, most - 1}, []int64{most, most - 1}
	})
	r := w.take(t, w.click("ann", "k", sale.MaxPerUserLimit), w.click("bob", "k", 1))
	require.Equal(t, []int64{most - sale.MaxPerUserLimit - 1, most - 1}, r.Left)
	require.Equal(t, r.Left, w.read(t).Left)
	require.Equal(t, int64(sale.MaxPerUserLimit), w.records(t, "ann")[0].Quantity)
	require.Equal(t, int64(sale.MaxPerUserLimit), w.slips(t, w.look(t))[0].Quantity)
	s.Version, s.Stock = 2, []int64{most - 5, most}
	_, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch, s.Rules)
	require.NoError(t, err)
	require.Equal(t, []int64{most - sale.MaxPerUserLimit - 6, most}, w.read(t).Left)
	w.apply(t, giveBack(0, w.records(t, "ann")[0], "ann"))
	require.Equal(t, []int64{most - 6, most}, w.read(t).Left)
	s.Version, s.Stock = sale.MaxInteger, []int64{most, 0}
	_, err = w.Counter.Sync(t.Context(), w.Lane, w.epoch, s.Rules)
	require.NoError(t, err)
	require.Equal(t, []int64{most - 1, 0}, w.read(t).Left)
	require.Equal(t, int64(sale.MaxInteger), w.read(t).Version)
}

func largeItems(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) {
		s.Stock = make([]int64, sale.MaxItems)
		for i := range s.Stock {
			s.Stock[i] = int64(i)
		}
		s.Left = slices.Clone(s.Stock)
	})
	attempts := make([]stock.Attempt, sale.MaxItems)
	for i := range attempts {
		attempts[i] = w.click(name("u", i), "k", 1)
		attempts[i].Item = i
	}
	r := w.take(t, attempts...)
	require.Equal(t, sale.SoldOut, r.Results[0].Verdict)
	for i := 1; i < len(attempts); i++ {
		require.Equal(t, sale.Taken, r.Results[i].Verdict)
		require.Equal(t, int64(i-1), r.Left[i])
		require.Equal(t, i, r.Results[i].Record.Item)
	}
	require.Equal(t, r.Left, w.read(t).Left)
}

func largeBuyer(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.PerUserLimit, s.Stock, s.Left = 1000, []int64{1000}, []int64{1000} })
	for i := range 4 {
		attempts := make([]stock.Attempt, stock.MaxBatch)
		for j := range attempts {
			attempts[j] = w.click("ann", name("k", i*stock.MaxBatch+j), 1)
		}
		w.take(t, attempts...)
	}
	orders := w.records(t, "ann")
	require.Len(t, orders, 1000)
	require.Equal(t, w.id("ann", "k999"), orders[999].ID)
	require.Equal(t, sale.Replayed, w.try(t, w.click("ann", "k500", 1)).Verdict)
	w.refuse(t, w.click("ann", "k1000", 1), sale.LimitReached)
}
