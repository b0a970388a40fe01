package httpapi

import (
	"context"
	"net/http"
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
	listener *listener
	number   sale.Number
	user     string              // empty for an anonymous one
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
	v, err := x.api.engine.Sale(ctx, x.r.PathValue("sale"))
	if err != nil {
		return err
	}
	s := &stream{x: x, out: http.NewResponseController(x.w), listener: newListener(), number: v.Number}
	var expired <-chan time.Time
	if x.who != nil {
		s.user = x.who.User
		life := time.NewTimer(time.Until(x.who.Until)) // then the token must be renewed
		defer life.Stop()
		expired = life.C
	}
	all, from := x.api.streams, bucket(x.api.clientIP(x.r))
	if err = all.admit(from, s.user); err != nil {
		return err
	}
	defer all.release(from, s.user)
	h, err := all.listen(ctx, v, s.listener)
	if err != nil {
		return err
	}
	defer h.leave(s.listener)
	orders, err := s.subscribe(ctx)
	if err != nil {
		return err
	}
	if s.own != nil {
		defer s.own.Close()
	}
	err = s.begin(ctx, orders)
	if err == nil {
		err = s.follow(ctx, h.done, expired)
	}
	if err != nil { // the client, if it is still there, comes back by itself
		x.api.metrics.StreamsCut.Inc()
	}
	return nil
}

// subscribe follows the buyer's orders, from Last-Event-ID on if there is one.
// Else it returns the orders to begin with.
func (s *stream) subscribe(ctx context.Context) ([]sale.Order, error) {
	if s.user == "" {
		return nil, nil
	}
	s.seen = make(map[sale.OrderID]int64)
	last, err := strconv.ParseUint(s.x.r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		last = 0
	}
	s.own, err = s.x.api.streams.feed.Subscribe(ctx, s.number, last, event.Buyer(s.user))
	if err != nil || last != 0 {
		return nil, err
	}
	orders, err := s.orders(ctx)
	if err != nil {
		s.own.Close()
	}
	return orders, err
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
	if err := s.out.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
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
func (s *stream) follow(ctx context.Context, gone <-chan struct{}, expired <-chan time.Time) error {
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
		case <-gone:
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
