package buyers

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

const (
	// MostOrders bounds the orders of which Books keep what was told.
	MostOrders = 1_000_000
	shards     = 64
	// longestWait bounds what the histogram of judgements keeps, in µs.
	longestWait = int64(10 * time.Minute / time.Microsecond)
	digits      = 3
)

// States is a set of states of an order.
type States uint8

// states lists the states in the order of their bits.
func states() [7]string {
	return [7]string{
		client.StateQueued, client.StateReserved, client.StatePaid, client.StateCancelled,
		client.StateExpired, client.StateRejected, client.StateRefunded,
	}
}

// The states as sets of one.
const (
	Queued States = 1 << iota
	Reserved
	Paid
	Cancelled
	Expired
	Rejected
	Refunded
)

// StateOf returns the set that holds a state as the API writes it; an empty set if
// the API has no such state.
func StateOf(state string) States {
	for i, name := range states() {
		if name == state {
			return 1 << i
		}
	}
	return 0
}

// String lists the states of the set.
func (s States) String() string {
	var names []string
	for i, name := range states() {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// bit returns the index of the one state in the set.
func (s States) bit() int { return bits.TrailingZeros8(uint8(s)) }

// Order is what buyers were told about one order.
type Order struct {
	ID    string
	Buyer int32
	// Click is the buyer's click that it stands for; below 0 it came of a late payment.
	Click    int16
	Quantity int64
	Amount   int64 // as the server asks for, in minor units
	Currency string
	Seen     States                // those that were told
	Told     [traffic.Kinds]uint32 // answers that told of it, by what was asked
	Reason   string                // of a rejected one
	Charged  bool                  // the shop has told of a charge for it, whose id is PaymentID(ID)
	Outcome  string                // what the server said to the charge; empty: nothing yet

	due time.Duration // of the click, the first time, after the start
}

// PaymentID returns the id of the one charge for an order.
func PaymentID(order string) string { return "charge-" + order }

// Fault is a promise that an answer broke by itself.
type Fault struct {
	Promise string // P4 …
	Count   int64
	Example string
}

// Live is a glance at the books: how many orders were told of in each state.
type Live struct {
	Orders, Queued, Reserved, Paid, Cancelled, Rejected int64
	Waiting                                             int64 // queued ones of whose judgement nobody has heard
}

// Books are what everybody of a crowd was told. They are safe for concurrent use, by
// several scripts too.
type Books struct {
	cast   *Cast
	seed   maphash.Seed
	shards [shards]shard
	unsure []atomic.Uint32 // a bit a buyer
	orders atomic.Int64
	missed atomic.Int64
	told   [7]atomic.Int64 // orders by state
	queued atomic.Int64    // of which nothing else is known

	mu     sync.Mutex
	faults map[string]*Fault
	judged *hdrhistogram.Histogram
}

type shard struct {
	mu     sync.Mutex
	orders map[string]*Order
}

// NewBooks returns empty books for a cast.
func NewBooks(c *Cast) *Books {
	b := &Books{
		cast: c, seed: maphash.MakeSeed(), unsure: make([]atomic.Uint32, (c.Size()+31)/32),
		faults: make(map[string]*Fault), judged: hdrhistogram.New(1, longestWait, digits),
	}
	for i := range b.shards {
		b.shards[i].orders = make(map[string]*Order)
	}
	return b
}

// Live returns a glance at the books.
func (b *Books) Live() Live {
	at := func(s States) int64 { return b.told[s.bit()].Load() }
	return Live{
		Orders: b.orders.Load(), Queued: at(Queued), Reserved: at(Reserved), Paid: at(Paid), Cancelled: at(Cancelled), Rejected: at(Rejected),
		Waiting: b.queued.Load(),
	}
}

// Orders returns a copy of all entries, ordered by id.
func (b *Books) Orders() []Order {
	all := make([]Order, 0, b.orders.Load())
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		for _, o := range s.orders {
			all = append(all, *o)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(x, y Order) int { return cmp.Compare(x.ID, y.ID) })
	return all
}

// Missed returns of how many orders the books have no entry, since they were full.
func (b *Books) Missed() int64 { return b.missed.Load() }

// Unsure reports whether an attempt of the buyer may have been carried out without
// his knowing.
func (b *Books) Unsure(buyer int32) bool {
	return b.unsure[buyer/32].Load()&(1<<(buyer%32)) != 0
}

// Faults returns what answers broke by themselves, by promise.
func (b *Books) Faults() []Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Fault, 0, len(b.faults))
	for _, f := range b.faults {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(x, y Fault) int { return cmp.Compare(x.Promise, y.Promise) })
	return all
}

