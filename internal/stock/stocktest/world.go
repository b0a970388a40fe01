package stocktest

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// World is a counter with a lane that nobody has used. Each case gets its own.
type World struct {
	Counter stock.Counter
	Lane    stock.Lane
	// Others are two more lanes of the same sale; nil for a counter that is examined
	// with one alone.
	Others []stock.Lane
	// Advance moves the clock of the lane, where it is in the examiner's hand; nil
	// where it is the world's.
	Advance func(d time.Duration)
	// Faults says what the world can make go wrong; nil members cannot be asked of
	// it, and the cases that need them are left out.
	Faults Faults
}

// Part is a part of a lane's data.
type Part string

// The parts of a lane.
const (
	PartMeta   Part = "meta"
	PartTray   Part = "tray"
	PartBuyers Part = "buyers"
)

// Faults are capabilities of a World. All are about its lane.
type Faults struct {
	// LoseReply makes the next change, claim or message happen and its answer be
	// lost. end takes back what has not come.
	LoseReply func() (end func())
	// Spoil puts something of another kind in the place of a part of the lane in
	// this epoch, until mend.
	Spoil func(t *testing.T, p Part, epoch int64) (mend func())
	// Forget loses the lane's meta.
	Forget func(t *testing.T)
	// Plant puts an entry of any fields into the tray and returns its id.
	Plant func(t *testing.T, fields map[string]string) string
	// Trim deletes an entry of the tray behind its consumer's back.
	Trim func(t *testing.T, id string)
}

// MemWorld returns a world over a fresh Mem, with every capability that it has.
func MemWorld(*testing.T) World {
	start := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	var passed atomic.Int64
	m := NewMem(func() time.Time { return start.Add(time.Duration(passed.Load())) })
	l := stock.Lane{Sale: 7, Index: 1, Salt: 42}
	return World{
		Counter: m, Lane: l, Others: []stock.Lane{{Sale: 7, Index: 0, Salt: 41}, {Sale: 7, Index: 2, Salt: 43}},
		Advance: func(d time.Duration) { passed.Add(int64(d)) },
		Faults: Faults{
			LoseReply: func() func() {
				m.LoseReply()
				return m.KeepReplies
			},
			Forget: func(*testing.T) { m.Forget(l) },
			Plant:  func(_ *testing.T, fields map[string]string) string { return m.Plant(l, fields) },
			Trim:   func(_ *testing.T, id string) { m.Trim(l, id) },
		},
	}
}

// world is a World with what the examiner knows of it.
type world struct {
	World
	key     sale.Key
	signer  *stock.Signer
	epoch   int64
	terms   int64
	offset  time.Duration
	users   map[string]bool // everybody who may be recorded
	planted bool            // the tray holds what no Take has put there
}

func newWorld(w World) *world {
	key := sale.Key{1, 2, 3}
	return &world{World: w, key: key, signer: stock.NewSigner(key, w.Lane.Sale), users: make(map[string]bool)}
}

// now returns the time of the ledger's clock.
func (w *world) now(t *testing.T) time.Time {
	t.Helper()
	at, err := w.Counter.Clock(t.Context(), w.Lane)
	require.NoError(t, err)
	return time.UnixMilli(at.UnixMilli() - w.offset.Milliseconds()).UTC()
}

// setting returns what a lane starts with: ten units, two a buyer.
func (w *world) setting(t *testing.T) stock.Setting {
	t.Helper()
	now := w.now(t)
	return stock.Setting{
		Rules: stock.Rules{
			Version: 1, State: sale.Published, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
			PerUserLimit: 2, Terms: 1, Stock: []int64{10},
		},
		Left: []int64{10}, Applied: 5, MaxQueued: 100_000,
	}
}

// open loads the lane under the next epoch and opens it. change may be nil.
func (w *world) open(t *testing.T, change func(*stock.Setting), loaded ...stock.Act) stock.Setting {
	t.Helper()
	s := w.setting(t)
	if change != nil {
		change(&s)
	}
	token := w.epoch + 1
	_, err := w.Counter.Freeze(t.Context(), w.Lane, token)
	require.NoError(t, err)
	w.load(t, token, loaded...)
	require.NoError(t, w.Counter.Set(t.Context(), w.Lane, token, s))
	require.NoError(t, w.Counter.Unfreeze(t.Context(), w.Lane, token))
	w.epoch, w.terms, w.offset = token, s.Terms, s.Offset
	return s
}

func (w *world) load(t *testing.T, token int64, acts ...stock.Act) {
	t.Helper()
	for i := range acts {
		w.users[acts[i].User] = true
	}
	for part := range slices.Chunk(acts, stock.MaxActs) {
		require.NoError(t, w.Counter.Load(t.Context(), w.Lane, token, part))
	}
}

func (w *world) id(user, key string) sale.OrderID {
	return sale.DeriveOrderID(w.key, w.Lane.Sale, user, key)
}

// click is an attempt on the first item.
func (w *world) click(user, key string, quantity int64) stock.Attempt {
	w.users[user] = true
	return stock.Attempt{ID: w.id(user, key), User: user, Quantity: quantity}
}

// call is a call with MACs, by a caller that believes what is true.
func (w *world) call(t *testing.T, attempts ...stock.Attempt) stock.Call {
	t.Helper()
	c := stock.Call{Lane: w.Lane, Epoch: w.epoch, Terms: w.terms, AskedAt: w.now(t), Attempts: attempts}
	w.sign(&c)
	return c
}

