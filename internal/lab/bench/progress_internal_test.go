package bench

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

// TestProgressFitsIntoALine: beside a bar of 30 columns at most.
func TestProgressFitsIntoALine(t *testing.T) {
	t.Parallel()
	var gauge traffic.Gauge
	p := watch(io.Discard, 10, &gauge)
	defer p.stop()
	assert.Equal(t, "opening the sale", p.text(&traffic.Live{}))
	p.say(gathering)
	start := time.Now().Add(time.Hour)
	p.start.Store(&start)
	assert.Regexp(t, `^the crowd gathers, 3\d{3}\.\d s to the start$`, p.text(&traffic.Live{}))
	now := traffic.Live{Offered: 1}
	now.Answers[traffic.Accepted], now.Answers[traffic.Refused] = 41_000, 1_000_000
	assert.Equal(t, "accepted 41,000, refused 1,000,000", p.text(&now))
	now.Answers[traffic.Failed] = 7
	assert.Equal(t, "accepted 41,000, refused 1,000,000, failed 7", p.text(&now))
	p.say("auditing")
	assert.Equal(t, "auditing", p.text(&now))
}
