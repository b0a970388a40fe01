package gate_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

// The crowd of the bot test.
const (
	units       = 1000
	honest      = 2000
	behindOne   = 500 // of the honest, behind one address
	arriveIn    = 3 * time.Second
	bots        = 20
	accounts    = 250   // of each bot, in two /24 networks
	botMachine  = 2e6   // hashes a second of a bot's one machine
	slowPhone   = 0.3e6 // hashes a second
	goodLaptop  = 2e6   // hashes a second
	botPatience = 10 * time.Second
)

// house is a gate before an engine before a ledger in memory, in a bubble of fake
// time: solving a challenge takes the time that it would take, and no more work than
// to know the answer.
type house struct {
	t      *testing.T
	engine *engine.Engine
	gate   *gate.Keeper // nil: the gate is off
	told   *counts
	sale   sale.Sale
}

// counts counts what the gate has told.
type counts struct {
	gate.Observer
	mu       sync.Mutex
	refused  map[string]int
	shadowed map[string]int
}

func newCounts() *counts {
	return &counts{Observer: mute{}, refused: map[string]int{}, shadowed: map[string]int{}}
}

func (c *counts) Refused(layer, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[code+" by "+layer]++
}

func (c *counts) Shadowed(layer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shadowed[layer]++
}

// mute observes nothing.
type mute struct{}

func (mute) Refused(string, string) {}
func (mute) Shadowed(string)        {}
func (mute) Degraded(string)        {}
func (mute) Passed()                {}
func (mute) Solved(string)          {}
func (mute) Struck(string, int64)   {}
func (mute) Dropped()               {}
func (mute) Banned(string)          {}
func (mute) Known(int64, int)       {}
func (mute) Failed(string, error)   {}

func newHouse(t *testing.T, settings *gate.Settings) *house {
	t.Helper()
	h := &house{t: t, told: newCounts()}
	book := ledger.New(ledgertest.MemWorld(t).Store)
	h.engine = engine.New(book, nil, engine.Options{Clock: time.Now, Alone: true})
	now, err := book.Now(t.Context())
	require.NoError(t, err)
	_, err = h.engine.CreateSale(t.Context(), sale.Sale{
		Slug: "drop", Items: []sale.Item{{SKU: "shoe", Stock: units, Price: 100}},
		Rules: sale.Rules{StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: 1, LimitRule: sale.LimitLive, Hold: time.Minute, Currency: "EUR"},
	})
	require.NoError(t, err)
	published, err := h.engine.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(t, err)
	h.sale = published.Sale
	if settings != nil {
		h.gate = openGate(t, book, h.told, settings)
	}
	return h
}

// openGate returns a keeper over a ledger with settings in force. The bubble's clock
// runs beside the ledger's, which stands still.
func openGate(t *testing.T, book *ledger.Book, told gate.Observer, settings *gate.Settings) *gate.Keeper {
	t.Helper()
	text, err := json.Marshal(settings)
	require.NoError(t, err)
	_, err = book.PutGateSettings(t.Context(), 0, text, "operator")
	require.NoError(t, err)
	memory, err := memlimit.New(memlimit.Options{})
	require.NoError(t, err)
	base, err := book.Now(t.Context())
	require.NoError(t, err)
	began := time.Now()
	k, err := gate.New(t.Context(), gate.Options{
		Ledger: book, Local: memory, Shared: memory, Observer: told,
		Now: func() time.Time { return base.Add(time.Since(began)) },
	})
	require.NoError(t, err)
	return k
}

// customer is one account with its address and machine.
type customer struct {
	user    string
	ip      netip.Addr
	machine *machine
	limited int // answers 429
	bought  bool
	sly     bool // tries whether a bad solution is answered by an easier challenge
}

// machine solves one challenge after another.
type machine struct {
	busy  chan struct{} // a mutex would stop the bubble's time
	speed float64       // hashes a second
}

func newMachine(speed float64) *machine { return &machine{busy: make(chan struct{}, 1), speed: speed} }

