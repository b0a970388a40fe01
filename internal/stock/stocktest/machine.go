package stocktest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// Agree makes the same random calls to two counters whose clocks show about the
// same time, and wants the same answers. Lanes must be unused and have one name.
func Agree(t *rapid.T, a, b World) {
	m := &machine{
		a: side{World: a, order: make(map[string]int)}, b: side{World: b, order: make(map[string]int)},
		key: sale.Key{4}, lane: a.Lane,
	}
	now, err := a.Counter.Clock(m.ctx(), a.Lane)
	require.NoError(t, err)
	m.base = time.UnixMilli(now.UnixMilli()).UTC()
	m.build(t)
	t.Repeat(map[string]func(*rapid.T){
		"take": m.take, "take more": m.take, "apply": m.apply, "return": m.giveBack, "sync": m.sync, "offset": m.offset,
		"give": m.give, "receive": m.receive, "want": m.want,
		"freeze": m.freeze, "load": m.load, "set": m.set, "unfreeze": m.unfreeze, "build": m.build, "clear": m.clear,
		"claim": m.claim, "take over": m.takeOver, "done": m.done, "retire": m.retire, "": m.compare,
	})
}

// side is one of the two counters.
type side struct {
	World
	order map[string]int // entries by id, in the order in which they came
	ids   []string
}

type machine struct {
	a, b  side
	lane  stock.Lane
	key   sale.Key
	base  time.Time
	epoch int64 // of the lane, where it was built
	token int64
	seen  uint64
	rules stock.Rules
}

// ctx is the context of the calls; that of a rapid.T ends with its step.
func (m *machine) ctx() context.Context { return context.Background() }

// both makes a call to both sides and compares what they say.
func both[T any](t *rapid.T, m *machine, call func(s *side) (T, error)) T {
	got, errA := call(&m.a)
	want, errB := call(&m.b)
	require.Equal(t, kindOf(errB), kindOf(errA), "%v and %v", errA, errB)
	require.Equal(t, want, got)
	return got
}

func (m *machine) both(t *rapid.T, call func(c stock.Counter) error) {
	both(t, m, func(s *side) (struct{}, error) { return struct{}{}, call(s.Counter) })
}

// kindOf returns what a caller can tell an error by.
func kindOf(err error) error {
	for _, kind := range []error{
		stock.ErrCold, stock.ErrFrozen, stock.ErrEpoch, stock.ErrTray, stock.ErrWanted, stock.ErrStale, stock.ErrInvalid, stock.ErrUnavailable,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}

// about hides what two clocks cannot agree on: times of just now.
func (m *machine) about(at *time.Time) {
	if at.After(m.base.Add(-time.Minute)) && at.Before(m.base.Add(time.Minute)) {
		*at = time.Time{}
	}
}

func (m *machine) user(t *rapid.T) string {
	return rapid.SampledFrom([]string{"u0", "u1", "u2\x00"}).Draw(t, "user")
}

func (m *machine) id(t *rapid.T, user string) sale.OrderID {
	return sale.DeriveOrderID(m.key, m.lane.Sale, user, rapid.SampledFrom([]string{"k0", "k1", "k2"}).Draw(t, "key"))
}

// mostly draws value, and something next to it once in a while.
func mostly(t *rapid.T, label string, value int64) int64 {
	return value + rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 0, 0, 0, -1, 1}).Draw(t, label)
}

func (m *machine) take(t *rapid.T) {
	c := stock.Call{
		Lane: m.lane, Epoch: mostly(t, "epoch", m.epoch), Terms: mostly(t, "terms", m.rules.Terms), AskedAt: m.base,
		Seen: uint64(max(0, mostly(t, "seen", int64(m.seen)))), //nolint:gosec // small
	}
	for range rapid.IntRange(0, 6).Draw(t, "attempts") {
		a := stock.Attempt{User: m.user(t), Item: rapid.IntRange(-1, 2).Draw(t, "item"), Quantity: rapid.Int64Range(0, 4).Draw(t, "quantity")}
		a.ID, a.OtherTerms = m.id(t, a.User), rapid.IntRange(0, 9).Draw(t, "other terms") == 0
		c.Attempts = append(c.Attempts, a)
	}
	r := both(t, m, func(s *side) (stock.Reply, error) {
		r, err := s.Counter.Take(m.ctx(), c)
		m.about(&r.At)
		for i := range r.Results {
			m.about(&r.Results[i].Record.TakenAt)
		}
		return r, err
	})
	m.seen = max(m.seen, r.Seq)
}