func (w *world) sign(c *stock.Call) {
	signer := stock.NewSigner(w.key, w.Lane.Sale) // one's own: callers may be many
	for i := range c.Attempts {
		a := &c.Attempts[i]
		a.MAC = signer.Sign(&stock.Slip{
			ID: a.ID, User: a.User, Item: a.Item, Quantity: a.Quantity, Epoch: c.Epoch, Terms: c.Terms, AskedAt: c.AskedAt,
		})
	}
}

// take sends attempts to an open lane.
func (w *world) take(t *testing.T, attempts ...stock.Attempt) stock.Reply {
	t.Helper()
	r := w.send(t, w.call(t, attempts...))
	require.Equal(t, stock.Open, r.State)
	require.Len(t, r.Results, len(attempts))
	return r
}

func (w *world) send(t *testing.T, c stock.Call) stock.Reply {
	t.Helper()
	r, err := w.Counter.Take(t.Context(), c)
	require.NoError(t, err)
	return r
}

// try sends one attempt.
func (w *world) try(t *testing.T, a stock.Attempt) stock.Result {
	t.Helper()
	return w.take(t, a).Results[0]
}

// buy takes units for a user and returns the record.
func (w *world) buy(t *testing.T, user, key string, quantity int64) stock.Record {
	t.Helper()
	r := w.try(t, w.click(user, key, quantity))
	require.Equal(t, sale.Taken, r.Verdict)
	return r.Record
}

// refuse sends one attempt that must be refused, and sees that nothing moves.
func (w *world) refuse(t *testing.T, a stock.Attempt, want sale.Verdict) stock.Result {
	t.Helper()
	before := w.read(t)
	r := w.try(t, a)
	require.Equal(t, want, r.Verdict)
	require.Equal(t, before, w.read(t), "a refusal writes nothing")
	return r
}

func (w *world) verdicts(t *testing.T, attempts ...stock.Attempt) []sale.Verdict {
	t.Helper()
	return verdicts(w.take(t, attempts...).Results)
}

func verdicts(results []stock.Result) []sale.Verdict {
	out := make([]sale.Verdict, len(results))
	for i := range results {
		out[i] = results[i].Verdict
	}
	return out
}

func (w *world) read(t *testing.T) stock.Standing {
	t.Helper()
	s, err := w.Counter.Read(t.Context(), w.Lane)
	require.NoError(t, err)
	return s
}

func (w *world) left(t *testing.T) int64 {
	t.Helper()
	return w.read(t).Left[0]
}

func (w *world) records(t *testing.T, user string) []stock.Record {
	t.Helper()
	r, err := w.Counter.Records(t.Context(), w.Lane, user)
	require.NoError(t, err)
	return r.Orders
}

func (w *world) look(t *testing.T) []stock.Entry {
	t.Helper()
	out, err := w.Counter.Look(t.Context(), w.Lane, "", 1000)
	require.NoError(t, err)
	return out
}

// slips reads the slips of entries, all of which must be authentic.
func (w *world) slips(t *testing.T, entries []stock.Entry) []stock.Slip {
	t.Helper()
	var out []stock.Slip
	for i := range entries {
		slips, err := stock.ReadSlips(w.Lane.Sale, &entries[i])
		require.NoError(t, err)
		for j := range slips {
			require.True(t, w.signer.Check(&slips[j]), "the MAC of %+v", slips[j])
		}
		out = append(out, slips...)
	}
	return out
}

// adopt and giveBack are acts of one row of the journal.
func adopt(seq uint64, r stock.Record, user string) stock.Act {
	return stock.Act{
		Kind: stock.ActAdopt, Seq: seq, ID: r.ID, User: user, Item: r.Item, Quantity: r.Quantity, Counted: r.Quantity, TakenAt: r.TakenAt,
	}
}

func giveBack(seq uint64, r stock.Record, user string) stock.Act {
	return stock.Act{Kind: stock.ActReturn, Seq: seq, ID: r.ID, User: user}
}

// apply carries acts out as the next rows of the journal.
func (w *world) apply(t *testing.T, acts ...stock.Act) {
	t.Helper()
	from := w.read(t).Applied
	to := from + uint64(max(1, len(acts)))
	for i := range acts {
		w.users[acts[i].User] = true
		acts[i].Seq = from + 1 + uint64(i)
	}
	applied, err := w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: w.epoch, From: from, To: to, Acts: acts})
	require.NoError(t, err)
	require.Equal(t, to, applied)
}

// recount adds up what users hold and compares it with the lane's numbers.
func (w *world) recount(t *testing.T) {
	t.Helper()
	s := w.read(t)
	if s.State != stock.Open {
		return
	}
	held := make([]int64, len(s.Stock))
	for user := range w.users {
		for _, r := range w.records(t, user) {
			held[r.Item] += r.Quantity
		}
	}
	var sum int64
	for i := range held {
		require.Equal(t, s.Stock[i]+s.Moved[i]-s.Left[i], held[i], "what is not left of item %d is held by somebody", i)
		sum += held[i]
	}
	require.Equal(t, s.Taken-s.Returned, sum, "taken less returned is held by somebody")
	if !w.planted {
		require.Len(t, w.slips(t, w.look(t)), int(s.Queued), "the slips in the tray are counted")
	}
}

func name(prefix string, i int) string { return prefix + strconv.Itoa(i) }
