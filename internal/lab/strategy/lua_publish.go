package strategy

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// luaPublish is the design of the textbooks for high load: the script sells, the buyer is
// told yes, and a message for the database goes to a queue. A producer sends messages in
// batches, as all producers do, some milliseconds after they were handed to it. Whatever
// dies with a process between script and queue is a sale that nobody knows of but the
// buyer who was told, and the counter, which has one unit less for ever. Acknowledged
// sending makes the gap smaller; only to record the sale in the script that makes it
// closes it.
func luaPublish() Strategy {
	return Strategy{
		Info: Info{
			Name: "lua_publish", Title: "A script, then a message to a stream",
			Fault: "one of the two processes is killed before it sends a batch, at its 10th sale",
			Why: "The script and the message are two steps. A process that dies between them takes sales with it: " +
				"buyers were told yes and have no order, their units are gone, and if they try again they are told that they have one.",
			Expect: Fails, Accident: Undersold, Redis: true,
		},
		counts: true,
		prepare: func(ctx context.Context, w *World, stock int64) error {
			if err := prepareCounter(ctx, w, stock); err != nil {
				return err
			}
			return w.redis.Do(ctx, w.redis.B().XgroupCreate().Key(w.key("stream")).Group(group).Id("0").Mkstream().Build()).Error()
		},
		open:   func(w *World) (Shop, error) { return newPublishing(w), nil },
		settle: drained,
	}
}

// linger is how long a producer collects messages before it sends them.
const linger = 20 * time.Millisecond

// message is an order on its way to the database.
type message struct {
	order string
	click Click
}

// Buy implements Shop.
func (s *publishing) Buy(ctx context.Context, c Click) (string, error) {
	calls, done := working(ctx)
	defer done()
	if err := s.w.count(calls, c.Buyer); err != nil {
		return "", err
	}
	m := message{newOrder(), c}
	select {
	case s.outbox <- m:
		return m.order, nil
	case <-s.closing:
		return "", sale.Busy()
	}
}

// Cancel implements Shop. The order may still be on its way.
func (s *publishing) Cancel(ctx context.Context, order string) error {
	for {
		err := (scripted{s.w}).Cancel(ctx, order)
		if err == nil || rest(ctx, againMax) != nil {
			return err
		}
	}
}

// produce sends what is in the outbox, batch by batch, until Close.
func (s *publishing) produce() {
	defer close(s.produced)
	for {
		var batch []message
		select {
		case m := <-s.outbox:
			batch = append(batch, m)
		case <-s.closing:
			if len(s.outbox) == 0 {
				return
			}
		}
		_ = rest(context.Background(), linger)
		for len(s.outbox) > 0 {
			batch = append(batch, <-s.outbox)
		}
		s.w.crash(context.Background(), int64(len(batch)))
		s.send(batch)
	}
}

// send puts a batch on the stream. What was not confirmed is sent again: the consumer
// knows an order that comes twice.
func (s *publishing) send(batch []message) {
	ctx, done := context.WithTimeout(context.Background(), workTime)
	defer done()
	for len(batch) > 0 && ctx.Err() == nil {
		adds := make(rueidis.Commands, 0, len(batch))
		for _, m := range batch {
			adds = append(adds, s.w.redis.B().Xadd().Key(s.w.key("stream")).Id("*").FieldValue().
				FieldValue("order", m.order).FieldValue("buyer", m.click.Buyer).FieldValue("click", m.click.Key).Build())
		}
		var again []message
		for i, answer := range s.w.redis.DoMulti(ctx, adds...) {
			if answer.Error() != nil {
				again = append(again, batch[i])
			}
		}
		if batch = again; len(batch) > 0 {
			_ = rest(ctx, linger)
		}
	}
}