func (m *machine) act(t *rapid.T) stock.Act {
	a := stock.Act{
		Kind: rapid.SampledFrom([]stock.ActKind{stock.ActReturn, stock.ActAdopt}).Draw(t, "kind"), User: m.user(t),
		Item: rapid.IntRange(0, 1).Draw(t, "item"), Quantity: rapid.Int64Range(0, 3).Draw(t, "quantity"),
		Counted: rapid.Int64Range(0, 2).Draw(t, "counted"), TakenAt: m.base.Add(-time.Hour),
	}
	a.ID = m.id(t, a.User)
	switch rapid.IntRange(0, 9).Draw(t, "cool") {
	case 0:
		a.CoolUntil = m.base.Add(-time.Hour)
	case 1:
		a.CoolUntil = m.base.Add(time.Hour)
	case 2:
		a.ID, a.CoolUntil = sale.OrderID{}, m.base.Add(2*time.Hour)
	}
	return a
}

func (m *machine) acts(t *rapid.T) []stock.Act {
	out := make([]stock.Act, rapid.IntRange(0, 5).Draw(t, "acts"))
	for i := range out {
		out[i] = m.act(t)
	}
	return out
}

func (m *machine) apply(t *rapid.T) {
	standing, err := m.b.Counter.Read(m.ctx(), m.lane)
	require.NoError(t, err)
	a := stock.Acts{Epoch: mostly(t, "epoch", m.epoch), Acts: m.acts(t)}
	a.From = uint64(max(0, mostly(t, "from", int64(standing.Applied)))) //nolint:gosec // small
	a.To = a.From + uint64(len(a.Acts)) + 1
	for i := range a.Acts {
		a.Acts[i].Seq = a.From + 1 + uint64(i)
	}
	both(t, m, func(s *side) (uint64, error) { return s.Counter.Apply(m.ctx(), m.lane, a) })
}

func (m *machine) giveBack(t *rapid.T) {
	epoch, acts := mostly(t, "epoch", m.epoch), m.acts(t)
	for i := range acts {
		acts[i].Kind = stock.ActReturn
	}
	m.both(t, func(c stock.Counter) error { return c.Return(m.ctx(), m.lane, epoch, acts) })
}

func (m *machine) drawRules(t *rapid.T, version int64) stock.Rules {
	hour := time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, -9, 9}).Draw(t, "window")) * time.Hour
	return stock.Rules{
		Version: version, State: rapid.SampledFrom([]sale.State{sale.Published, sale.Published, sale.Paused, sale.Closed}).Draw(t, "state"),
		StartsAt: m.base.Add(hour - time.Hour), EndsAt: m.base.Add(hour + time.Hour),
		PerUserLimit: rapid.Int64Range(1, 4).Draw(t, "limit"), Terms: mostly(t, "terms", 5),
		Stock: []int64{rapid.Int64Range(0, 9).Draw(t, "stock"), rapid.Int64Range(0, 9).Draw(t, "stock")},
	}
}

func (m *machine) sync(t *rapid.T) {
	r, epoch := m.drawRules(t, mostly(t, "version", m.rules.Version+1)), mostly(t, "epoch", m.epoch)
	if rapid.IntRange(0, 9).Draw(t, "fewer items") == 0 {
		r.Stock = r.Stock[:1]
	}
	_, err := m.b.Counter.Read(m.ctx(), m.lane)
	require.NoError(t, err)
	version := both(t, m, func(s *side) (int64, error) { return s.Counter.Sync(m.ctx(), m.lane, epoch, r) })
	if version == r.Version && version > m.rules.Version {
		m.rules = r
	}
}