// Judged returns how long buyers of queued orders waited, in µs from the instant at
// which their click was due, the first time, until they heard of the judgement.
func (b *Books) Judged() *hdrhistogram.Histogram {
	b.mu.Lock()
	defer b.mu.Unlock()
	return hdrhistogram.Import(b.judged.Export())
}

func (b *Books) unknown(buyer int32) { b.unsure[buyer/32].Or(1 << (buyer % 32)) }

func (b *Books) fault(promise, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.faults[promise]
	if f == nil {
		f = &Fault{Promise: promise, Example: fmt.Sprintf(format, args...)}
		b.faults[promise] = f
	}
	f.Count++
}

func (b *Books) shard(id string) *shard {
	return &b.shards[maphash.String(b.seed, id)%shards]
}

// tell enters that an answer told of an order and returns the entry and the states
// that are new in it. An order for which there is no room has none.
func (b *Books) tell(step *traffic.Step, o *sight, now time.Duration) (Order, States) {
	s := b.shard(o.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.orders[o.id]
	switch {
	case e == nil && b.orders.Add(1) > MostOrders:
		b.orders.Add(-1)
		b.missed.Add(1)
		return Order{}, 0
	case e == nil:
		e = &Order{
			ID: o.id, Buyer: step.Buyer, Click: o.click, Quantity: o.quantity, Amount: o.amount, Currency: o.currency, due: step.Since(),
		}
		s.orders[o.id] = e
	case e.Buyer != step.Buyer || step.Kind == traffic.Buy && e.Click != o.click:
		b.fault("P4", "order %s was told to buyer %d for click %d and to buyer %d for click %d", o.id, e.Buyer, e.Click, step.Buyer, o.click)
	case e.Quantity != o.quantity || e.Amount != o.amount || e.Currency != o.currency:
		b.fault("P4", "order %s was told as %d for %d %s and as %d for %d %s", o.id, e.Quantity, e.Amount, e.Currency, o.quantity, o.amount, o.currency)
	}
	e.Told[step.Kind]++
	return b.see(e, o, now)
}

// see enters a state into an entry, whose shard is held.
func (b *Books) see(e *Order, o *sight, now time.Duration) (Order, States) {
	news := o.state &^ e.Seen
	if news == 0 {
		return *e, 0
	}
	b.told[news.bit()].Add(1)
	switch {
	case e.Seen == 0 && news == Queued:
		b.queued.Add(1)
	case e.Seen == Queued:
		b.queued.Add(-1)
		b.learned(now - e.due)
	}
	e.Seen |= news
	if o.reason != "" {
		e.Reason = o.reason
	}
	return *e, news
}

// learned enters how long a buyer waited for the judgement of a queued order.
func (b *Books) learned(after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// In range by construction, so it cannot fail.
	_ = b.judged.RecordValue(min(max(1, after.Microseconds()), longestWait))
}

// charge enters that the shop is telling of a charge for an order, and returns the
// entry.
func (b *Books) charge(id string) Order {
	s := b.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.orders[id]
	if e == nil {
		return Order{ID: id}
	}
	e.Charged = true
	return *e
}

// outcome enters what the server said to a charge.
func (b *Books) outcome(id, outcome string) {
	s := b.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.orders[id]; e != nil {
		e.Outcome = outcome
	}
}
