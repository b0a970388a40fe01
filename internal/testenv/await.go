package testenv

import (
	"testing"

	"github.com/doorbuster/doorbuster/internal/servers"
)

// await waits for a condition; if it does not come to hold, the test fails with what
// was waited for and the last reason.
func await(tb testing.TB, what string, check func() error) {
	tb.Helper()
	if err := servers.Await(tb.Context(), what, check); err != nil {
		tb.Fatal(err)
	}
}
