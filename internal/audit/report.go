package audit

import (
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Report is the result of an audit.
type Report struct {
	At    time.Time    `json:"at"` // the ledger's time of the snapshot
	Sales []SaleReport `json:"sales"`
}

// Broken reports whether any promise of any sale is broken. An empty report is
// not broken.
func (r *Report) Broken() bool {
	for i := range r.Sales {
		if r.Sales[i].Broken() {
			return true
		}
	}
	return false
}

// SaleReport is the result for one sale.
type SaleReport struct {
	Number  sale.Number  `json:"number"`
	Slug    string       `json:"sale"`
	State   sale.State   `json:"state"`
	Figures Figures      `json:"figures"`
	Rules   []RuleReport `json:"rules"` // in the order of the promises
}

// Broken reports whether any promise of the sale is broken.
func (s *SaleReport) Broken() bool {
	for i := range s.Rules {
		if s.Rules[i].Broken > 0 {
			return true
		}
	}
	return false
}

// Figures is what the recount found. Units are counted from the order rows,
// but for Stock and Sold, which are the sale's own figures.
type Figures struct {
	Orders    int64 `json:"orders"`
	Buyers    int64 `json:"buyers"` // users with an order or a count
	Stock     int64 `json:"stock"`
	Sold      int64 `json:"sold"`
	Reserved  int64 `json:"reserved"`
	Paid      int64 `json:"paid"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
	Rejected  int64 `json:"rejected"`
	Refunded  int64 `json:"refunded"`
	Charges   int64 `json:"charges"` // captured, of more than nothing
	// Money is listed by currency, in order of its name; sums beyond the range
	// of 64 bits stay at its end.
	Money []Money `json:"money"`
	Rows  uint64  `json:"journal_rows"`
	Head  string  `json:"head"` // hash of the last journal row, hexadecimal
	// Anchor is the number of the journal row that carries the head published
	// elsewhere; 0 if none was given or found. All rows up to it are as they
	// were when that head was published.
	Anchor uint64 `json:"anchor,omitempty"`
}

// Money is what moved in one currency, in its minor units.
type Money struct {
	Currency string `json:"currency"`
	Paid     int64  `json:"paid"`      // charges of paid orders
	ToReturn int64  `json:"to_return"` // refund records that wait
	Returned int64  `json:"returned"`  // refund records that are done
}

// RuleReport is the result of one check.
type RuleReport struct {
	Rule       string      `json:"rule"`
	Promise    string      `json:"promise"`
	Checked    int64       `json:"checked"` // how many facts were looked at
	Broken     int64       `json:"broken"`  // how many of them, or of those missing, break it
	Violations []Violation `json:"violations,omitempty"`
}

// Violation is one fact that breaks a promise.
type Violation struct {
	Order sale.OrderID `json:"order,omitzero"`
	Row   uint64       `json:"row,omitempty"` // number of the journal row
	Text  string       `json:"text"`
}

// Options choose what is audited and how much is told.
type Options struct {
	// Sales lists the sales; empty means every sale there ever was.
	Sales []sale.Number
	// Overdue is how long after its end a hold may still be kept before P2 counts
	// as broken: 0 is a minute, negative is for ever.
	Overdue time.Duration
	// Running says that a server sells at this moment, so that holds are judged by
	// the present. Else they are judged by the time of the last journal row: a
	// hold that ended while no server ran is kept from nobody.
	Running bool
	// Details is how many violations a check describes, beside counting all:
	// 0 is 20, negative is none.
	Details int
}

const (
	defaultOverdue = time.Minute
	defaultDetails = 20
)

func (o Options) withDefaults() Options {
	if o.Overdue == 0 {
		o.Overdue = defaultOverdue
	}
	if o.Details == 0 {
		o.Details = defaultDetails
	}
	return o
}

// report puts the tallies of these checks into words.
func (r *recount) report(checks []rule) SaleReport {
	out := SaleReport{
		Number: r.facts.number, Slug: r.facts.body.Slug, State: r.facts.body.State,
		Figures: r.figures, Rules: make([]RuleReport, 0, len(checks)),
	}
	text := texts()
	for _, c := range checks {
		t := &r.tallies[c]
		out.Rules = append(out.Rules, RuleReport{
			Rule: text[c].name, Promise: text[c].promise, Checked: t.checked, Broken: t.broken, Violations: t.details,
		})
	}
	return out
}

// ledgerRules lists the checks that every audit makes.
func ledgerRules() []rule {
	out := make([]rule, 0, ruleCount)
	for c := range fileDigest {
		out = append(out, c)
	}
	return out
}