func (m *machine) offset(t *rapid.T) {
	epoch, offset := mostly(t, "epoch", m.epoch), time.Duration(rapid.Int64Range(-5, 5).Draw(t, "offset"))*time.Second
	m.both(t, func(c stock.Counter) error { return c.SetOffset(m.ctx(), m.lane, epoch, offset) })
}

// transfer draws a transfer, mostly the next one, between the lane and one of two
// others, above or below it.
func (m *machine) transfer(t *rapid.T, last func(s *stock.Standing, other int) uint64) (here, there stock.Transfer) {
	standing, err := m.b.Counter.Read(m.ctx(), m.lane)
	require.NoError(t, err)
	other := (m.lane.Index + rapid.IntRange(1, 2).Draw(t, "other")) % 3
	here = stock.Transfer{
		Epoch: mostly(t, "epoch", m.epoch), From: m.lane.Index, To: other, Item: rapid.IntRange(0, 2).Draw(t, "item"),
		Units:  rapid.Int64Range(1, 4).Draw(t, "units"),
		Number: uint64(max(0, mostly(t, "number", int64(last(&standing, other))+1))), //nolint:gosec // small
	}
	there = here
	there.From, there.To = here.To, here.From
	return here, there
}

func (m *machine) give(t *rapid.T) {
	transfer, _ := m.transfer(t, func(s *stock.Standing, other int) uint64 { return s.Given[other].Number })
	both(t, m, func(s *side) (stock.Transfer, error) { return s.Counter.Give(m.ctx(), m.lane, transfer) })
}

func (m *machine) receive(t *rapid.T) {
	_, transfer := m.transfer(t, func(s *stock.Standing, other int) uint64 { return s.Received[other] })
	m.both(t, func(c stock.Counter) error { return c.Receive(m.ctx(), m.lane, transfer) })
}

func (m *machine) want(t *rapid.T) {
	epoch, d := mostly(t, "epoch", m.epoch), time.Duration(rapid.IntRange(0, 1).Draw(t, "hours"))*time.Hour
	m.both(t, func(c stock.Counter) error { return c.Want(m.ctx(), m.lane, epoch, d) })
}

func (m *machine) freeze(t *rapid.T) {
	token := mostly(t, "token", m.token+1)
	s := both(t, m, func(s *side) (stock.Standing, error) { return s.Counter.Freeze(m.ctx(), m.lane, token) })
	m.token = max(m.token, s.FrozenBy)
}

func (m *machine) load(t *rapid.T) {
	token, acts := mostly(t, "token", m.token), m.acts(t)
	m.both(t, func(c stock.Counter) error { return c.Load(m.ctx(), m.lane, token, acts) })
}

func (m *machine) set(t *rapid.T) {
	token := mostly(t, "token", m.token)
	s := stock.Setting{Rules: m.drawRules(t, m.rules.Version+1), Applied: rapid.Uint64Range(0, 9).Draw(t, "applied"), MaxQueued: rapid.Int64Range(2, 9).Draw(t, "cap")}
	s.Left = []int64{s.Stock[0] - rapid.Int64Range(0, 3).Draw(t, "sold"), s.Stock[1]}
	var set bool
	m.both(t, func(c stock.Counter) error {
		err := c.Set(m.ctx(), m.lane, token, s)
		set = err == nil
		return err
	})
	if set {
		m.rules = s.Rules
	}
}

func (m *machine) unfreeze(t *rapid.T) {
	token := mostly(t, "token", m.token)
	var opened bool
	m.both(t, func(c stock.Counter) error {
		err := c.Unfreeze(m.ctx(), m.lane, token)
		opened = err == nil
		return err
	})
	if opened {
		m.epoch, m.seen = token, 0
	}
}

