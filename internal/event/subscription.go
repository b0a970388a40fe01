package event

import (
	"encoding/json"
	"errors"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// Reasons for which a stream ends.
var (
	// ErrClosed says that the feed has ended.
	ErrClosed = errors.New("event: the feed is closed")
	// ErrSlow says that the subscriber did not keep up and was cut off. It may
	// subscribe again from the last row it saw.
	ErrSlow = errors.New("event: the subscriber did not keep up")
)

// Audience says which rows a subscriber gets. The zero value is Public.
type Audience struct{ user string }

// Public is for anybody: rows about the sale itself, none about orders.
func Public() Audience { return Audience{} }

// Buyer is Public and the rows about the orders of one user. Rows about refund
// records are for nobody here: they are the shop's affair and name no user.
func Buyer(user string) Audience { return Audience{user: user} }

// wants reports whether the audience gets the event.
func (a Audience) wants(e *Event) bool {
	return e.Kind.OfSale() || a.user != "" && e.buyer() == a.user
}

// Event is one journal row on its way to subscribers, who share it and must not
// change it.
type Event struct {
	ledger.Entry

	// Reset says that rows were left out before this place: of the Entry only
	// Sale and Seq are set, and what the subscriber knows is to be read anew.
	Reset bool

	// Whose order it is, found at the first look. Guarded by Feed.mu.
	looked bool
	user   string
}

// buyer returns the user whose order the row is about; empty for other rows.
// The caller holds Feed.mu.
func (e *Event) buyer() string {
	if !e.looked && e.Kind.OfOrder() {
		var body struct {
			User string `json:"user"`
		}
		// A body that cannot be read has no buyer; the audit reports it.
		if json.Unmarshal(e.Body, &body) == nil {
			e.user = body.User
		}
	}
	e.looked = true
	return e.user
}

// Subscription is one subscriber's end of a stream.
type Subscription struct {
	feed   *Feed
	stream *stream
	who    Audience
	from   uint64 // rows up to it are not for this subscriber
	events chan *Event
	err    error // why the channel was closed; guarded by Feed.mu
}

// Events returns the channel of events. It closes when the stream ends; Err then
// says why.
func (s *Subscription) Events() <-chan *Event { return s.events }

// Err returns why the channel was closed: ErrSlow, ErrClosed, or nil after
// Close and while it is open.
func (s *Subscription) Err() error {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return s.err
}

// Close ends the subscription. Events already in the channel stay there.
// Repeated, it does nothing.
func (s *Subscription) Close() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.end(nil)
}

// end leaves the stream for a reason. The caller holds Feed.mu.
func (s *Subscription) end(why error) {
	if s.stream.remove(s) {
		s.err = why
		close(s.events)
		s.feed.leave(s.stream)
	}
}