func (m *machine) work(ctx context.Context, hashes int64) {
	m.busy <- struct{}{}
	rest(ctx, time.Duration(float64(hashes)/m.speed*float64(time.Second)))
	<-m.busy
}

// buy tries until it has a unit, or there is none left, or its patience is over.
func (c *customer) buy(ctx context.Context, h *house) error {
	pass := ""
	for ctx.Err() == nil {
		verdict, err := h.try(ctx, c, pass)
		var refused *gate.RefusalError
		switch {
		case err == nil:
			c.bought = verdict == sale.Taken || verdict == sale.Replayed
			return nil
		case !errors.As(err, &refused):
			return err
		case refused.Err.Code == sale.CodeRateLimited:
			c.limited++
			rest(ctx, refused.RetryAfter)
		case refused.Err.Code == sale.CodeChallengeRequired:
			if c.sly {
				refused.Challenge = c.cheat(ctx, h, refused.Challenge)
			}
			if pass, err = c.prove(ctx, h, refused.Challenge); err != nil {
				return err
			}
		default:
			return nil // banned: it is over
		}
	}
	return nil
}

// cheat returns the easiest challenge that can be had by bad solutions.
func (c *customer) cheat(ctx context.Context, h *house, easiest *gate.Challenge) *gate.Challenge {
	for _, bad := range []string{"rubbish", "e30="} {
		_, err := h.gate.Issue(ctx, h.visit(c, ""), gate.Proof{Challenge: bad}, none)
		var refused *gate.RefusalError
		if errors.As(err, &refused) && refused.Challenge != nil && refused.Challenge.MaxNumber < easiest.MaxNumber {
			easiest = refused.Challenge
		}
	}
	return easiest
}

// prove solves challenges until one opens a pass.
func (c *customer) prove(ctx context.Context, h *house, challenge *gate.Challenge) (string, error) {
	answer, work := answerOf(h, challenge)
	c.machine.work(ctx, work)
	for ctx.Err() == nil {
		v := h.visit(c, "")
		issued, err := h.gate.Issue(ctx, v, gate.Proof{Challenge: answer}, func(ctx context.Context, nonce string) (bool, error) {
			_, err := h.engine.Order(ctx, h.sale.OrderID(c.user, nonce), c.user)
			if sale.CodeOf(err) == sale.CodeOrderNotFound {
				return false, nil
			}
			return err == nil, err
		})
		var refused *gate.RefusalError
		switch {
		case err == nil:
			return issued.Text, nil
		case errors.As(err, &refused) && refused.Err.Code == sale.CodeRateLimited:
			c.limited++
			rest(ctx, refused.RetryAfter)
		case errors.As(err, &refused):
			return "", nil // the next attempt is told what is wanted
		default:
			return "", err
		}
	}
	return "", nil
}

// answerOf returns the solution of a challenge and how many hashes finding it takes.
func answerOf(h *house, c *gate.Challenge) (payload string, work int64) {
	payload, err := h.gate.Keys().Answer(*c, h.gate.Now())
	require.NoError(h.t, err)
	text, err := base64.StdEncoding.DecodeString(payload)
	require.NoError(h.t, err)
	var body struct{ Number int64 }
	require.NoError(h.t, json.Unmarshal(text, &body))
	return payload, body.Number + 1
}

func (h *house) visit(c *customer, pass string) *gate.Visit {
	v := &gate.Visit{User: c.user, IP: c.ip, Pass: pass}
	v.At(&h.sale)
	return v
}

