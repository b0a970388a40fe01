package sim

import (
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// mutant is a planted mistake: a counter or a ledger that is wrong in one way.
type mutant struct {
	counter func(*world, stock.Counter) stock.Counter
	ledger  func(ledger.Ledger) ledger.Ledger
}

func (m mutant) orNone() mutant {
	if m.counter == nil {
		m.counter = func(_ *world, c stock.Counter) stock.Counter { return c }
	}
	if m.ledger == nil {
		m.ledger = func(l ledger.Ledger) ledger.Ledger { return l }
	}
	return m
}
