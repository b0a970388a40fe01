package memlock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/locktest"
	"github.com/doorbuster/doorbuster/lock/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Features{Queue: true, Exact: true, Shared: true, Local: true}, func(testing.TB) lock.Store { return memlock.New() })
}
