package limittest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// callCases are about what may be asked.
func callCases() group {
	return group{
		"L3_InvalidCalls":      invalidCalls,
		"L6_TooLarge":          tooLarge,
		"SubjectsDoNotMeet":    subjectsDoNotMeet,
		"RatesDoNotMeet":       ratesDoNotMeet,
		"EndedContext":         endedContext,
		"Peek":                 peekSpendsNothing,
		"Refund":               refund,
		"Reset":                reset,
		"L12_AllOrNothing":     allOrNothing,
		"L12_AllSubjects":      allSubjects,
		"BindingIsTheStricter": bindingIsTheStricter,
	}
}

func invalidCalls(t *testing.T, w *World) {
	good := limit.Rate{Name: "r", Algorithm: limit.TokenBucket, Quota: 3, Window: long}
	change := func(f func(*limit.Rate)) limit.Rate {
		r := good
		f(&r)
		return r
	}
	rates := map[string]limit.Rate{
		"zero":             {},
		"no name":          change(func(r *limit.Rate) { r.Name = "" }),
		"long name":        change(func(r *limit.Rate) { r.Name = strings.Repeat("n", limit.MaxName+1) }),
		"name with braces": change(func(r *limit.Rate) { r.Name = "a{b}" }),
		"no algorithm":     change(func(r *limit.Rate) { r.Algorithm = 0 }),
		"unknown":          change(func(r *limit.Rate) { r.Algorithm = 99 }),
		"quota 0":          change(func(r *limit.Rate) { r.Quota = 0 }),
		"quota -1":         change(func(r *limit.Rate) { r.Quota = -1 }),
		"huge quota":       change(func(r *limit.Rate) { r.Quota = limit.MaxQuota + 1 }),
		"window 0":         change(func(r *limit.Rate) { r.Window = 0 }),
		"window -1 s":      change(func(r *limit.Rate) { r.Window = -time.Second }),
		"short window":     change(func(r *limit.Rate) { r.Window = limit.MinWindow - time.Microsecond }),
		"nanoseconds":      change(func(r *limit.Rate) { r.Window = time.Second + 1 }),
		"long window":      change(func(r *limit.Rate) { r.Window = limit.MaxWindow + time.Second }),
		"burst -1":         change(func(r *limit.Rate) { r.Burst = -1 }),
		"huge burst":       change(func(r *limit.Rate) { r.Burst = limit.MaxQuota + 1 }),
		"inexact burst":    change(func(r *limit.Rate) { r.Burst, r.Window = limit.MaxQuota, limit.MaxWindow }),
		"burst of windows": change(func(r *limit.Rate) { r.Burst, r.Algorithm = 1, limit.SlidingWindow }),
		"unknown policy":   change(func(r *limit.Rate) { r.OnError = 9 }),
	}
	ctx := t.Context()
	for name, r := range rates {
		require.ErrorIs(t, r.Validate(), limit.ErrInvalid, name)
		_, err := w.limiter.Allow(ctx, "s", 1, r)
		require.ErrorIs(t, err, limit.ErrInvalid, name)
		_, err = w.limiter.Allow(ctx, "s", 1, good, r)
		require.ErrorIs(t, err, limit.ErrInvalid, name)
		_, err = w.limiter.Peek(ctx, "s", r)
		require.ErrorIs(t, err, limit.ErrInvalid, name)
		_, err = w.limiter.Wait(ctx, "s", 1, r)
		require.ErrorIs(t, err, limit.ErrInvalid, name)
		_, _, err = w.limiter.Acquire(ctx, "s", r)
		require.ErrorIs(t, err, limit.ErrInvalid, name)
		require.ErrorIs(t, w.limiter.Refund(ctx, "s", 1, r), limit.ErrInvalid, name)
		require.ErrorIs(t, w.limiter.Reset(ctx, "s", r), limit.ErrInvalid, name)
	}
	slots := limit.Rate{Name: "r", Algorithm: limit.Concurrency, Quota: 3, Window: long}
	calls := map[string]func() error{
		"cost 0":      func() error { _, err := w.limiter.Allow(ctx, "s", 0, good); return err },
		"cost -3":     func() error { _, err := w.limiter.Allow(ctx, "s", -3, good); return err },
		"refund -3":   func() error { return w.limiter.Refund(ctx, "s", -3, good) },
		"no rates":    func() error { _, err := w.limiter.Allow(ctx, "s", 1); return err },
		"twice":       func() error { _, err := w.limiter.Allow(ctx, "s", 1, good, good); return err },
		"many":        func() error { _, err := w.limiter.Allow(ctx, "s", 1, make([]limit.Rate, 99)...); return err },
		"slots":       func() error { _, err := w.limiter.Allow(ctx, "s", 1, slots); return err },
		"wait bucket": func() error { _, err := w.limiter.Wait(ctx, "s", 1, good); return err },
		"acquire":     func() error { _, _, err := w.limiter.Acquire(ctx, "s", good); return err },
		"no checks":   func() error { _, err := w.limiter.AllowAll(ctx, nil); return err },
		"bad check":   func() error { _, err := w.limiter.AllowAll(ctx, []limit.Check{check("s", 0, good)}); return err },
		"same subject": func() error {
			_, err := w.limiter.AllowAll(ctx, []limit.Check{check("s", 1, good), check("s", 1, good)})
			return err
		},
		"second check": func() error {
			_, err := w.limiter.AllowAll(ctx, []limit.Check{check("s", 1, good), check("t", 1)})
			return err
		},
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), limit.ErrInvalid, name)
	}
	require.EqualValues(t, 3, w.peek(t, "s", good).Binding.Remaining, "a mistake costs nothing")
}

