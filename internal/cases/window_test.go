package cases_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// The accident: a hold is made by one clock and judged by another, and the sale
// opens at another moment on each machine.
// The right outcome: the ledger's clock alone decides, to the millisecond; an
// instance whose own clock is wrong opens and sells like any other. (Clocks of
// other ledgers and counters wait for those.)
func TestC28OneClockDecides(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const skew = 5 * time.Second
	doors := map[string]*engine.Engine{"right": s.Engine, "fast": s.instance(skew), "slow": s.instance(-skew)}
	opening := s.clock.now().Add(time.Minute).Add(7 * time.Millisecond)
	s.open(100, 1, func(d *sale.Sale) { d.StartsAt, d.Hold = opening, 3*time.Second })
	first := make(map[string]sale.Order)
	for _, at := range []time.Duration{-time.Minute, -skew, -time.Second, -time.Millisecond, 0, time.Millisecond} {
		s.clock.set(opening.Add(at))
		for door, e := range doors {
			user := fmt.Sprint(door, at)
			r := s.ask(e, user, "k", 1)
			require.NoError(t, r.err)
			if at < 0 {
				require.Equal(t, sale.NotStarted, r.Verdict, "%s at %v", door, at)
				continue
			}
			require.Equal(t, sale.Taken, r.Verdict, "%s at %v", door, at)
			require.Equal(t, opening.Add(at), r.Order.ReservedAt, "milliseconds are kept")
			require.Equal(t, opening.Add(at+3*time.Second), r.Order.ExpiresAt)
			if _, known := first[door]; !known {
				first[door] = r.Order
			}
		}
	}
	// What one instance took is payable through another until its end.
	s.clock.set(first["fast"].ExpiresAt.Add(-time.Millisecond))
	require.Zero(t, s.sweep())
	got, err := doors["slow"].Pay(t.Context(), notice(first["fast"], "p"))
	require.NoError(t, err)
	require.Equal(t, sale.OutcomePaid, got.Outcome)
	require.Equal(t, 2, s.pass(time.Millisecond), "the others end at their instant")
	s.settled()
}

// The accident: the end is read as the beginning of a day, or with a day added,
// and each part of the program has an idea of its own.
// The right outcome: [starts_at, ends_at) to the millisecond everywhere, as
// given; forms that would have to be guessed are refused.
func TestC30SaleEndIsExact(t *testing.T) {
	t.Parallel()
	t.Run("instants", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		published := s.open(10, 1)
		old := s.take("old", 1)
		s.clock.set(old.ExpiresAt.Add(-time.Millisecond))
		end := published.EndsAt
		for _, c := range []struct {
			at      time.Duration
			status  sale.Status
			verdict sale.Verdict
		}{
			{-5 * time.Millisecond, sale.StatusLive, sale.Taken},
			{-time.Millisecond, sale.StatusLive, sale.Taken},
			{0, sale.StatusEnded, sale.Ended},
			{5 * time.Millisecond, sale.StatusEnded, sale.Ended},
		} {
			s.clock.set(end.Add(c.at))
			user := fmt.Sprint(c.at)
			require.Equal(t, c.verdict, s.buy(user, "k", 1).Verdict, "buy at %v", c.at)
			v, err := s.Sale(t.Context(), drop)
			require.NoError(t, err)
			require.Equal(t, c.status, v.Status(s.Now()), "detail at %v", c.at)
			listed, err := s.Sales(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.status, listed[0].Status(s.Now()), "listing at %v", c.at)
		}
		late := s.buy("old", "late", 1)
		require.Equal(t, sale.Ended, late.Verdict)
		s.sweep()
		s.settled()
	})
	t.Run("over HTTP", func(t *testing.T) {
		t.Parallel()
		onBoth(t, endInACrowd)
	})
	t.Run("forms", func(t *testing.T) {
		t.Parallel()
		onBoth(t, oddForms)
	})
}

// endInACrowd buys without a pause at every instance while the sale ends.
func endInACrowd(s *site) {
	t := s.t
	drop := s.named(drop)
	end := time.Now().Add(2 * time.Second).Truncate(time.Millisecond)
	s.open(drop, 100_000, 1, func(n *client.NewSale) { n.EndsAt = instant(end) })
	slack := time.Duration(0)
	if s.fleet != nil {
		slack = 100 * time.Millisecond // how far clocks may be apart before it is told
	}
	type ask struct {
		sent, answered time.Time
		err            error
	}
	asked := crowd(8, func(hand int) (all []ask) {
		for i, over := 0, 0; over < 5 && t.Context().Err() == nil; i++ {
			one := ask{sent: time.Now()}
			_, one.err = s.buy(name(name("hand-", hand)+"-", i), drop, 1)
			one.answered = time.Now()
			if one.err != nil {
				over++
			}
			all = append(all, one)
		}
		return all
	})
	bought := 0
	for _, all := range asked {
		for _, one := range all {
			if one.err == nil {
				require.True(t, one.sent.Before(end.Add(slack)), "sold %v after the end", one.sent.Sub(end))
				bought++
				continue
			}
			require.ErrorIs(t, one.err, client.ErrEnded)
			require.False(t, one.answered.Before(end.Add(-slack)), "over %v before the end", end.Sub(one.answered))
		}
	}
	require.Positive(t, bought)
	for _, g := range s.gates {
		seen, err := g.as("").Sale(t.Context(), drop, "")
		require.NoError(t, err)
		require.Equal(t, "ended", seen.Sale.Status)
		require.True(t, seen.Sale.EndsAt.Equal(end), "as given: %v", seen.Sale.EndsAt)
	}
	require.Equal(t, int64(bought), s.audited(drop).Reserved)
}

