package strategy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/strategy"
)

const buyers = 2000

func TestStrategiesDoWhatIsSaidOfThem(t *testing.T) {
	t.Parallel()
	for _, s := range strategy.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			o := run(t, s.Name, buyers)
			if s.Expect == strategy.Fails {
				require.Positive(t, o.column(s.Accident), "%s", s.Accident)
			}
		})
	}
}
