package ledger_test

import (
	"testing"

	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
)

// The rules over the reference store: what any store has to keep up with.
func TestBook(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.MemWorld)
}

func TestBookMachine(t *testing.T) {
	t.Parallel()
	ledgertest.Machine(t, ledgertest.MemWorld, 100)
}
