package redislimit

import (
	"fmt"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/limit"
)

// Options of a limiter. The zero value is a good one for a single process.
type Options struct {
	// Prefix begins every key. It must not hold braces. Empty is "rl:".
	Prefix string
	// HashKey keys the hash of subjects in keys of Redis. All processes that share
	// limits need the same. Without it, who reads Redis can tell a subject by
	// guessing it, as is easy with addresses.
	HashKey []byte
	// Instances is how many processes share the limits: the part of a quota that
	// each of them has while the store does not answer. A quota that is smaller
	// than that is one in a window that is longer. Zero is 1.
	Instances int
	// Timeout bounds one call of the store. Who asks while another call is under way
	// waits for that first, so a store that hangs costs at most two of them. Zero is
	// 100 ms; where the way to the store is long or busy, a few times its usual
	// slowest answer is right.
	Timeout time.Duration
	// Probe is how long a store that has failed, or was late twice in a row, is left
	// alone before one call tries again. Zero is 250 ms.
	Probe time.Duration
	// MaxDeny bounds how long a refusal is remembered. Zero is a second; negative
	// remembers none.
	MaxDeny time.Duration
	// MaxSubjects bounds the refusals that are remembered, and the subjects of the
	// limiter in memory. Zero is 131,072.
	MaxSubjects int
	// OnTrouble is told of each call that failed or was late, if set. It must not block.
	OnTrouble func(error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = "rl:"
	}
	if o.OnTrouble == nil {
		o.OnTrouble = func(error) {}
	}
	if o.Instances == 0 {
		o.Instances = 1
	}
	for d, value := range map[*time.Duration]time.Duration{
		&o.Timeout: 100 * time.Millisecond, &o.Probe: 250 * time.Millisecond, &o.MaxDeny: time.Second,
	} {
		if *d == 0 {
			*d = value
		}
	}
	if o.MaxSubjects == 0 {
		o.MaxSubjects = 1 << 17
	}
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return o, fmt.Errorf("%w: braces in the prefix %q", limit.ErrInvalid, o.Prefix)
	case o.Instances < 1, o.Timeout < time.Millisecond, o.Probe < time.Millisecond, o.MaxSubjects < 1:
		return o, fmt.Errorf("%w: options of a limiter out of range", limit.ErrInvalid)
	}
	return o, nil
}
