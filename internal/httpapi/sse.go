package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// maxShown bounds the orders with which a buyer's stream begins.
const maxShown = 100

// stream is one open event stream.
type stream struct {
	x        *exchange
	out      *http.ResponseController
	from     netip.Prefix
	user     string // empty for an anonymous one
	number   sale.Number
	listener *listener
	hub      *hub                // nil until it is joined
	own      *event.Subscription // the buyer's orders; nil for an anonymous one
	seen     map[sale.OrderID]int64
	buf      []byte
}

// streamSale follows a sale and, for a buyer, his own orders in it.
//
//	event: sale    the sale as everybody sees it, at once and whenever it has changed
//	event: order   an order of the buyer as it is now, after each transition
//
// The id of an order's message is the number of the journal row that caused it.
// A stream that comes back with it in Last-Event-ID gets what it has missed; a
// new one, or one that has missed too much, begins with all of the buyer's orders.
func streamSale(ctx context.Context, x *exchange) error {
	s := &stream{
		x: x, out: http.NewResponseController(x.w), from: bucket(x.api.clientIP(x.r)),
		listener: newListener(), seen: make(map[sale.OrderID]int64),
	}
	var expired <-chan time.Time
	if x.who != nil {
		s.user = x.who.User
		life := time.NewTimer(time.Until(x.who.Until)) // then the token must be renewed
		defer life.Stop()
		expired = life.C
	}
	if err := x.api.streams.admit(s.from, s.user); err != nil {
		return err
	}
	defer s.close()
	orders, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err = s.begin(ctx, orders); err == nil && x.r.Method != http.MethodHead { // which asks for the header only
		err = s.follow(ctx, expired)
	}
	if err != nil { // the client, if it is still there, comes back by itself
		x.api.metrics.StreamsCut.Inc()
	}
	return nil
}

// open joins the sale's hub and follows the buyer's orders, from Last-Event-ID
// on if there is one; else it returns the orders to begin with. It takes a place
// among the reads, so that a crowd coming back does not fall upon the ledger.
func (s *stream) open(ctx context.Context) ([]sale.Order, error) {
	a := s.x.api
	if err := a.classes.read.enter(ctx); err != nil {
		return nil, err
	}
	defer a.classes.read.leave()
	v, err := a.engine.Sale(ctx, s.x.r.PathValue("sale"))
	if err != nil {
		return nil, err
	}
	s.number = v.Number
	if s.hub, err = a.streams.listen(ctx, v, s.listener); err != nil || s.user == "" {
		return nil, err
	}
	last, err := strconv.ParseUint(s.x.r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		last = 0
	}
	s.own, err = a.streams.feed.Subscribe(ctx, s.number, last, event.Buyer(s.user))
	if err != nil || last != 0 {
		return nil, err
	}
	return s.orders(ctx)
}

// close gives back whatever the stream has taken.
func (s *stream) close() {
	if s.own != nil {
		s.own.Close()
	}
	if s.hub != nil {
		s.hub.leave(s.listener)
	}
	s.x.api.streams.release(s.from, s.user)
}

func (s *stream) orders(ctx context.Context) ([]sale.Order, error) {
	return s.x.api.ledger.ListOrders(ctx, ledger.OrderFilter{Sale: s.number, User: s.user, Limit: maxShown})
}

// begin sends the header and what the stream starts with.
func (s *stream) begin(ctx context.Context, orders []sale.Order) error {
	h := s.x.w.Header()
	h["Content-Type"] = []string{typeEvents}
	h["X-Accel-Buffering"] = []string{"no"} // proxies must not gather messages
	h[headerTime] = []string{strconv.FormatInt(s.x.api.engine.Now().UnixMilli(), 10)}
	s.x.status = http.StatusOK
	s.x.w.WriteHeader(http.StatusOK)
	if err := s.write([]byte("retry: 2000\n\n")); err != nil {
		return err
	}
	if err := s.tell(s.listener.take()); err != nil {
		return err
	}
	return s.sendOrders(ctx, orders, 0)
}

// follow writes what comes up until somebody ends the stream. It returns an
// error if the stream could not go on.
func (s *stream) follow(ctx context.Context, expired <-chan time.Time) error {
	beat := time.NewTicker(s.x.api.opts.Streams.Heartbeat)
	defer beat.Stop()
	var own <-chan *event.Event
	if s.own != nil {
		own = s.own.Events()
	}
	for {
		var err error
		select {
		case <-s.listener.wake:
			err = s.tell(s.listener.take())
		case e, open := <-own:
			if !open {
				return s.own.Err()
			}
			err = s.heard(ctx, e)
		case <-beat.C:
			err = s.write([]byte(":\n\n"))
		case <-expired:
			return nil
		case <-s.hub.done:
			return nil
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// tell writes the sale.
func (s *stream) tell(f *frame) error {
	if f == nil {
		return nil
	}
	s.x.api.metrics.StreamMessages.Inc()
	return s.write(f.text)
}

// heard writes what a row of the journal means to the buyer.
func (s *stream) heard(ctx context.Context, e *event.Event) error {
	switch {
	case e.Reset:
		orders, err := s.orders(ctx)
		if err != nil {
			return err
		}
		return s.sendOrders(ctx, orders, e.Seq)
	case e.Kind.OfOrder():
		o, err := s.x.api.engine.Order(ctx, e.Order, s.user)
		if err != nil {
			return err
		}
		return s.sendOrder(&o, e.Seq)
	}
	return nil // acts on the sale are seen in the sale
}

// sendOrders writes orders, given newest first, from the oldest on.
func (s *stream) sendOrders(ctx context.Context, orders []sale.Order, id uint64) error {
	for i := len(orders) - 1; i >= 0 && ctx.Err() == nil; i-- {
		if err := s.sendOrder(&orders[i], id); err != nil {
			return err
		}
	}
	return nil
}

// sendOrder writes an order as it is now, unless it has been told already. id 0
// is none.
func (s *stream) sendOrder(o *sale.Order, id uint64) error {
	if o.Version <= s.seen[o.ID] {
		return nil
	}
	s.seen[o.ID] = o.Version
	s.buf = append(s.buf[:0], message("order", render(ownOrder(o)))...)
	if id != 0 {
		s.buf = strconv.AppendUint(append(s.buf, "id: "...), id, 10)
		s.buf = append(s.buf, '\n')
	}
	s.buf = append(s.buf, '\n')
	s.x.api.metrics.StreamMessages.Inc()
	return s.write(s.buf)
}

// write sends bytes, or gives up on a reader who does not take them.
func (s *stream) write(b []byte) error {
	if err := s.out.SetWriteDeadline(time.Now().Add(s.x.api.opts.Streams.Write)); err != nil {
		return err
	}
	if _, err := s.x.w.Write(b); err != nil {
		return err
	}
	return s.out.Flush()
}
