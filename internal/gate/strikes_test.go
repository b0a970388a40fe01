package gate_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
)

// A flood of strikes keeps nobody from what he deserves.
func TestStrikesInAFlood(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		stolen, err := d.issue("honest", gate.Proof{})
		require.NoError(t, err)
		stop := make(chan struct{})
		var noise sync.WaitGroup
		noise.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond): //nolint:forbidigo // in a bubble
				}
				v := d.visit("noise-"+strconv.Itoa(i), "")
				v.Pass = "AAAA"
				_, _ = d.Enter(v)
			}
		})
		for range 25 {
			v := d.visit("mallory", "")
			v.Pass = stolen.Text
			_, _ = d.Enter(v)
		}
		d.pass(2 * time.Second)
		require.Equal(t, sale.CodeBanned, d.code(d.visit("mallory", "")))
		close(stop)
		noise.Wait()
	}, func(o *gate.Options) { o.Shared = slowLimiter{o.Shared} })
}

// slowLimiter takes its time.
type slowLimiter struct{ limit.Limiter }

func (l slowLimiter) Allow(ctx context.Context, subject string, cost int64, rates ...limit.Rate) (limit.Decision, error) {
	time.Sleep(500 * time.Microsecond) //nolint:forbidigo // in a bubble
	return l.Limiter.Allow(ctx, subject, cost, rates...)
}

// Whom a list denies collects no strikes, so that nothing of the gate's own stands
// beside what the operator said.
func TestDeniedCollectNoStrikes(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		stolen, err := d.issue("honest", gate.Proof{})
		require.NoError(t, err)
		d.list(ledger.SubjectNetwork, "203.0.113.0/24", ledger.EffectDeny, 0)
		for range 30 {
			v := d.visit("mallory", "203.0.113.9")
			v.Pass = stolen.Text
			_, _ = d.Enter(v)
		}
		d.settle()
		listings, err := d.book.Listings(t.Context(), 0, 100)
		require.NoError(t, err)
		require.Len(t, listings, 1)
		require.Equal(t, sale.CodeBanned, d.code(d.visit("other", "203.0.113.9")))
	})
}

// Strikes lead to a challenge, then to a ban whose time doubles, and decay.
func TestStrikes(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) {
			unlimited(s)
			s.Bans = gate.BanRules{
				ProveAt: 20, BanAt: 40, Decay: gate.Duration(time.Minute),
				Base: gate.Duration(10 * time.Minute), Max: gate.Duration(time.Hour), Memory: gate.Duration(time.Hour),
			}
		})
		stolen, err := d.issue("honest", gate.Proof{})
		require.NoError(t, err)
		forged := stolen.Text // a pass of somebody else
		forge := func(times int) {
			for range times {
				v := d.visit("mallory", "203.0.113.9")
				v.Pass = forged
				require.Equal(t, sale.CodePassInvalid, d.code(v))
			}
			d.settle()
		}
		forge(2)
		require.Equal(t, free, d.code(d.visit("mallory", "")))
		forge(1)
		require.Equal(t, sale.CodeChallengeRequired, d.code(d.visit("mallory", "")))
		forge(3)
		refused := &gate.RefusalError{}
		require.ErrorAs(t, d.try(d.visit("mallory", "")), &refused)
		require.Equal(t, sale.CodeBanned, refused.Err.Code)
		require.Equal(t, sale.CodeChallengeRequired, d.code(d.visit("somebody", "203.0.113.9")), "the network proves itself, and is not denied for one of many")
		require.Equal(t, free, d.code(d.visit("somebody", "203.0.113.8")))
		forge(20)
		require.Equal(t, sale.CodeChallengeRequired, d.code(d.visit("somebody", "203.0.113.9")))
		d.pass(10 * time.Minute)
		require.Equal(t, free, d.code(d.visit("mallory", "")), "strikes have decayed, and the ban is over")
		forge(6)
		listings, err := d.book.Listings(t.Context(), 0, 100)
		require.NoError(t, err)
		now, err := d.book.Now(t.Context())
		require.NoError(t, err)
		for _, l := range listings {
			if l.Subject.Value == "mallory" {
				require.Equal(t, 1, l.Level)
				require.InDelta(t, 20*time.Minute, l.ExpiresAt.Sub(now), float64(time.Minute))
			}
		}
	})
}
