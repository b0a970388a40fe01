package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Options of a sweeper. Zero values take the defaults.
type Options struct {
	Interval    time.Duration // pause between sweeps; default 500 ms, so that units sell again within 2 s
	Batch       int           // orders ended in one transaction; default 256
	CallTimeout time.Duration // deadline of one ledger call; default 5 s
	Observer    Observer      // nil: nobody watches
}

const (
	defaultInterval    = 500 * time.Millisecond
	defaultBatch       = 256
	defaultCallTimeout = 5 * time.Second

	firstPause = 2 * time.Second
	maxPause   = 5 * time.Minute
	// patientTry is which try of a stuck sale has all the time of a call.
	patientTry = 20
	// maxAside bounds the orders set aside; beyond it the oldest due ones are
	// tried at every sweep again, which costs time but loses nothing.
	maxAside = 200_000
)

// Observer is told how sweeping goes.
type Observer interface {
	// Behind reports how long overdue the oldest hold is when a sweep begins.
	Behind(overdue time.Duration)
	// Swept reports one sweep: how many holds it ended, and how many orders are set
	// aside.
	Swept(ended, aside int)
	// Refused reports an order that the ledger would not end, or, with the zero
	// id, a sweep that failed as a whole.
	Refused(id sale.OrderID, err error)
}

// Sweeper ends overdue holds. It is not safe for concurrent use; run several.
type Sweeper struct {
	ledger ledger.Orders
	opts   Options
	aside  map[sale.OrderID]pause
	stuck  map[sale.Number]int // sales that could not be worked on, and how often in a row
}

type pause struct {
	until time.Time
	next  time.Duration
}

// New returns a sweeper over a ledger.
func New(l ledger.Orders, o Options) *Sweeper {
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.Batch <= 0 {
		o.Batch = defaultBatch
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = defaultCallTimeout
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return &Sweeper{ledger: l, opts: o, aside: make(map[sale.OrderID]pause), stuck: make(map[sale.Number]int)}
}

type nobody struct{}

func (nobody) Behind(time.Duration)        {}
func (nobody) Swept(int, int)              {}
func (nobody) Refused(sale.OrderID, error) {}

// Run sweeps at once and then after each pause until ctx ends, and returns nil
// then. A sweep under way is finished or rolled back.
func (s *Sweeper) Run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-pause.C:
			s.Sweep(ctx, now)
			pause.Reset(s.opts.Interval)
		}
	}
}

// Sweep ends every hold that is over, page by page, and returns how many. now
// is any steady clock; it only paces the orders set aside.
func (s *Sweeper) Sweep(ctx context.Context, now time.Time) int {
	ended := 0
	r := &round{now: now, stuck: make(map[sale.Number]bool)}
	for more := true; more && ctx.Err() == nil; {
		var n int
		var err error
		n, more, err = s.page(ctx, r)
		ended += n
		if err != nil {
			s.opts.Observer.Refused(sale.OrderID{}, err)
		}
	}
	for n := range s.stuck {
		if !r.stuck[n] {
			delete(s.stuck, n)
		}
	}
	for n := range r.stuck {
		s.stuck[n]++
	}
	s.opts.Observer.Swept(ended, len(s.aside))
	return ended
}

// round is one sweep.
type round struct {
	now   time.Time
	from  time.Time            // holds that ended before have been seen to
	stuck map[sale.Number]bool // sales that are left to the next sweep
}

// page ends one page of due holds, and reports whether there may be more. Orders set
// aside are skipped without eating into the page. Sales that were stuck come last in it,
// and once a sweep.
func (s *Sweeper) page(ctx context.Context, r *round) (ended int, more bool, err error) {
	limit := s.opts.Batch + len(s.aside)
	call, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	due, err := s.ledger.Due(call, r.from, limit)
	if err != nil {
		return 0, false, err
	}
	if r.from.IsZero() {
		s.opts.Observer.Behind(due.Overdue)
	}
	aside := len(s.aside)
	if r.from.IsZero() {
		s.forget(due.IDs)
	}
	groups := bySale(s.ready(due.IDs, r.now))
	for _, number := range slices.SortedFunc(maps.Keys(groups), func(a, b sale.Number) int {
		return cmp.Or(cmp.Compare(s.stuck[a], s.stuck[b]), cmp.Compare(a, b))
	}) {
		if r.stuck[number] {
			s.leave(groups[number], r.now)
			continue
		}
		n, err := s.end(ctx, groups[number], r)
		ended += n
		if err != nil {
			return ended, false, err
		}
	}
	// A page that moved nothing would come back the same.
	moved := ended > 0 || len(s.aside) > aside || due.Upto.After(r.from)
	r.from = due.Upto
	return ended, len(due.IDs) == limit && moved, nil
}

