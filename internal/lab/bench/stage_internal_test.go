package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestSteady: an instant by the wall clock becomes one by the steady clock, the same.
func TestSteady(t *testing.T) {
	t.Parallel()
	wall := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	assert.NotContains(t, wall.String(), " m=")
	got := steady(wall)
	assert.Contains(t, got.String(), " m=")
	assert.WithinDuration(t, wall, got, 5*time.Millisecond)
	assert.True(t, strings.HasPrefix(time.Until(got).String(), "59m59"))
}
