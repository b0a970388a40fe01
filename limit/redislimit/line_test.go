package redislimit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Calls that hang at the same time are late once, all together.
func TestLateTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, err := Options{}.withDefaults()
		require.NoError(t, err)
		limiter := &Limiter{o: o, start: time.Now()}
		l := line{limiter: limiter}
		pass := func(d time.Duration) int64 { time.Sleep(d); return limiter.clock() } //nolint:forbidigo // fake time
		late := fmt.Errorf("call: %w", context.DeadlineExceeded)

		one, two := pass(time.Millisecond), pass(time.Millisecond)
		pass(o.Timeout)
		require.False(t, l.heard(one, late))
		pass(time.Millisecond)
		require.False(t, l.heard(two, late), "it was sent before the other was given up")
		require.True(t, l.ready())
		require.False(t, l.heard(limiter.clock(), nil))
		require.False(t, l.heard(limiter.clock(), late), "an answer is in between")
		require.True(t, l.heard(pass(time.Millisecond), late))
		require.False(t, l.ready())
		pass(o.Probe)
		require.True(t, l.ready(), "one call may try")
		require.False(t, l.ready(), "and no other")
		require.True(t, l.heard(limiter.clock(), late), "a try that is late is enough")
		require.False(t, l.ready())
		require.False(t, l.heard(limiter.clock(), nil))
		require.True(t, l.ready())
		require.True(t, l.heard(limiter.clock(), errors.New("connection refused")))
	})
}
