package traffic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Every alarm waits at least as long as it should, unless somebody rings, who may come
// too early to be awaited.
func TestAlarms(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]alarm{"exact": newAlarm(), "timer": newTimerAlarm()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer a.close()
			for _, d := range []time.Duration{0, 1, 300 * time.Microsecond, 3 * time.Millisecond} {
				begun := time.Now()
				a.wait(d)
				assert.GreaterOrEqual(t, time.Since(begun), d)
			}
			a.ring()
			a.wait(time.Hour)
			for range 100 {
				woken := make(chan struct{})
				go func() {
					a.wait(time.Hour)
					close(woken)
				}()
				a.ring()
				<-woken
			}
			// A ring that nobody waited for is heard once.
			a.ring()
			a.ring()
			a.wait(time.Hour)
			begun := time.Now()
			a.wait(time.Millisecond)
			assert.GreaterOrEqual(t, time.Since(begun), time.Millisecond)
		})
	}
}
