package event

import (
	"context"
	"errors"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Subscribe follows a sale from the row after a number, which is the Seq of the
// last event seen (Last-Event-ID). Zero means from now: every row committed after
// the call, and perhaps some from just before. A number too far behind, or
// above the end of the journal, gives a Reset and the rows from now on.
//
// CodeSaleNotFound if there is no such sale, ErrClosed after Close; other errors
// are the ledger's. ctx bounds the call, not the subscription.
func (f *Feed) Subscribe(ctx context.Context, n sale.Number, after uint64, who Audience) (*Subscription, error) {
	s, err := f.follow(ctx, n)
	if err != nil {
		return nil, err
	}
	defer f.unfollow(s)
	for {
		sub, why := f.join(s, after, who)
		switch why {
		case joined:
			return sub, nil
		case over:
			return nil, ErrClosed
		case behind:
			err = f.recall(ctx, s, after)
		case ahead:
			after, err = f.confirm(ctx, s, after)
		}
		if err != nil {
			return nil, err
		}
	}
}

// follow returns the stream of a sale, made if need be, and keeps it alive until
// unfollow.
func (f *Feed) follow(ctx context.Context, n sale.Number) (*stream, error) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, ErrClosed
	}
	s := f.streams[n]
	if s == nil {
		s = newStream(n)
		f.streams[n] = s
	}
	s.refs++
	opened := s.opened
	f.mu.Unlock()
	if opened {
		return s, nil
	}
	if err := f.open(ctx, s); err != nil {
		f.unfollow(s)
		return nil, err
	}
	return s, nil
}

// open finds where a new stream starts. Of many who come at once, one reads.
func (f *Feed) open(ctx context.Context, s *stream) error {
	release, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer release()
	if f.isOpen(s) {
		return nil
	}
	end, err := f.end(ctx, s.number)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.pos, s.opened = end, true
	f.nudgeMu.Lock()
	defer f.nudgeMu.Unlock()
	f.nudges[s.number] = true // rows may have come since end was read
	f.wakeUp()
	return nil
}

func (f *Feed) isOpen(s *stream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return s.opened
}

func (f *Feed) unfollow(s *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.refs--
	f.leave(s)
}

// leave forgets a stream that nobody follows. The caller holds mu.
func (f *Feed) leave(s *stream) {
	if s.refs > 0 || f.streams[s.number] != s {
		return
	}
	delete(f.streams, s.number)
	f.nudgeMu.Lock()
	defer f.nudgeMu.Unlock()
	delete(f.nudges, s.number)
}

// end returns the number of the last row of a sale's journal.
func (f *Feed) end(ctx context.Context, n sale.Number) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, f.opts.CallTimeout)
	defer cancel()
	return f.src.End(ctx, n)
}

// joining is how an attempt to join a stream went.
type joining int

const (
	joined joining = iota
	behind         // rows between after and the stream are not in memory
	ahead          // after is a row that the stream has not seen yet
	over           // the feed is closed
)

// unknown marks a place that is in no journal: the subscriber gets a Reset.
const unknown = ^uint64(0)

// join makes a subscriber, with everything it missed already in its channel.
func (f *Feed) join(s *stream, after uint64, who Audience) (*Subscription, joining) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var missed []*Event
	switch {
	case f.closed:
		return nil, over
	case after == 0:
		after = s.pos
	case after == unknown, after < s.pos && s.pos-after > uint64(f.opts.Replay): //nolint:gosec // positive
		missed = []*Event{{Entry: ledger.Entry{Sale: s.number, Seq: s.pos}, Reset: true}}
		after = s.pos
	case after > s.pos && after > s.end:
		return nil, ahead
	case after < s.low():
		return nil, behind
	default:
		missed = s.missed(after, who)
	}
	sub := &Subscription{feed: f, stream: s, who: who, from: after, events: make(chan *Event, len(missed)+f.opts.Buffer)}
	for _, e := range missed {
		sub.events <- e
	}
	s.add(sub)
	return sub, joined
}

// confirm reads the journal's end and returns after, or unknown if it lies
// beyond.
func (f *Feed) confirm(ctx context.Context, s *stream, after uint64) (uint64, error) {
	end, err := f.end(ctx, s.number)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.end = max(s.end, end)
	if after > end {
		return unknown, nil
	}
	return after, nil
}

var errGap = errors.New("event: the journal has a gap")

// recall reads rows after a number back into the stream's memory. Of many who
// ask at once, one reads.
func (f *Feed) recall(ctx context.Context, s *stream, after uint64) error {
	release, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer release()
	f.mu.Lock()
	low := s.low()
	f.mu.Unlock()
	var old []*Event
	for after < low {
		rows, err := f.rows(ctx, s.number, after, int(min(low-after, pageRows)))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return errGap
		}
		old = append(old, wrap(rows)...)
		after = rows[len(rows)-1].Seq
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.prepend(old)
	return nil
}
