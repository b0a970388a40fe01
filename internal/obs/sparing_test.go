package obs_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/obs"
)

// A crowd that meets the same trouble does not fill a disk; other lines pass.
func TestWarningsThatComeTooOftenAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, err := obs.NewLogger(&out, "json", "debug")
		require.NoError(t, err)
		lines := func(part string) int {
			n := strings.Count(out.String(), part)
			out.Reset()
			return n
		}
		part := log.With(slog.String("part", "api")).WithGroup("g")
		for range 500 {
			log.Warn("away")
			part.Warn("away", slog.Int("n", 1))
		}
		require.Equal(t, 10, lines("away"))
		for range 50 {
			log.Error("broken")
			log.Info("served")
			log.Debug("looked at")
			log.Warn("behind")
		}
		text := out.String()
		for word, want := range map[string]int{"broken": 50, "served": 50, "looked at": 50, "behind": 10} {
			require.Equal(t, want, strings.Count(text, word), word)
		}
		out.Reset()
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		log.Warn("away")
		require.Contains(t, out.String(), `"left_out":990`)
		out.Reset()
		part.Warn("away")
		require.NotContains(t, out.String(), "left_out")
	})
}
