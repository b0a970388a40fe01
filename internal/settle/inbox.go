package settle

import (
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// inbox holds what has been claimed while the batch before it is with the ledger.
type inbox struct {
	limit int           // slips from which on nothing more is claimed
	ready chan struct{} // one token: there is something to take
	room  chan struct{} // one token: something was taken

	mu     sync.Mutex
	papers []*paper
	slips  int
	held   map[string]bool // entries in the inbox or on the bench
	// since is when the ledger was last called, zero while it is not; troubled says
	// that the last call failed.
	since    time.Time
	troubled bool
}

func newInbox(limit int) *inbox {
	return &inbox{
		limit: limit, ready: make(chan struct{}, 1), room: make(chan struct{}, 1), held: make(map[string]bool),
	}
}

// put adds what r reads from entries, but for those that are here already: a slow
// call makes a worker take over from itself. It returns how many slips came.
func (in *inbox) put(r *reader, entries []stock.Entry) (slips int) {
	for _, e := range entries {
		if in.holds(e.ID) {
			continue
		}
		p := r.read(e)
		slips += p.open
		in.mu.Lock()
		in.held[e.ID] = true
		in.papers = append(in.papers, p)
		in.slips += p.open
		in.mu.Unlock()
	}
	return slips
}

func (in *inbox) holds(id string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.held[id]
}

// take empties the inbox.
func (in *inbox) take() []*paper {
	in.mu.Lock()
	papers := in.papers
	in.papers, in.slips = nil, 0
	in.mu.Unlock()
	signal(in.room)
	return papers
}

// release forgets entries that are off the tray.
func (in *inbox) release(entries []stock.Entry) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range entries {
		delete(in.held, entries[i].ID)
	}
}

// space returns how many more slips should come: none while the ledger is in
// trouble, for another worker may reach it.
func (in *inbox) space() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.troubled {
		return 0
	}
	return in.limit - in.slips
}

// begin and end note a round of calls.
func (in *inbox) begin(now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.since = now
}

func (in *inbox) end(err error) {
	in.mu.Lock()
	in.since, in.troubled = time.Time{}, err != nil
	in.mu.Unlock()
	signal(in.room)
}

// stuck reports whether a round has taken longer than limit at now.
func (in *inbox) stuck(now time.Time, limit time.Duration) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return !in.since.IsZero() && now.Sub(in.since) > limit
}

// signal leaves a token, unless one is there already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
