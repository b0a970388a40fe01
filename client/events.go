package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is one message of a sale's stream.
type Event struct {
	// ID names the place in the stream; empty for messages that have none.
	ID string
	// Type says what Data is: sale (a Sale) or order (an Order, as it is now).
	// Others may come to exist and should be passed over.
	Type string
	Data json.RawMessage
}

// The types of events.
const (
	EventSale  = "sale"
	EventOrder = "order"
)

const (
	// silence is how long a stream may be still before it counts as dead: the
	// server sends a heartbeat every 15 s.
	silence    = 45 * time.Second
	maxMessage = 1 << 20
)

// Events follows the stream of a sale from the message after lastID (empty:
// from now). A stream that breaks or falls silent is opened again after the
// last message seen, so none is lost while the server still has it; one may
// come twice. With a buyer's token it carries the buyer's own orders too.
//
// The walk ends when ctx does or when the server refuses for good (ErrSaleNotFound
// and the like); the last pair then carries the error.
func (c *Client) Events(ctx context.Context, sale, lastID string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s := stream{client: c, sale: sale, lastID: lastID, pause: c.retry.Pause}
		for failures := 0; ; {
			err := s.follow(ctx, yield)
			if errors.Is(err, errEnough) {
				return
			}
			if s.delivered {
				failures = 0
			}
			failures++
			if stop := s.fatal(ctx, err); stop != nil {
				yield(Event{}, stop)
				return
			}
			asked := max(err.RetryAfter, s.pause)
			if !wait(ctx, max(asked, c.pause(min(failures, maxDoublings), 0))) {
				yield(Event{}, ended(ctx, err))
				return
			}
		}
	}
}

const (
	errEnough CodeError = "enough" // the caller has left the loop

	maxDoublings = 10
)

// stream is the state of one walk over its connections.
type stream struct {
	client    *Client
	sale      string
	lastID    string
	pause     time.Duration // before a reconnect, as the server asks in "retry:"
	delivered bool          // the present connection has brought a message
}

// fatal returns the error that ends the walk, or nil if it goes on.
func (s *stream) fatal(ctx context.Context, err *Error) error {
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	if err.Status >= 400 && err.Status < 500 && err.Status != http.StatusTooManyRequests {
		return err
	}
	if CodeError(err.Code) == ErrInvalid {
		return err
	}
	return nil
}

// follow opens one connection and reads it to its end. The error is never nil.
func (s *stream) follow(ctx context.Context, yield func(Event, error) bool) *Error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.delivered = false
	// The watchdog ends a connection on which nothing arrives any more.
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()

	k := get("v1", "sales", s.sale, "events").set("Accept", "text/event-stream")
	if s.lastID != "" {
		k = k.set("Last-Event-ID", s.lastID)
	}
	req, failed := s.client.request(ctx, k)
	if failed != nil {
		return failed
	}
	resp, err := s.client.http.Do(req)
	if err != nil {
		return sendError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if failed := s.accept(resp); failed != nil {
		return failed
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(make([]byte, 0, 4096), maxMessage)
	m := message{id: s.lastID}
	for in.Scan() {
		watchdog.Reset(silence)
		e, complete := m.line(in.Text())
		if m.retry > 0 {
			s.pause = m.retry
		}
		if !complete {
			continue
		}
		s.lastID, s.delivered = m.id, true
		if !yield(e, nil) {
			return own(errEnough, "", "", nil)
		}
	}
	if err := in.Err(); err != nil {
		return own(ErrNoAnswer, "the stream broke off", "", err)
	}
	return own(ErrNoAnswer, "the server ended the stream", "", nil)
}

// accept returns the error that stands in place of a stream, or nil.
func (s *stream) accept(resp *http.Response) *Error {
	a := answer{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode == http.StatusOK {
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			return nil
		}
		return badAnswer(a, errors.New("not a stream of events"))
	}
	a.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxMessage)) // what there is of it decides
	if e := refusal(a); e != nil {
		return e
	}
	return badAnswer(a, errors.New("status "+strconv.Itoa(a.status)))
}

// message gathers the lines of one event; see the WHATWG HTML standard,
// "Server-sent events", section 9.2.6.
type message struct {
	id    string // stays for the messages that follow
	kind  string
	data  []string
	retry time.Duration
}

// line takes one line and reports whether it completed an event.
func (m *message) line(text string) (Event, bool) {
	if text == "" {
		return m.dispatch()
	}
	name, value, _ := strings.Cut(text, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		m.kind = value
	case "data":
		m.data = append(m.data, value)
	case "id":
		if !strings.Contains(value, "\x00") {
			m.id = value
		}
	case "retry":
		if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
			m.retry = time.Duration(ms) * time.Millisecond
		}
	}
	return Event{}, false
}

func (m *message) dispatch() (Event, bool) {
	kind, data := m.kind, m.data
	m.kind, m.data = "", nil
	if len(data) == 0 {
		return Event{}, false
	}
	if kind == "" {
		kind = "message"
	}
	return Event{ID: m.id, Type: kind, Data: json.RawMessage(strings.Join(data, "\n"))}, true
}
