package redislimit

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

const denyShards = 64

// denials remembers refusals. Times are nanoseconds of the limiter's clock.
type denials struct {
	longest int64 // ns; not positive remembers nothing
	seed    maphash.Seed
	shards  [denyShards]denyShard
}

type denyShard struct {
	mu       sync.Mutex
	room     int // for subjects
	subjects map[string][]denial
	// dropped counts what was forgotten on purpose: a refusal that was asked for
	// before is not learned any more.
	dropped uint64
	_       [64]byte
}

// denial is a refusal of a rate; a changed rate is another one. Equal rates may have
// several plans.
type denial struct {
	plan  *plan.Plan
	cost  int64
	until int64
	state limit.State
}

// by reports whether one of the plans is of the rate that refused.
func (k *denial) by(plans []*plan.Plan) bool {
	return slices.ContainsFunc(plans, func(p *plan.Plan) bool { return p == k.plan || p.Rate == k.plan.Rate })
}

func newDenials(longest int64, room int) *denials {
	d := &denials{longest: longest, seed: maphash.MakeSeed()}
	for i := range d.shards {
		d.shards[i].subjects = map[string][]denial{}
		d.shards[i].room = (room + denyShards - 1) / denyShards
	}
	return d
}

func (d *denials) shard(subject string) *denyShard {
	return &d.shards[maphash.String(d.seed, subject)%denyShards]
}

// denied returns the state of a rate that certainly refuses this cost now; of
// several, the one that does so for longest.
func (d *denials) denied(subject string, plans []*plan.Plan, cost, now int64) (limit.State, bool) {
	if d.longest <= 0 {
		return limit.State{}, false
	}
	s := d.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.subjects[subject]
	found := -1
	for i := range known {
		k := &known[i]
		if now < k.until && cost >= k.cost && k.by(plans) && (found < 0 || k.until > known[found].until) {
			found = i
		}
	}
	if found < 0 {
		return limit.State{}, false
	}
	out := known[found].state
	out.RetryAfter = left(known[found].until, now)
	return out, true
}

// version is to be taken before a call and handed to learn.
func (d *denials) version(subject string) uint64 {
	if d.longest <= 0 {
		return 0
	}
	s := d.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// refusal is what learn is told.
type refusal struct {
	subject string
	plan    *plan.Plan
	cost    int64
	state   limit.State
	sent    int64  // before the call
	version uint64 // then
}

// learn remembers a refusal. Its time begins before the call was sent, so it never
// ends later than the store's.
func (d *denials) learn(r refusal) {
	if d.longest <= 0 {
		return
	}
	s := d.shard(r.subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped != r.version {
		return
	}
	next := denial{plan: r.plan, cost: r.cost, until: r.sent + min(int64(r.state.RetryAfter), d.longest), state: r.state}
	known, ok := s.subjects[r.subject]
	if !ok {
		s.makeRoom()
		s.subjects[strings.Clone(r.subject)] = []denial{next}
		return
	}
	known = slices.DeleteFunc(known, func(k denial) bool { return k.until <= r.sent })
	i := slices.IndexFunc(known, func(k denial) bool { return k.plan.Rate == r.plan.Rate })
	switch {
	case i < 0 && len(known) < limit.MaxRates:
		known = append(known, next)
	case i < 0:
		known[0] = next
	case known[i].cost > next.cost || known[i].until < next.until: // what is known refuses less, or for less long
		known[i] = next
	}
	s.subjects[r.subject] = known
}

// makeRoom forgets subjects; any may go, as that costs only a call.
func (s *denyShard) makeRoom() {
	for subject := range s.subjects {
		if len(s.subjects) < s.room {
			return
		}
		delete(s.subjects, subject)
	}
}

// forget drops what is known of a subject.
func (d *denials) forget(subject string) {
	s := d.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped++
	delete(s.subjects, subject)
}
