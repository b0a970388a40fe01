package lab

import (
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// verdict is the outcome of one attempt as the crowd saw it: taken, replayed,
// gave_up, unanswered, or the code of the server's refusal.
type verdict string

const (
	taken      verdict = "taken"
	replayed   verdict = "replayed"
	gaveUp     verdict = "gave_up"    // the buyer hung up first
	unanswered verdict = "unanswered" // no answer of this API came
)

// decided reports whether the verdict is an answer to the question whether this
// buyer gets what he asked for. The others leave it open: the click is repeated.
func (v verdict) decided() bool {
	code := client.CodeError(v)
	return v != gaveUp && v != unanswered && code != client.ErrNotStarted &&
		code != client.ErrBusy && code != client.ErrUnavailable && code != client.ErrRateLimited
}

// phase is the part of the sale that an attempt belongs to.
type phase int

const (
	atDoor phase = iota // the first move of a buyer in the rush
	later               // whatever comes after it, and latecomers
)

// answer is one attempt and what came of it. Instants count from the opening of
// the door.
type answer struct {
	user     string
	key      string
	quantity int64
	phase    phase
	due      time.Duration // when the buyer wanted to know
	sent     time.Duration
	heard    time.Duration
	verdict  verdict
	status   int           // HTTP status of a refusal; 0 if there was none to read
	pause    time.Duration // what the server asked for in Retry-After
	order    *client.Order // for taken and replayed
}

// notice is one report of a charge to the shop API and the answer to it.
type notice struct {
	payment string
	order   string // the order it was sent for
	amount  int64
	late    bool // sent when the buyer knew that his hold was over
	outcome string
	after   client.Order // the order the answer shows
}

// sighting is an order shown to somebody: by an attempt, a read, a cancel, or a
// payment.
type sighting struct {
	user  string
	order client.Order
	sent  time.Duration // when it was asked for
	heard time.Duration
}

// trouble is a call after the purchase that failed though it was repeated.
type trouble struct {
	user, what, code string
	status           int
}

// books keep what everybody of the crowd was told. They are safe for concurrent
// use.
type books struct {
	stock int64

	mu        sync.Mutex
	answers   []answer
	notices   []notice
	sightings []sighting
	troubles  []trouble
	paid      map[string]int64 // units, by order told paid
	units     int64            // the sum of paid
	allPaid   chan struct{}    // closed when units reaches stock
}

func newBooks(stock int64) *books {
	return &books{stock: stock, paid: make(map[string]int64), allPaid: make(chan struct{})}
}

func (b *books) heardAnswer(a *answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, *a)
	if a.order != nil {
		b.see(sighting{user: a.user, order: *a.order, sent: a.sent, heard: a.heard})
	}
}

func (b *books) heardNotice(n notice, s sighting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notices = append(b.notices, n)
	b.see(s)
}

func (b *books) saw(s sighting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.see(s)
}

func (b *books) failed(t trouble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles = append(b.troubles, t)
}

// see enters a sighting; b.mu is held.
func (b *books) see(s sighting) {
	b.sightings = append(b.sightings, s)
	if s.order.State != statePaid {
		return
	}
	if _, known := b.paid[s.order.ID]; known {
		return
	}
	b.paid[s.order.ID] = s.order.Quantity
	before := b.units
	b.units += s.order.Quantity
	if before < b.stock && b.units >= b.stock {
		close(b.allPaid)
	}
}

// paidUnits returns how many units buyers were told they have paid.
func (b *books) paidUnits() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.units
}

// The states of an order, as the API writes them.
const (
	stateQueued    = "queued"
	stateReserved  = "reserved"
	statePaid      = "paid"
	stateCancelled = "cancelled"
	stateExpired   = "expired"
	stateRejected  = "rejected"
	stateRefunded  = "refunded"
)

// mayFollow reports whether an order seen in one state may be seen in another
// later. It is written here a second time, on purpose: a crowd that asked the
// seller's own code would believe the seller.
func mayFollow(before, after string) bool {
	if before == after {
		return true
	}
	switch before {
	case stateQueued: // no promise: it may have become anything
		return true
	case stateReserved:
		return after == statePaid || after == stateCancelled || after == stateExpired || after == stateRefunded
	case statePaid:
		return after == stateRefunded
	}
	return false
}
