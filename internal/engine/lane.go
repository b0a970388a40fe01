package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// lane is one slice of a sale as this instance sells it: the line in which its
// attempts gather, what may be answered from memory, and how far its counterpart
// in the fast counter has been seen. A sale on the direct path has one.
type lane struct {
	stand  *stand
	index  int
	line   line[ledger.Attempt, outcome]
	memory *memory
	mark   mark
	synced time.Time // when a batch had the lane's rules brought; by the line's goroutine alone
}

// mark is how far a lane has been seen; any goroutine may ask and tell.
type mark struct {
	mu   sync.Mutex
	mark stock.Mark
}

func (m *mark) of(epoch int64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark.Of(epoch)
}

func (m *mark) saw(epoch int64, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mark.Saw(epoch, seq)
}

func newLane(s *stand, index int) *lane {
	l := &lane{stand: s, index: index, memory: newMemory(s.items, s.opts.Alone)}
	l.line.rules, l.line.send = s.lines, l.send
	return l
}

// try is one attempt in the line of a lane.
type try = ticket[ledger.Attempt, outcome]

// outcome is what comes back for an attempt.
type outcome struct {
	ledger.Result // on the fast path without an order
	view          *View
	source        Source
	// slip is what the counter took or had recorded; quantity 0 is a tombstone.
	slip stock.Slip
	call callTime
}

// Why a batch is not decided yet.
var (
	// errMoved: the sale has moved on from what was known of it.
	errMoved = errors.New("engine: the sale has moved")
	// errTroubled: the lane must be built anew before it sells.
	errTroubled = errors.New("engine: the lane is out of order")
)

// maxMoves is how often a batch follows a sale that moves.
const maxMoves = 2

// send has one batch decided by the path in force. Where the sale has moved it is
// read again and the batch follows it.
func (l *lane) send(ctx context.Context, batch []*try) {
	ctx, cancel := context.WithTimeout(ctx, l.stand.opts.CallTimeout)
	defer cancel()
	v, err := l.stand.view(ctx)
	for moves := 0; err == nil; moves++ {
		batch = l.sendHome(ctx, v, batch)
		if len(batch) == 0 {
			return
		}
		if batch, err = l.decide(ctx, v, batch); err == nil {
			return
		}
		moved, troubled := errors.Is(err, errMoved), errors.Is(err, errTroubled)
		if !moved && !troubled {
			break
		}
		old := v
		if v, err = l.stand.later(ctx, v); err != nil {
			break
		}
		if moves == maxMoves || troubled && v.Epoch == old.Epoch {
			if v.Path == sale.PathFast {
				l.stand.trouble()
			}
			err = sale.Busy()
		}
	}
	for _, t := range batch {
		t.reply(outcome{}, err)
	}
}

// decide has the batch decided by one path. With an error it returns those that are
// not answered.
func (l *lane) decide(ctx context.Context, v *View, batch []*try) ([]*try, error) {
	if v.Path == sale.PathFast {
		return l.take(ctx, v, batch)
	}
	return batch, l.reserve(ctx, v, batch)
}

// sendHome hands the attempts of users who are at home in another lane to that,
// and returns the others. There are none unless the number of lanes has changed
// since they joined.
func (l *lane) sendHome(ctx context.Context, v *View, batch []*try) []*try {
	if l.index == 0 && lanesOf(v) == 1 {
		return batch
	}
	stay := batch[:0]
	for _, t := range batch {
		if to := home(v, t.ask.User); to != l.index {
			l.stand.lane(to).line.takeIn(ctx, t)
		} else {
			stay = append(stay, t)
		}
	}
	return stay
}

// lanesOf returns how many lanes a sale has on its present path.
func lanesOf(v *View) int {
	if v.Path != sale.PathFast {
		return 1
	}
	return max(1, len(v.Salts))
}

// home returns the index of the lane where a user's attempts are decided.
func home(v *View, user string) int {
	n := lanesOf(v)
	if n == 1 {
		return 0
	}
	return stock.Home(user, n)
}

// load has the holders read for memory, in the background and until the engine closes.
func (l *lane) load(ctx context.Context, v *View) {
	s := l.stand
	s.lines.calls.Go(func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.memory.patience(v, s.opts.CallTimeout))
		defer cancel()
		callOff := s.atEnd(cancel)
		defer callOff()
		var c census
		var err error
		if v.Path == sale.PathFast {
			c, err = l.holders(own, v)
		} else {
			c, err = l.buyers(own, v)
		}
		c.epoch = v.Epoch
		l.memory.loaded(&c, s.opts.Clock(), err)
	})
}

// stranger reports whether the user is known to have no order. The first question
// starts the loading of those who have; until it is done nobody is.
func (l *lane) stranger(ctx context.Context, v *View, user string) bool {
	known, load := l.memory.stranger(v, user, l.stand.opts.Clock())
	if load {
		l.load(ctx, v)
	}
	return known
}

// hashes returns the hash of each user who holds something after a batch, or may.
func hashes(batch []*try, held func(i int) bool) []uint64 {
	var out []uint64
	for i, t := range batch {
		if held(i) {
			out = append(out, sale.UserHash(t.ask.User))
		}
	}
	return out
}

func all(int) bool { return true }
