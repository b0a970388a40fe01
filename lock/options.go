package lock

import (
	"fmt"
	"strings"
	"time"
)

// Limits of what may be asked for.
const (
	// DefaultLease is the lease of a lock that asks for none.
	DefaultLease = 30 * time.Second
	// MinLease leaves room for a renewal over a network.
	MinLease = 50 * time.Millisecond
	// MaxLease bounds how long a crashed holder can stand in the way.
	MaxLease = time.Hour
	// MaxName is the longest name, in bytes.
	MaxName = 512
	// MaxMetadata is the longest metadata, in bytes.
	MaxMetadata = 1024
)

// Config is what a Locker is made of. The zero value is a good one.
type Config struct {
	// Lease is that of locks that do not ask for one with WithLease. Zero is
	// DefaultLease.
	Lease time.Duration
	// Waiter is how long a waiter that has died keeps its place in the queue; a
	// living one asks four times as often, and each half second at least. Zero is
	// 2 s.
	Waiter time.Duration
	// CallTimeout bounds one call of the store. Zero is 1 s; a call for a lease
	// is never given longer than a third of it, but at least 20 ms.
	CallTimeout time.Duration
	// Patience is how long a caller that may wait puts up with a store that
	// answers nothing but errors. Zero is 10 s.
	Patience time.Duration
	// Observe is told of what happens, if set. It may look at leases, but must not
	// block.
	Observe func(Event)
}

func (c Config) withDefaults() (Config, error) {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.Lease, DefaultLease)
	set(&c.Waiter, 2*time.Second)
	set(&c.CallTimeout, time.Second)
	set(&c.Patience, 10*time.Second)
	if c.Observe == nil {
		c.Observe = func(Event) {}
	}
	if c.Waiter < 4*time.Millisecond || c.CallTimeout < time.Millisecond || c.Patience < 0 {
		return c, fmt.Errorf("%w: times of a locker must be positive", ErrInvalid)
	}
	return c, validLease(c.Lease)
}

// Option changes one call.
type Option func(*call)

// call is what the options of one call amount to.
type call struct {
	lease   time.Duration
	wait    time.Duration // negative: until the context ends
	maxHold time.Duration
	fixed   bool
	barging bool
	once    bool // no re-entry
	meta    string
	err     error
}

// WithLease sets how long the lock outlives its holder: a holder that crashes
// stands in the way no longer than that. A living holder renews it at a third.
func WithLease(d time.Duration) Option { return func(c *call) { c.lease = d } }

// WithFixedLease sets a lease that is not renewed: the lock ends after d at the
// latest, whatever the holder does. Extend still works.
func WithFixedLease(d time.Duration) Option {
	return func(c *call) { c.lease, c.fixed = d, true }
}

// WithWait bounds the waiting, whatever the lease is; the context may end it
// earlier. Zero is one attempt.
func WithWait(d time.Duration) Option {
	return func(c *call) {
		if c.wait = d; d < 0 {
			c.err = fmt.Errorf("%w: a wait of %s", ErrInvalid, d)
		}
	}
}

// WithMaxHold ends renewing d after the lock was acquired, so that a holder that
// hangs loses it then, within another lease. The cause is ErrMaxHold.
func WithMaxHold(d time.Duration) Option {
	return func(c *call) {
		if c.maxHold = d; d <= 0 {
			c.err = fmt.Errorf("%w: a longest hold of %s", ErrInvalid, d)
		}
	}
}

// WithBarging gives up fairness: the lock is taken when it is free, although
// others wait, and freed at the end instead of handed on. Waiters are still woken
// in their order.
func WithBarging() Option { return func(c *call) { c.barging = true } }

// WithoutReentry answers ErrReentry where the context holds the lock already.
func WithoutReentry() Option { return func(c *call) { c.once = true } }

// WithMetadata keeps a text beside the lock for Inspect, such as a host name.
func WithMetadata(text string) Option {
	return func(c *call) {
		if c.meta = text; len(text) > MaxMetadata {
			c.err = fmt.Errorf("%w: metadata of %d bytes", ErrInvalid, len(text))
		}
	}
}

func (l *Locker) options(wait time.Duration, opts []Option) (call, error) {
	c := call{lease: l.config.Lease, wait: wait}
	for _, o := range opts {
		o(&c)
	}
	if c.err == nil {
		c.err = validLease(c.lease)
	}
	return c, c.err
}

func validLease(d time.Duration) error {
	if d < MinLease || d > MaxLease || d%time.Millisecond != 0 {
		return fmt.Errorf("%w: a lease of %s; it is whole milliseconds from %s to %s", ErrInvalid, d, MinLease, MaxLease)
	}
	return nil
}

// validName refuses braces that are no hash tag: a cluster would tear the keys of
// such a name apart.
func validName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: a name of %d bytes", ErrInvalid, len(name))
	}
	if !strings.ContainsAny(name, "{}") {
		return nil
	}
	_, rest, _ := strings.Cut(name, "{")
	if tag, _, closed := strings.Cut(rest, "}"); !closed || tag == "" {
		return fmt.Errorf("%w: the braces of name %q are no {tag}", ErrInvalid, name)
	}
	return nil
}
