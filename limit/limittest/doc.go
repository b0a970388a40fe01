// Package limittest examines implementations of limit.Limiter. Its cases are named
// after the accidents of other limiters that they try again.
//
//	limittest.Run(t, limittest.Kind{Shared: true}, func(t *testing.T, run func(*testing.T, *limittest.World)) {
//		run(t, &limittest.World{Open: open, Advance: wait})
//	})
//
// A test whose store has a clock that it can stop says Kind.Still, and is examined to
// the microsecond: every admission of random lives is recounted. Without that, the
// bounds of package limit are not examined at all, as no real clock keeps still
// between a call and the count.
package limittest
