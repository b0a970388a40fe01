package strategy

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"
)

const (
	group = "books"
	// claimAfter is how long a message may lie with a consumer that has died.
	claimAfter = 500 * time.Millisecond
	readBatch  = 100
	// readWait is how long one call waits for messages.
	readWait = 50 * time.Millisecond
)

// publishing is one process of luaPublish: a producer, and a consumer that brings what
// any process has produced into PostgreSQL, at least once and therefore once. Nothing is
// lost on this part of the way, whoever dies.
type publishing struct {
	w        *World
	outbox   chan message
	closing  chan struct{}
	produced chan struct{} // closed when the producer has ended
	work     sync.WaitGroup
}

func newPublishing(w *World) *publishing {
	s := &publishing{w: w, outbox: make(chan message, 1000), closing: make(chan struct{}), produced: make(chan struct{})}
	s.work.Go(s.produce)
	s.work.Go(s.consume)
	return s
}

// Close implements io.Closer. It sends what is in the outbox and consumes what is there.
func (s *publishing) Close() error {
	close(s.closing)
	s.work.Wait()
	return nil
}

// consume runs until Close, and then until the stream is empty or cannot be read.
func (s *publishing) consume() {
	me := newOwner()
	for {
		ctx, done := context.WithTimeout(context.Background(), workTime)
		entries, err := s.w.receive(ctx, me)
		if err == nil && len(entries) > 0 {
			err = s.w.record(ctx, entries)
		}
		if err != nil {
			_ = rest(ctx, readWait)
		}
		done()
		select {
		case <-s.produced:
			if len(entries) == 0 || err != nil {
				return
			}
		default:
		}
	}
}

// receive returns new messages, or those that a dead consumer has left.
func (w *World) receive(ctx context.Context, consumer string) ([]rueidis.XRangeEntry, error) {
	stream := w.key("stream")
	read, err := w.redis.Do(ctx, w.redis.B().Xreadgroup().Group(group, consumer).Count(readBatch).
		Block(readWait.Milliseconds()).Streams().Key(stream).Id(">").Build()).AsXRead()
	if err == nil {
		return read[stream], nil
	}
	if !rueidis.IsRedisNil(err) {
		return nil, err
	}
	claimed, err := w.redis.Do(ctx, w.redis.B().Xautoclaim().Key(stream).Group(group).Consumer(consumer).
		MinIdleTime(strconv.FormatInt(claimAfter.Milliseconds(), 10)).Start("0").Count(readBatch).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	return claimed[1].AsXRange()
}

// record inserts orders and takes their messages off the stream.
func (w *World) record(ctx context.Context, entries []rueidis.XRangeEntry) error {
	var batch pgx.Batch
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.ID)
		batch.Queue(insertOrder+` ON CONFLICT (id) DO NOTHING`, e.FieldValues["order"], e.FieldValues["buyer"], e.FieldValues["click"])
	}
	if err := w.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	for _, answer := range w.redis.DoMulti(ctx,
		w.redis.B().Xack().Key(w.key("stream")).Group(group).Id(ids...).Build(),
		w.redis.B().Xdel().Key(w.key("stream")).Id(ids...).Build(),
	) {
		if err := answer.Error(); err != nil {
			return err
		}
	}
	return nil
}

// quiet is how long the stream must be empty before it is taken for drained: what is in
// the hand of a producer nobody can see.
const quiet = 25 * linger

// drained waits until nothing comes over the stream any more.
func drained(ctx context.Context, w *World) error {
	empty := time.Now()
	for time.Since(empty) < quiet {
		n, err := w.redis.Do(ctx, w.redis.B().Xlen().Key(w.key("stream")).Build()).AsInt64()
		if err != nil {
			return err
		}
		if n > 0 {
			empty = time.Now()
		}
		if err := rest(ctx, againMax); err != nil {
			return err
		}
	}
	return nil
}