func oddForms(s *site) {
	t := s.t
	form := func(slug, starts, ends string) answer {
		return s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales", fmt.Sprintf(
			`{"sale":%q,"starts_at":%q,"ends_at":%q,"per_user_limit":1,"currency":"EUR","items":[{"item":"unit","price":1,"stock":1}]}`, slug, starts, ends))
	}
	const start = "2026-11-27T10:00:00Z"
	for _, end := range []string{
		"2026-11-28", "2026-11-28T", "2026-11-28T12:00", "28.11.2026 12:00", "1795860000", "", "2026-11-28T24:00:00Z",
		"2026-11-28T23:59:60Z", "2026-02-30T10:00:00Z", "2026-11-28T10:00:00", "2026-11-28T10:00:00.0001Z", start, "2026-11-27T09:59:59.999Z",
	} {
		a := form(s.named("odd"), start, end)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%q: %s", end, a.body)
		require.Contains(t, a.body, "ends_at", "%q", end)
	}
	for i, end := range []string{"2026-11-28T23:59:59Z", "2026-11-28T00:00:00Z", "2026-11-28T00:00:00.001+00:00"} {
		require.Equal(t, http.StatusCreated, form(s.named(name("exact-", i)), start, end).status)
		kept, err := s.admin().AdminSale(t.Context(), s.named(name("exact-", i)))
		require.NoError(t, err)
		given, err := time.Parse(time.RFC3339Nano, end)
		require.NoError(t, err)
		require.True(t, given.Equal(kept.EndsAt), "%s is kept as %v", end, kept.EndsAt)
	}
}

// The accident: each save shifts the start by the offset, or the zone of the
// server's machine decides.
// The right outcome: the same instant after any number of saves, in any zone of
// the machine; a time without offset and zone is refused.
func TestC31TimeZoneIsNeitherLostNorAppliedTwice(t *testing.T) {
	t.Parallel()
	forms := map[string]string{
		"zulu":   `"starts_at":"2026-11-27T08:00:00Z","ends_at":"2026-11-27T09:30:00.250Z"`,
		"offset": `"starts_at":"2026-11-27T10:00:00+02:00","ends_at":"2026-11-27T11:30:00.250+02:00"`,
		"zone":   `"starts_at":"2026-11-27T09:00:00","ends_at":"2026-11-27T10:30:00.250","time_zone":"Europe/Berlin"`,
		"india":  `"starts_at":"2026-11-27T13:30:00","ends_at":"2026-11-27T15:00:00.250","time_zone":"Asia/Kolkata"`,
	}
	starts := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	ends := time.Date(2026, 11, 27, 9, 30, 0, 250e6, time.UTC)
	for _, zone := range []string{"Asia/Kolkata", "America/New_York"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.SetEnv("TZ=" + zone)
			s.crash()
			const rest = `,"per_user_limit":1,"currency":"EUR","items":[{"item":"unit","price":1,"stock":1}]}`
			for slug, times := range forms {
				made := s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales", `{"sale":"`+slug+`",`+times+rest)
				require.Equal(t, http.StatusCreated, made.status, "%s: %s", slug, made.body)
				for range 3 {
					requireSpan(t, s, slug, starts, ends)
					saveAgain(t.Context(), t, s, slug)
				}
				requireSpan(t, s, slug, starts, ends)
			}
			for _, times := range []string{
				`"starts_at":"2026-11-27T10:00:00","ends_at":"2026-11-27T11:30:00"`,
				`"starts_at":"2026-11-27T10:00:00","ends_at":"2026-11-27T11:30:00","time_zone":"Local"`,
				`"starts_at":"2026-11-27T10:00:00+02:00","ends_at":"2026-11-27T11:30:00+02:00","time_zone":"Asia/Kolkata"`,
			} {
				a := s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales", `{"sale":"refused",`+times+rest)
				require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", times, a.body)
			}
		})
	}
}