func (h *house) try(ctx context.Context, c *customer, pass string) (sale.Verdict, error) {
	r := engine.Request{Sale: "drop", User: c.user, Key: "click", Quantity: 1}
	if h.gate != nil {
		v := h.visit(c, pass)
		if err := h.gate.Arrive(ctx, gate.Buy, c.ip); err != nil {
			return "", err
		}
		key, err := h.gate.Enter(v)
		if err != nil {
			return "", err
		}
		if key != "" {
			r.Key = key
		}
		r.Admit = func(ctx context.Context) error { return h.gate.Admit(ctx, v) }
	}
	d, err := h.engine.Buy(ctx, r)
	return d.Verdict, err
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// outcome is what came of a sale.
type outcome struct {
	honest, bots int // units
	worstLimited int // most answers 429 that one honest buyer met
	nat          int // honest units behind the one address
	refused      map[string]int
}

// rush sells everything to a crowd with bots in it.
func rush(t *testing.T, settings *gate.Settings, seed uint64, trick func(*customer)) (out outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, settings)
		r := rand.New(rand.NewPCG(seed, seed))
		ctx, cancel := context.WithTimeout(t.Context(), botPatience)
		defer cancel()
		var work sync.WaitGroup
		run := func(c *customer, after time.Duration) {
			work.Go(func() {
				rest(ctx, after)
				if err := c.buy(ctx, h); err != nil {
					t.Error(err)
				}
			})
		}
		people := make([]*customer, 0, honest)
		for i := range honest {
			c := &customer{user: fmt.Sprintf("person-%d", i), ip: someAddress(r)}
			c.machine = newMachine(slowPhone * math.Pow(goodLaptop/slowPhone, r.Float64()))
			if i < behindOne {
				c.ip = netip.MustParseAddr("203.0.113.7")
			}
			people = append(people, c)
			run(c, 200*time.Millisecond+time.Duration(r.Float64()*float64(arriveIn))) // nobody clicks sooner
		}
		machines := make([]*customer, 0, bots*accounts)
		for b := range bots {
			one := newMachine(botMachine)
			for a := range accounts {
				network := netip.AddrFrom4([4]byte{185, byte(b), byte(a % 2), byte(1 + a/2)})
				c := &customer{user: fmt.Sprintf("bot-%d-%d", b, a), ip: network, machine: one}
				trick(c)
				machines = append(machines, c)
				run(c, time.Duration(a)*100*time.Microsecond)
			}
		}
		work.Wait()
		out = tally(people, machines)
		out.refused = h.told.refused
		require.Equal(t, units, out.honest+out.bots, "everything is sold")
		require.NoError(t, h.engine.Close(t.Context()))
	})
	return out
}

func tally(people, machines []*customer) (out outcome) {
	for i, c := range people {
		out.worstLimited = max(out.worstLimited, c.limited)
		if c.bought {
			out.honest++
			if i < behindOne {
				out.nat++
			}
		}
	}
	for _, c := range machines {
		if c.bought {
			out.bots++
		}
	}
	return out
}

// someAddress returns a public address of a household.
func someAddress(r *rand.Rand) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 20<<24+r.Uint32N(150<<24))
	return netip.AddrFrom4(a)
}

// TestBots lets 20 bots with 5,000 accounts loose on a sale of 1,000 units that 2,000
// people want. Without the gate they take nearly everything; with its default
// settings they do not.
func TestBots(t *testing.T) {
	t.Parallel()
	honestly := func(*customer) {}
	off := rush(t, nil, 1, honestly)
	require.GreaterOrEqual(t, off.bots, units*60/100, "without the gate, bots win")
	settings := gate.DefaultSettings()
	on := rush(t, &settings, 1, honestly)
	t.Logf("units: bots %d of %d without the gate, %d with it; behind the one address %d", off.bots, units, on.bots, on.nat)
	for _, layer := range slices.Sorted(maps.Keys(on.refused)) {
		t.Logf("  %6d × %s", on.refused[layer], layer)
	}
	require.LessOrEqual(t, on.bots, units*15/100, "with the gate, people win")
	require.LessOrEqual(t, on.worstLimited, 2, "and are not in their own way")
	require.Positive(t, on.nat, "also behind one address")
	sly := rush(t, &settings, 2, func(c *customer) { c.sly = true })
	t.Logf("bots that try tricks: %d", sly.bots)
	require.LessOrEqual(t, sly.bots, units*15/100, "tricks do not help")
}
