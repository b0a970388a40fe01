package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// fate is what becomes of a call on its way.
type fate uint8

const (
	arrives fate = iota // carried out, and the answer arrives
	unheard             // carried out, and the answer is lost
	dropped             // lost before it was carried out
)

func (f fate) String() string { return [...]string{"arrives", "unheard", "dropped"}[f] }

// kind is what a call is sent to.
type kind uint8

const (
	toCounter kind = iota
	toRead         // the ledger, to look
	toWrite        // the ledger, to change something in one transaction
	toOwn          // the ledger, for a transaction that its caller leads through
	toHear         // an instance, with a piece of news
)

// call is one call that is on its way.
type call struct {
	from    *instance
	role    string // the part of the instance that calls
	name    string
	key     string // tells it from others, whenever they came
	kind    kind
	perform func() // carries it out
	show    func() string
	answer  chan fate
	left    bool // nobody waits for the answer any more
}

// wire is where every call of the real code waits until the scheduler has drawn
// what becomes of it.
type wire struct {
	mu      sync.Mutex
	pending []*call     // in order of key
	writing atomic.Bool // somebody leads a transaction through; others must wait
	heard   map[*instance][]func(stock.Message)
}

// errDead is what the calls of a dead instance get; nobody is there to read it.
var errDead = errors.New("sim: the instance is dead")

// errLost is trouble on the way to the ledger.
var errLost = errors.New("sim: the connection to the ledger is lost")

func (k kind) trouble() error {
	if k == toCounter {
		return fmt.Errorf("%w: the connection is lost", stock.ErrUnavailable)
	}
	return errLost
}

func (k kind) ended(ctx context.Context) error {
	if k == toCounter {
		return fmt.Errorf("%w: %w", stock.ErrUnavailable, context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// add puts a call on its way, unless its sender is dead.
func (w *wire) add(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.from.dead {
		return false
	}
	at, _ := slices.BinarySearchFunc(w.pending, c, func(a, b *call) int {
		if d := strings.Compare(a.key, b.key); d != 0 {
			return d
		}
		return -1 // behind its equals
	})
	w.pending = slices.Insert(w.pending, at, c)
	return true
}

// take removes a call from those on their way.
func (w *wire) take(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := slices.Index(w.pending, c); at >= 0 {
		w.pending = slices.Delete(w.pending, at, at+1)
	}
}

// port is where one part of an instance sends its calls.
type port struct {
	of   *instance
	role string
}

// expressKey marks the context of work that the scheduler itself does, in one
// piece: its calls do not wait.
type expressKey struct{}

// actionKey is where a context says for which action its calls are sent.
type actionKey struct{}

func express(ctx context.Context) bool { return ctx.Value(expressKey{}) != nil }

// sent describes a call to through.
type sent struct {
	kind kind
	name string
	args string
	lane int // of the counter's calls, the lane; noLane for those to none
}

// noLane marks calls of the counter that are about no lane.
const noLane = -1

// text tells a call from others of its sender's.
func (s *sent) text() string {
	if s.lane <= 0 {
		return s.name + s.args
	}
	return s.name + s.args + " l" + n(int64(s.lane))
}

// through sends a call and waits for what becomes of it.
func through[T any](ctx context.Context, p port, s sent, do func(context.Context) (T, error)) (T, error) {
	if express(ctx) {
		return do(ctx)
	}
	var none, out T
	var err error
	world := p.of.world
	mark, _ := ctx.Value(actionKey{}).(string)
	if p.role == ".e" && forAll(s.name) {
		mark = ""
	}
	c := &call{from: p.of, role: p.role, name: s.name, kind: s.kind, key: p.of.name + p.role + "." + s.text() + mark, answer: make(chan fate, 1)}
	c.perform = func() { //nolint:contextcheck // a call on its way outlives its sender
		if s.kind == toCounter && world.away(s.lane) {
			err = s.kind.trouble()
			return
		}
		out, err = do(context.Background())
	}
	c.show = func() string { return shown(out, err) }
	w := &world.wire
	if !w.add(c) {
		return none, errDead
	}
	patience := time.NewTimer(c.patience())
	defer patience.Stop()
	select {
	case f := <-c.answer:
		if f == arrives {
			return out, err
		}
		return none, s.kind.trouble()
	case <-patience.C:
		w.leave(c)
		return none, s.kind.trouble()
	case <-ctx.Done():
		w.leave(c)
		return none, s.kind.ended(ctx)
	}
}

// forAll reports whether an engine makes such calls for all who wait at once,
// whoever of them came first.
func forAll(name string) bool { return name == "Now" || name == "Sale" || name == "ListSales" }

// patience is how long a connection waits for an answer: less than its user does,
// and for no two calls the same time. Timers that end together wake their waiters
// in any order, and the run could not be repeated.
func (c *call) patience() time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.key))
	return 600*time.Millisecond + time.Duration(h.Sum32()%100_000_000)
}

// shown is a result for the reader. What differs from run to run is left out.
func shown(out any, err error) string {
	if _, reader := out.(ledger.Reader); reader {
		out = "a reader"
	}
	return fmt.Sprintf("%+v, %v", out, err)
}

// leave takes in that nobody waits for the answer to c any more.
func (w *wire) leave(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.left = true
}

// act sends a call that has no answer but its success.
func act(ctx context.Context, p port, s sent, do func(context.Context) error) error {
	_, err := through(ctx, p, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}
