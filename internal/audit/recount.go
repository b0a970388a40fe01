package audit

import (
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// recount is every rule at once over the facts of one sale. It keeps one
// compact record an order, a buyer and a charge, and nothing of the journal.
type recount struct {
	overdueAfter time.Duration
	running      bool
	details      int
	tallies      [ruleCount]tally

	facts     saleFacts
	termsRows map[int64]ledger.Terms

	// What the journal has said so far.
	seq       uint64
	head      [32]byte
	lastAt    time.Time // of the last row
	rowCount  uint64
	wanted    [32]byte // a head published elsewhere; zeros for none
	anchor    uint64   // the row that carries it; 0 while not met
	lastSale  *ledger.SaleBody
	epochs    map[int64]bool // the sale was in, by its reroutes
	adopting  sale.OrderID   // the next row must tell the lane of this order
	lastOrder sale.OrderID   // of the last row
	announced map[int64]announced
	items     map[string]int
	accounts  []account
	users     map[string]int
	buyers    []buyer
	index     map[sale.OrderID]int
	pasts     []past
	heirs     map[sale.OrderID]sale.OrderID // ended order → its replacement
	origins   map[sale.OrderID]sale.OrderID // replacement → ended order
	owed      map[string]*owed              // by payment id

	// What the rows say.
	lastID  sale.OrderID
	figures Figures
	payers  map[string]*payer // by payment id
	money   map[string]*Money // by currency
	fixes   []ledger.Holder   // corrected holder rows
}

// account is one item's units.
type account struct {
	sku     string
	listed  bool  // the journal's sale rows name it
	stock   int64 // by the last of them
	replay  int64 // live after the journal so far
	rows    int64 // live in the order rows
	counted bool  // the sale row names it
}

// buyer is what one user counts for.
type buyer struct {
	live, refunded       int64 // after the journal so far
	rowLive, rowRefunded int64 // in the order rows
	seen                 bool  // has a holder row
}

// past is what the journal says of an order: its last body, compactly.
type past struct {
	user, item int
	state      sale.OrderState
	version    int64
	quantity   int64
	terms      int64
	amount     int64
	currency   string
	epoch      int64
	expires    int64 // ms
	born       int64 // ms
	ended      int64 // ms, 0 while not final
	payment    string
	reason     sale.RejectReason
	seq        uint64 // of the last row
	seen       bool   // has an order row
}

// tally is the result of one check.
type tally struct {
	checked, broken int64
	details         []Violation
}

func newRecount(o Options) *recount {
	o = o.withDefaults()
	return &recount{
		overdueAfter: o.Overdue, running: o.Running, details: o.Details,
		termsRows: make(map[int64]ledger.Terms), announced: make(map[int64]announced),
		items: make(map[string]int), users: make(map[string]int), index: make(map[sale.OrderID]int),
		epochs: make(map[int64]bool),
		heirs:  make(map[sale.OrderID]sale.OrderID), origins: make(map[sale.OrderID]sale.OrderID),
		figures: Figures{Money: []Money{}},
		owed:    make(map[string]*owed), payers: make(map[string]*payer), money: make(map[string]*Money),
	}
}

func (r *recount) count(c rule) { r.tallies[c].checked++ }

// place says where a violation was met.
type place struct {
	order sale.OrderID
	seq   uint64
}

func (r *recount) broke(c rule, at place, format string, args ...any) {
	t := &r.tallies[c]
	t.broken++
	if len(t.details) < r.details {
		t.details = append(t.details, Violation{Order: at.order, Row: at.seq, Text: fmt.Sprintf(format, args...)})
	}
}

func (r *recount) item(sku string) int {
	i, known := r.items[sku]
	if !known {
		i = len(r.accounts)
		r.items[sku] = i
		r.accounts = append(r.accounts, account{sku: sku})
	}
	return i
}

func (r *recount) user(name string) int {
	i, known := r.users[name]
	if !known {
		i = len(r.buyers)
		r.users[name] = i
		r.buyers = append(r.buyers, buyer{})
	}
	return i
}

func (r *recount) open(f saleFacts) error {
	r.facts = f
	for i := range f.body.Items {
		r.accounts[r.item(f.body.Items[i].SKU)].counted = true
		r.figures.Stock += f.body.Items[i].Stock
		r.figures.Sold += f.sold[i]
	}
	return nil
}

func (r *recount) terms(t ledger.Terms) error {
	if _, twice := r.termsRows[t.Number]; twice {
		r.broke(termsTrace, place{}, "terms %d are there twice", t.Number)
	}
	r.termsRows[t.Number] = t
	return nil
}

// finish runs the checks that need the whole stream.
func (r *recount) finish() {
	r.finishJournal()
	r.finishLane()
	r.finishSale()
	r.finishTerms()
	r.finishOrders()
	r.finishHolders()
	r.finishMoney()
}

func (r *recount) finishJournal() {
	r.count(rowHead)
	switch {
	case r.seq != r.facts.seq:
		r.broke(rowHead, place{seq: r.seq}, "the journal ends at row %d, the sale says %d", r.seq, r.facts.seq)
	case r.head != r.facts.head:
		r.broke(rowHead, place{seq: r.seq}, "the journal ends with hash %x, the sale says %x", r.head, r.facts.head)
	}
	r.figures.Rows = r.rowCount
	r.figures.Head = fmt.Sprintf("%x", r.head)
}

// wrong reports whether any of the checks has failed.
func (r *recount) wrong(checks ...rule) bool {
	for _, c := range checks {
		if r.tallies[c].broken > 0 {
			return true
		}
	}
	return false
}