// requireSpan requires a sale's window in every view and in the file.
func requireSpan(t *testing.T, s *site, slug string, starts, ends time.Time) {
	t.Helper()
	found, err := s.admin().AdminSale(t.Context(), slug)
	require.NoError(t, err)
	require.Equal(t, starts, found.StartsAt.UTC())
	require.Equal(t, ends, found.EndsAt.UTC())
	raw := s.call(s.AdminKey(), http.MethodGet, "/v1/admin/sales/"+slug, "")
	require.Contains(t, raw.body, `"2026-11-27T09:30:00.25Z"`, "instants are told in UTC")
	var startMS, endMS int64
	row := openSQL(t, s.database()).QueryRowContext(t.Context(), "SELECT starts_at, ends_at FROM sales WHERE slug = ?", slug)
	require.NoError(t, row.Scan(&startMS, &endMS))
	require.Equal(t, starts.UnixMilli(), startMS)
	require.Equal(t, ends.UnixMilli(), endMS)
}

// saveAgain sends the sale back as it was read.
func saveAgain(ctx context.Context, t *testing.T, s *site, slug string) {
	t.Helper()
	found, err := s.admin().AdminSale(ctx, slug)
	require.NoError(t, err)
	starts, ends := found.StartsAt.Format(time.RFC3339Nano), found.EndsAt.Format(time.RFC3339Nano)
	_, err = s.admin().PatchSale(ctx, slug, found.Version, client.SalePatch{Title: &found.Title, StartsAt: &starts, EndsAt: &ends})
	require.NoError(t, err)
}

// The accident: "closed", "paused" or "not for you" is checked in the listing
// but not where it counts.
// The right outcome: one table for every path. No fresh attempt passes; what was
// taken in time may be paid, cancelled and seen; repeats show their order; a late
// charge buys nothing; nothing is done twice after a resume.
func TestC32OneRuleOnEveryPath(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	close := func(at *shop) { at.act(sale.Change{Action: sale.ActionClose}) }
	for _, c := range []struct {
		slug   string
		shut   func(*shop)
		fresh  sale.Verdict
		repeat sale.Verdict
		open   bool // the sale cannot be put away while an order waits
	}{
		{"paused", func(at *shop) { at.act(sale.Change{Action: sale.ActionPause}) }, sale.PausedNow, sale.Replayed, true},
		{"closed", close, sale.ClosedNow, sale.Replayed, true},
		{"ended", func(at *shop) {
			at.act(sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{EndsAt: new(s.clock.now().Add(time.Millisecond))}})
			s.clock.pass(time.Millisecond)
		}, sale.Ended, sale.Replayed, true},
		{"deleted", func(at *shop) {
			close(at)
			_, err := at.ChangeSale(t.Context(), at.slug, 0, sale.Change{Action: sale.ActionDelete})
			require.ErrorIs(t, err, &sale.Error{Code: sale.CodeIllegalState}, "orders wait")
			orders, err := at.book.ListOrders(t.Context(), orderFilter(at.sale().Number, sale.Reserved))
			require.NoError(t, err)
			for _, o := range orders {
				at.cancel(o)
			}
			at.act(sale.Change{Action: sale.ActionDelete})
		}, sale.NoSuchSale, sale.NoSuchSale, false},
	} {
		at := s.at(c.slug)
		at.open(10, 2)
		number := at.sale().Number
		reserved, toCancel := at.buy("pays", "k", 1).Order, at.buy("cancels", "k", 1).Order
		late := at.buy("late", "k", 1).Order
		at.cancel(late)
		done := at.buy("done", "k", 1).Order
		at.pay(notice(done, c.slug+"-done"))
		c.shut(at)

		for door, e := range map[string]*engine.Engine{"here": s.Engine, "elsewhere": s.instance(0)} {
			r := at.ask(e, "fresh", at.key(), 1)
			require.NoError(t, r.err)
			require.Equal(t, c.fresh, r.Verdict, "%s, a fresh attempt %s", c.slug, door)
			r = at.ask(e, "done", "k", 1)
			require.NoError(t, r.err)
			require.Equal(t, c.repeat, r.Verdict, "%s, a repeat %s", c.slug, door)
		}
		require.Equal(t, sale.OutcomeRefundRequired, at.pay(notice(late, c.slug+"-late")).Outcome, c.slug)
		require.Equal(t, done.ID, at.order(done.ID).ID, "an order can be seen for ever")
		if c.open {
			require.Equal(t, sale.OutcomePaid, at.pay(notice(reserved, c.slug+"-p")).Outcome, c.slug)
			require.Equal(t, sale.Cancelled, at.cancel(toCancel).State, c.slug)
		}
		if c.slug == "paused" {
			rows := len(s.rows(number))
			at.act(sale.Change{Action: sale.ActionResume})
			require.Len(t, s.rows(number), rows+1, "a resume does nothing else")
			require.Equal(t, sale.Taken, at.buy("fresh", "k", 1).Verdict)
		}
		if c.open {
			at.settled()
		}
	}
}
