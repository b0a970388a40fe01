package limit

import (
	"fmt"
	"time"
)

// Algorithm says how a rate counts; see the table of the package comment.
type Algorithm uint8

// The algorithms. The zero value is none.
const (
	// FixedWindow counts in windows that begin with the first call after the last
	// one has ended.
	FixedWindow Algorithm = iota + 1
	// SlidingWindow admits at most Quota in any window at all.
	SlidingWindow
	// TokenBucket admits a burst, and Quota a window in the long run (GCRA).
	TokenBucket
	// LeakyBucket spaces calls evenly; see Limiter.Wait.
	LeakyBucket
	// Concurrency bounds how many slots are held at once; see Limiter.Acquire.
	Concurrency
)

func (a Algorithm) String() string {
	switch a {
	case FixedWindow:
		return "fixed_window"
	case SlidingWindow:
		return "sliding_window"
	case TokenBucket:
		return "token_bucket"
	case LeakyBucket:
		return "leaky_bucket"
	case Concurrency:
		return "concurrency"
	}
	return "unknown"
}

// Policy says what a rate does while its store does not answer.
type Policy uint8

// The policies.
const (
	// Local counts in the memory of this process, with its share of the quota. It is
	// the zero value.
	Local Policy = iota
	// Open admits.
	Open
	// Closed refuses, with the reason Unavailable.
	Closed
)

func (p Policy) String() string {
	switch p {
	case Local:
		return "local"
	case Open:
		return "open"
	case Closed:
		return "closed"
	}
	return "unknown"
}

// Bounds of a rate.
const (
	// MaxName is the longest name, in bytes.
	MaxName = 64
	// MaxQuota is the largest Quota and the largest Burst.
	MaxQuota = 1_000_000_000
	// MinWindow is the shortest Window.
	MinWindow = time.Millisecond
	// MaxWindow is the longest Window.
	MaxWindow = 31 * 24 * time.Hour
	// MaxRates is how many rates one call may name.
	MaxRates = 16
)

// Rate is a limit. It is a plain value and travels with each call: to change a
// limit, pass another value of the same name, and what has been spent stays spent.
// The zero value is invalid.
type Rate struct {
	// Name tells the rates of a subject apart: letters, digits and ". _ -", at most
	// MaxName bytes.
	Name string
	// Algorithm says how it counts. Rates of one name and different algorithms know
	// nothing of each other.
	Algorithm Algorithm
	// Quota is how much is admitted in a Window, or how many slots there are; from 1
	// to MaxQuota.
	Quota int64
	// Window is the time that Quota is for, or the lease of a slot; whole
	// microseconds from MinWindow to MaxWindow. A shorter one ends what an earlier
	// call has begun sooner; see promise 4 of the package.
	Window time.Duration
	// Burst is how much a TokenBucket admits at once, or how many turns of a
	// LeakyBucket may be queued. Zero is Quota. Other algorithms have none.
	Burst int64
	// OnError is what happens while the store does not answer.
	OnError Policy
}

// maxDebt keeps every sum that a store computes exact in a float64.
const maxDebt = 1 << 51

// Validate returns an ErrInvalid that says what is wrong, or nil.
func (r Rate) Validate() error {
	switch {
	case !validName(r.Name):
		return fmt.Errorf("%w: the name of a rate is 1 to %d letters, digits and . _ -, not %q", ErrInvalid, MaxName, r.Name)
	case r.Algorithm < FixedWindow || r.Algorithm > Concurrency:
		return fmt.Errorf("%w: rate %q has no algorithm", ErrInvalid, r.Name)
	case r.Quota < 1 || r.Quota > MaxQuota:
		return fmt.Errorf("%w: rate %q has a quota of %d; it is from 1 to %d", ErrInvalid, r.Name, r.Quota, int64(MaxQuota))
	case r.Window < MinWindow || r.Window > MaxWindow || r.Window%time.Microsecond != 0:
		return fmt.Errorf("%w: rate %q has a window of %s; it is whole microseconds from %s to %s", ErrInvalid, r.Name, r.Window, MinWindow, MaxWindow)
	case r.Burst < 0 || r.Burst > MaxQuota:
		return fmt.Errorf("%w: rate %q has a burst of %d; it is from 0 to %d", ErrInvalid, r.Name, r.Burst, int64(MaxQuota))
	case r.Burst != 0 && !r.bucket():
		return fmt.Errorf("%w: rate %q has a burst, but a %s has none", ErrInvalid, r.Name, r.Algorithm)
	case r.OnError > Closed:
		return fmt.Errorf("%w: rate %q has an unknown policy", ErrInvalid, r.Name)
	case r.bucket() && r.Capacity() > maxDebt/r.unit():
		return fmt.Errorf("%w: rate %q has a burst of %d, which is too much for a quota of %d in %s", ErrInvalid, r.Name, r.Capacity(), r.Quota, r.Window)
	}
	return nil
}

// Capacity is the largest cost that the rate can ever admit: Quota, or Burst for
// the buckets.
func (r Rate) Capacity() int64 {
	if r.bucket() && r.Burst > 0 {
		return r.Burst
	}
	return r.Quota
}

func (r Rate) bucket() bool { return r.Algorithm == TokenBucket || r.Algorithm == LeakyBucket }

// unit is what one token costs; Quota/gcd of these units come back in a microsecond.
func (r Rate) unit() int64 {
	us := r.Window.Microseconds()
	return us / gcd(us, r.Quota)
}

// Pace returns the speed of a valid rate exactly: gain units come back in each
// microsecond, and one of Quota costs unit of them. They have no common divisor.
// Implementations count in these units, so that no rate is rounded.
func (r Rate) Pace() (gain, unit int64) {
	unit = r.unit()
	return r.Quota / (r.Window.Microseconds() / unit), unit
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func validName(name string) bool {
	if name == "" || len(name) > MaxName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