func check(subject string, cost int64, rates ...limit.Rate) limit.Check {
	return limit.Check{Subject: subject, Cost: cost, Rates: rates}
}

func tooLarge(t *testing.T, w *World) {
	for _, r := range append(counting(3, long), limit.Rate{Name: "b", Algorithm: limit.TokenBucket, Quota: 100, Window: long, Burst: 3}) {
		_, err := w.limiter.Allow(t.Context(), "s", 4, r)
		require.ErrorIs(t, err, limit.ErrTooLarge, r.Algorithm)
		require.NotErrorIs(t, err, limit.ErrInvalid)
		w.admitted(t, "s", 3, r)
	}
	_, err := w.limiter.Wait(t.Context(), "s", 4, limit.Rate{Name: "l", Algorithm: limit.LeakyBucket, Quota: 3, Window: long})
	require.ErrorIs(t, err, limit.ErrTooLarge)
}

func subjectsDoNotMeet(t *testing.T, w *World) {
	subjects := []string{"", "a", "A", "a ", "{a}", "a}", "{", "a:r", "\x00", "\xff\xfe", "ä", "a\u0308", "a\r\n", strings.Repeat("x", 100_000), strings.Repeat("x", 99_999)}
	for _, r := range counting(1, long) {
		for _, s := range subjects {
			w.admitted(t, s, 1, r)
		}
		for _, s := range subjects {
			w.refused(t, s, 1, r)
		}
	}
}

func ratesDoNotMeet(t *testing.T, w *World) {
	for _, name := range []string{"a", "b", "A", "a.b", "a-b", "1"} {
		for _, r := range counting(1, long) {
			r.Name = name
			w.admitted(t, "s", 1, r)
		}
	}
}

func endedContext(t *testing.T, w *World) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := counting(3, long)[0]
	_, err := w.limiter.Allow(ctx, "s", 1, r)
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.limiter.AllowAll(ctx, []limit.Check{check("s", 1, r)})
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = w.limiter.Acquire(ctx, "s", limit.Rate{Name: "r", Algorithm: limit.Concurrency, Quota: 3, Window: long})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, w.limiter.Refund(ctx, "s", 1, r), context.Canceled)
	require.ErrorIs(t, w.limiter.Reset(ctx, "s", r), context.Canceled)
	require.EqualValues(t, 3, w.peek(t, "s", r).Binding.Remaining)
}