// ready returns the orders that are not set aside at now.
func (s *Sweeper) ready(ids []sale.OrderID, now time.Time) []sale.OrderID {
	out := make([]sale.OrderID, 0, len(ids))
	for _, id := range ids {
		if p, aside := s.aside[id]; !aside || !now.Before(p.until) {
			out = append(out, id)
		}
	}
	return out
}

// forget forgets those aside that are not among the due ones any more. The first page has
// room for all that is aside, which is due for longer than nearly all that is not.
func (s *Sweeper) forget(due []sale.OrderID) {
	seen := make(map[sale.OrderID]bool, len(due))
	for _, id := range due {
		seen[id] = true
	}
	maps.DeleteFunc(s.aside, func(id sale.OrderID, _ pause) bool { return !seen[id] })
}

func bySale(ids []sale.OrderID) map[sale.Number][]sale.OrderID {
	groups := make(map[sale.Number][]sale.OrderID)
	for _, id := range ids {
		groups[id.Sale()] = append(groups[id.Sale()], id)
	}
	return groups
}

// end ends the holds of one sale. Orders that the ledger refuses are found by
// halving and set aside; a sale that cannot be worked on at all waits for the
// next sweep, so that it never stops the others. Only the end of ctx is an error.
func (s *Sweeper) end(ctx context.Context, ids []sale.OrderID, r *round) (int, error) {
	ended, err := s.expire(ctx, ids)
	if err == nil {
		return ended, nil
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if !refusal(err) {
		s.trouble(ids, r, err)
		return 0, nil
	}
	ledger.Bisect(len(ids), func(from, to int) error {
		n, err := s.expire(ctx, ids[from:to])
		ended += n
		return err
	}, func(i int, err error) {
		switch {
		case ctx.Err() != nil:
		case refusal(err):
			s.setAside(ids[i], r.now, err)
		default: // the ledger broke down while it looked for the culprit
			s.trouble(ids[i:i+1], r, err)
		}
	})
	return ended, ctx.Err()
}

// refusal reports whether the ledger refused a row, or knows no such sale, as
// against being unable to answer.
func refusal(err error) bool {
	if errors.Is(err, ledger.ErrConstraint) {
		return true
	}
	_, coded := errors.AsType[*sale.Error](err)
	return coded
}

func (s *Sweeper) expire(ctx context.Context, ids []sale.OrderID) (int, error) {
	// Who was stuck has little time, so that the others need not wait for it, and all of
	// it now and then, should it have been too little.
	limit := s.opts.CallTimeout
	if tries := s.stuck[ids[0].Sale()]; tries%patientTry != 0 {
		limit = min(limit, s.opts.Interval)
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := s.ledger.Expire(call, ids)
	if err != nil && refusal(err) {
		return 0, errors.Join(ledger.ErrConstraint, err)
	}
	return n, err
}

// setAside leaves an order alone that the ledger refuses, each time for longer.
func (s *Sweeper) setAside(id sale.OrderID, now time.Time, why error) {
	s.opts.Observer.Refused(id, why)
	p, known := s.aside[id]
	if !known {
		p.next = firstPause
	}
	s.put(id, pause{until: now.Add(p.next), next: min(2*p.next, maxPause)})
}

// trouble leaves a sale alone that cannot be worked on now.
func (s *Sweeper) trouble(ids []sale.OrderID, r *round, why error) {
	if n := ids[0].Sale(); !r.stuck[n] {
		r.stuck[n] = true
		s.opts.Observer.Refused(sale.OrderID{}, fmt.Errorf("sale %d: %w", n, why))
	}
	s.leave(ids, r.now)
}

// leave leaves orders to the next sweep: trouble passes, and then the units must sell
// again within two seconds, however long it lasted.
func (s *Sweeper) leave(ids []sale.OrderID, now time.Time) {
	for _, id := range ids {
		s.put(id, pause{until: now.Add(s.opts.Interval), next: max(firstPause, s.aside[id].next)})
	}
}

func (s *Sweeper) put(id sale.OrderID, p pause) {
	if _, known := s.aside[id]; known || len(s.aside) < maxAside {
		s.aside[id] = p
	}
}
