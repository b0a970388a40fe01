package client

import "time"

// AuditReport is what an audit has found.
type AuditReport struct {
	At    time.Time   `json:"at"` // the ledger's time at which it looked
	Sales []AuditSale `json:"sales"`
}

// AuditSale is the result for one sale.
type AuditSale struct {
	Number  uint32       `json:"number"`
	ID      string       `json:"sale"`
	State   string       `json:"state"`
	Figures AuditFigures `json:"figures"`
	Rules   []AuditRule  `json:"rules"`
}

// AuditFigures is what the recount counted.
type AuditFigures struct {
	Orders    int64  `json:"orders"`
	Buyers    int64  `json:"buyers"`
	Stock     int64  `json:"stock"`
	Sold      int64  `json:"sold"`
	Reserved  int64  `json:"reserved"`
	Paid      int64  `json:"paid"`
	Cancelled int64  `json:"cancelled"`
	Expired   int64  `json:"expired"`
	Rejected  int64  `json:"rejected"`
	Refunded  int64  `json:"refunded"`
	Charges   int64  `json:"charges"`
	Rows      uint64 `json:"journal_rows"`
	Head      string `json:"head"` // hash of the last journal row, hexadecimal
}

// AuditRule is the result of one check.
type AuditRule struct {
	Rule    string `json:"rule"`
	Promise string `json:"promise"`
	Checked int64  `json:"checked"` // facts looked at
	Broken  int64  `json:"broken"`  // facts that break it
}

// Broken reports whether any promise of any sale is broken.
func (r *AuditReport) Broken() bool {
	for i := range r.Sales {
		for j := range r.Sales[i].Rules {
			if r.Sales[i].Rules[j].Broken > 0 {
				return true
			}
		}
	}
	return false
}
