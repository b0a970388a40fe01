package redislock

import (
	"errors"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/lock"
)

// reader takes an answer apart; the first thing that is not what it should be
// ends it.
type reader struct {
	op   string
	rest []rueidis.RedisMessage
	err  error
}

var errShape = errors.New("the answer has another shape")

func read(op string, msg *rueidis.RedisMessage) *reader {
	list, err := msg.ToArray()
	return &reader{op: op, rest: list, err: err}
}

func (r *reader) more() bool { return r.err == nil && len(r.rest) > 0 }

func (r *reader) next() *rueidis.RedisMessage {
	if r.err == nil && len(r.rest) == 0 {
		r.err = errShape
	}
	if r.err != nil {
		return &rueidis.RedisMessage{}
	}
	msg := &r.rest[0]
	r.rest = r.rest[1:]
	return msg
}

func (r *reader) number() int64 {
	msg := r.next()
	if r.err != nil {
		return 0
	}
	n, err := msg.AsInt64()
	r.err = err
	return n
}

func (r *reader) text() string {
	msg := r.next()
	if r.err != nil {
		return ""
	}
	text, err := msg.ToString()
	r.err = err
	return text
}

func (r *reader) fence() lock.Fence {
	n := r.number()
	if r.err == nil && n < 0 {
		r.err = errShape
	}
	return lock.Fence(n) //nolint:gosec // not negative
}

// done returns the error, if there was one. The call has been executed, but what
// came of it is unknown.
func (r *reader) done() error {
	if r.err == nil {
		return nil
	}
	return &lock.StoreError{Op: r.op, Permanent: true, Err: r.err}
}

func readGrant(msg *rueidis.RedisMessage) (lock.Grant, error) {
	r := read("acquire", msg)
	var g lock.Grant
	switch r.number() {
	case 1:
		if g.Fence = r.fence(); r.err == nil && g.Fence == 0 {
			r.err = errShape
		}
	case 2:
		g.Refused = true
	default:
		g.Left = left(r.number())
		g.Holder = lock.Owner(r.text())
		g.Waiters = int(r.number())
		g.First = r.number() == 1
	}
	return g, r.done()
}

func readOutcome(msg *rueidis.RedisMessage) (lock.Outcome, error) {
	r := read("release", msg)
	out := lock.Outcome{Released: r.number() == 1}
	for r.more() {
		out.Next = append(out.Next, lock.Handoff{Owner: lock.Owner(r.text()), Fence: r.fence()})
	}
	return out, r.done()
}

func readInfo(msg *rueidis.RedisMessage) (lock.Info, error) {
	r := read("inspect", msg)
	info := lock.Info{Waiters: int(r.number()), Fence: r.fence()}
	for r.more() {
		one := read("inspect", r.next())
		info.Holders = append(info.Holders, lock.Holder{
			Owner: lock.Owner(one.text()), Fence: one.fence(), Count: one.number(), Left: left(one.number()), Metadata: one.text(),
		})
		r.err = one.err
	}
	return info, r.done()
}
