package sqliteledger_test

import (
	"testing"

	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
)

// Random lives, each told apart from the reference store by no answer.
func TestMachine(t *testing.T) {
	t.Parallel()
	ledgertest.Machine(t, func(t *testing.T) ledgertest.World {
		t.Helper()
		return newWorld(t).World(t)
	}, 15)
}