// build does all that a build does, so that lanes are open often.
func (m *machine) build(t *rapid.T) {
	m.freeze(t)
	m.load(t)
	m.set(t)
	m.unfreeze(t)
}

func (m *machine) clear(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "clear") > 0 {
		return
	}
	token := mostly(t, "token", m.token)
	m.both(t, func(c stock.Counter) error { return c.Clear(m.ctx(), m.lane, token) })
	m.seen = 0
}

// entry is an Entry without what differs by nature.
type entry struct {
	place  int // in the order of all entries
	fields map[string]string
}

func (s *side) plain(entries []stock.Entry) []entry {
	out := make([]entry, 0, len(entries))
	for i := range entries {
		place, known := s.order[entries[i].ID]
		if !known {
			place = len(s.ids)
			s.order[entries[i].ID] = place
			s.ids = append(s.ids, entries[i].ID)
		}
		fields := maps.Clone(entries[i].Fields)
		delete(fields, stock.FieldTaken)
		out = append(out, entry{place: place, fields: fields})
	}
	return out
}

func (m *machine) claim(t *rapid.T) {
	c := stock.Claim{Consumer: rapid.SampledFrom([]string{"c", "d"}).Draw(t, "consumer"), Max: rapid.IntRange(1, 3).Draw(t, "max")}
	both(t, m, func(s *side) ([]entry, error) {
		out, err := s.Counter.Claim(m.ctx(), m.lane, c)
		return s.plain(out), err
	})
}

func (m *machine) takeOver(t *rapid.T) {
	consumer, limit := rapid.SampledFrom([]string{"c", "d"}).Draw(t, "consumer"), rapid.IntRange(1, 3).Draw(t, "max")
	idle := rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(t, "idle")
	both(t, m, func(s *side) ([]entry, error) {
		out, err := s.Counter.TakeOver(m.ctx(), m.lane, consumer, idle, limit)
		return s.plain(out), err
	})
}

func (m *machine) done(t *rapid.T) {
	places := rapid.SliceOfN(rapid.IntRange(0, max(0, len(m.a.ids)-1)), 0, 4).Draw(t, "entries")
	both(t, m, func(s *side) (struct{}, error) {
		all, err := s.Counter.Look(m.ctx(), m.lane, "", 1000)
		require.NoError(t, err)
		s.plain(all)
		var entries []stock.Entry
		for _, p := range places {
			if p >= len(s.ids) {
				continue
			}
			e := stock.Entry{ID: s.ids[p]}
			if i := slices.IndexFunc(all, func(e stock.Entry) bool { return e.ID == s.ids[p] }); i >= 0 {
				e = all[i]
			}
			entries = append(entries, e)
		}
		return struct{}{}, s.Counter.Done(m.ctx(), m.lane, entries)
	})
}

func (m *machine) retire(t *rapid.T) {
	consumer := rapid.SampledFrom([]string{"c", "d"}).Draw(t, "consumer")
	m.both(t, func(c stock.Counter) error { return c.Retire(m.ctx(), m.lane, consumer) })
}

// compare looks at everything there is.
func (m *machine) compare(t *rapid.T) {
	both(t, m, func(s *side) (stock.Standing, error) { return s.Counter.Read(m.ctx(), m.lane) })
	both(t, m, func(s *side) ([]entry, error) {
		out, err := s.Counter.Look(m.ctx(), m.lane, "", 1000)
		return s.plain(out), err
	})
	both(t, m, func(s *side) (stock.Holders, error) {
		h, err := s.Counter.Holders(m.ctx(), m.lane)
		slices.Sort(h.Hashes)
		return h, err
	})
	for _, user := range []string{"u0", "u1", "u2\x00"} {
		both(t, m, func(s *side) (stock.Records, error) {
			r, err := s.Counter.Records(m.ctx(), m.lane, user)
			for i := range r.Orders {
				m.about(&r.Orders[i].TakenAt)
			}
			return r, err
		})
	}
}
