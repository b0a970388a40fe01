package redisconn

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// Clock tells a time that is kept elsewhere.
type Clock func(ctx context.Context) (time.Time, error)

// ServerClock returns the clock of one server. A client of a cluster asks any of
// its nodes; take one from its Nodes.
func ServerClock(server rueidis.Client) Clock {
	return func(ctx context.Context) (time.Time, error) {
		parts, err := server.Do(ctx, server.B().Time().Build()).AsIntSlice()
		if err != nil {
			return time.Time{}, Trouble("TIME", err)
		}
		const seconds, micros = 0, 1
		if len(parts) != micros+1 {
			return time.Time{}, Trouble("TIME", fmt.Errorf("it answers with %d numbers", len(parts)))
		}
		return time.Unix(parts[seconds], parts[micros]*int64(time.Microsecond)).UTC(), nil
	}
}

// Offset is how one clock stands to another.
type Offset struct {
	// By is the clock's time less the reference's; positive if it is ahead.
	By time.Duration
	// Within bounds the error of By: half of the time that both looks took.
	Within time.Duration
}

// Surely reports whether the clocks are further apart than limit, whatever the
// looks at them have cost.
func (o Offset) Surely(limit time.Duration) bool { return o.By.Abs()-o.Within > limit }

const (
	looks      = 5
	goodEnough = time.Millisecond
)

// Compare looks at two clocks a few times, and believes the quickest pair of
// looks: an answer tells the time of some moment between question and answer.
// The error is the first of a clock.
func Compare(ctx context.Context, clock, reference Clock) (Offset, error) {
	var best Offset
	for i := range looks {
		start := time.Now()
		theirs, err := reference(ctx)
		if err != nil {
			return Offset{}, err
		}
		ours, err := clock(ctx)
		if err != nil {
			return Offset{}, err
		}
		end := time.Now()
		// Each clock was read at about the middle of its look, and these two
		// middles are half of the whole time apart.
		half := end.Sub(start) / 2
		o := Offset{By: ours.Sub(theirs) - half, Within: half}
		if i == 0 || o.Within < best.Within {
			best = o
		}
		if best.Within <= goodEnough {
			break
		}
	}
	return best, nil
}