func peekSpendsNothing(t *testing.T, w *World) {
	for _, r := range counting(2, long) {
		s := w.subject()
		for range 5 {
			d := w.peek(t, s, r)
			require.True(t, d.Allowed)
			require.EqualValues(t, 2, d.Binding.Remaining)
			require.Zero(t, d.Binding.ResetAfter)
		}
		w.admitted(t, s, 2, r)
		d := w.peek(t, s, r)
		require.False(t, d.Allowed)
		require.Positive(t, d.Binding.RetryAfter)
	}
}

func refund(t *testing.T, w *World) {
	for _, r := range counting(3, long) {
		s := w.subject()
		require.NoError(t, w.limiter.Refund(t.Context(), s, 2, r), "nothing to give back")
		w.admitted(t, s, 3, r)
		w.refused(t, s, 1, r)
		require.NoError(t, w.limiter.Refund(t.Context(), s, 2, r))
		w.admitted(t, s, 2, r)
		w.refused(t, s, 1, r)
		for range 3 {
			require.NoError(t, w.limiter.Refund(t.Context(), s, 3, r))
		}
		require.EqualValues(t, 3, w.admitted(t, s, 3, r).Binding.Limit, "never more than was spent")
		w.refused(t, s, 1, r)
	}
}

func reset(t *testing.T, w *World) {
	rates := counting(3, long)
	w.admitted(t, "s", 3, rates...)
	w.refused(t, "s", 1, rates...)
	require.NoError(t, w.limiter.Reset(t.Context(), "s", rates...))
	w.admitted(t, "s", 3, rates...)
}

func allOrNothing(t *testing.T, w *World) {
	wide, narrow := counting(10, long), counting(2, long)
	for i := range wide {
		for j := range narrow {
			s := w.subject()
			a, b := wide[i], narrow[j]
			b.Name = "narrow"
			w.admitted(t, s, 2, a, b)
			for range 5 {
				d := w.refused(t, s, 1, a, b)
				require.Equal(t, "narrow", d.Binding.Rate)
			}
			require.EqualValues(t, 8, w.peek(t, s, a).Binding.Remaining, "a refusal costs nothing")
			w.admitted(t, s, 8, a)
		}
	}
}

func allSubjects(t *testing.T, w *World) {
	for _, r := range counting(3, long) {
		ip, user := w.subject(), w.subject()
		checks := []limit.Check{check(user, 1, r), check(ip, 2, r)}
		out, err := w.limiter.AllowAll(t.Context(), checks)
		require.NoError(t, err)
		require.Len(t, out, 2)
		require.True(t, out[0].Allowed && out[1].Allowed)
		for range 3 {
			out, err = w.limiter.AllowAll(t.Context(), checks)
			require.NoError(t, err)
			require.False(t, out[1].Allowed)
			require.Equal(t, limit.Exceeded, out[1].Reason)
		}
		require.EqualValues(t, 2, w.peek(t, user, r).Binding.Remaining, "the other's refusal costs nothing")
		require.EqualValues(t, 1, w.peek(t, ip, r).Binding.Remaining)
	}
}

func bindingIsTheStricter(t *testing.T, w *World) {
	a := limit.Rate{Name: "a", Algorithm: limit.FixedWindow, Quota: 10, Window: long}
	b := limit.Rate{Name: "b", Algorithm: limit.SlidingWindow, Quota: 4, Window: long}
	d := w.admitted(t, "s", 3, a, b)
	require.Equal(t, "b", d.Binding.Rate)
	require.EqualValues(t, 1, d.Binding.Remaining)
	var names []string
	for s := range d.All() {
		names = append(names, s.Rate)
	}
	require.Equal(t, []string{"a", "b"}, names)
	one := w.admitted(t, "s", 1, b)
	for s := range one.All() {
		require.Equal(t, one.Binding, s)
		require.Zero(t, s.Remaining)
	}
}
