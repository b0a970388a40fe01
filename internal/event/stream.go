package event

import (
	"context"
	"maps"
	"slices"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// crowd is a set of subscribers.
type crowd map[*Subscription]struct{}

// stream is one sale that somebody follows. Feed.mu guards it.
type stream struct {
	number sale.Number
	opened bool     // pos is known
	pos    uint64   // the last row handed out
	end    uint64   // a row known to exist; may be ahead of pos
	recent []*Event // the rows up to pos, without gaps; at most twice Options.Replay
	// refs counts who keeps the stream alive: subscribers, and those on their way.
	refs int
	// reading is held (a token in it) by whoever reads for the stream, but for Run.
	reading chan struct{}

	all    crowd            // every subscriber: rows about the sale
	buyers map[string]crowd // those of Buyer, by user: rows about their orders
}

func newStream(n sale.Number) *stream {
	return &stream{
		number: n, reading: make(chan struct{}, 1),
		all: make(crowd), buyers: make(map[string]crowd),
	}
}

// reader waits until nobody else reads for the stream.
func (s *stream) reader(ctx context.Context) (release func(), err error) {
	select {
	case s.reading <- struct{}{}:
		return func() { <-s.reading }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// low returns the row before the first recent one.
func (s *stream) low() uint64 { return s.pos - uint64(len(s.recent)) }

func (s *stream) add(sub *Subscription) {
	s.refs++
	s.all[sub] = struct{}{}
	if sub.who.user == "" {
		return
	}
	if s.buyers[sub.who.user] == nil {
		s.buyers[sub.who.user] = make(crowd)
	}
	s.buyers[sub.who.user][sub] = struct{}{}
}

// remove reports whether the subscriber was there.
func (s *stream) remove(sub *Subscription) bool {
	if _, there := s.all[sub]; !there {
		return false
	}
	s.refs--
	delete(s.all, sub)
	if same := s.buyers[sub.who.user]; same != nil {
		delete(same, sub)
		if len(same) == 0 {
			delete(s.buyers, sub.who.user)
		}
	}
	return true
}

// pass hands one new row to everybody it is meant for.
func (s *stream) pass(e *Event, keep int) {
	s.pos = e.Seq
	if len(s.recent) >= 2*keep {
		s.recent = slices.Clone(s.recent[len(s.recent)-keep:])
	}
	s.recent = append(s.recent, e)
	switch {
	case e.Kind.OfSale():
		s.offer(s.all, e)
	case len(s.buyers) > 0: // else nobody asks whose order it is
		s.offer(s.buyers[e.buyer()], e)
	}
}

// offer gives the event to each of them; whoever has no room is cut off.
func (s *stream) offer(to crowd, e *Event) {
	var slow []*Subscription
	for sub := range to {
		if e.Seq <= sub.from {
			continue
		}
		select {
		case sub.events <- e:
		default:
			slow = append(slow, sub)
		}
	}
	for _, sub := range slow {
		sub.end(ErrSlow)
		sub.feed.opts.Observer.CutOff(s.number)
	}
}

// missed returns the recent rows after one that are meant for an audience.
func (s *stream) missed(after uint64, who Audience) []*Event {
	var out []*Event
	for _, e := range s.recent {
		if e.Seq > after && who.wants(e) {
			out = append(out, e)
		}
	}
	return out
}

// prepend puts older rows before the recent ones, if they still fit there.
func (s *stream) prepend(old []*Event) {
	if len(old) > 0 && old[len(old)-1].Seq == s.low() {
		s.recent = slices.Concat(old, s.recent)
	}
}

// close ends every subscription.
func (s *stream) close(why error) {
	for _, sub := range slices.Collect(maps.Keys(s.all)) {
		sub.end(why)
	}
}

func wrap(rows []ledger.Entry) []*Event {
	out := make([]*Event, len(rows))
	for i := range rows {
		out[i] = &Event{Entry: rows[i]}
	}
	return out
}
