package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// historyCases: what concurrent callers saw can be put into one order, in which
// every answer is the one a single clerk would have given.
func historyCases() []testCase {
	return []testCase{{name: "History/linearizable", run: historyLinear}}
}

const (
	histUsers = 3
	histKeys  = 3
	histStock = 4
	histLimit = 2
	histPrice = 100
	histHold  = 1000 // ms
)

// deed is one call: a verb on the order of a user's key, or on the clock.
type deed struct {
	verb string
	slot int // user × histKeys + key
	wait int64
}

// quantity is fixed by the slot, so that a payment knows its amount.
func (d deed) quantity() int64 { return int64(d.slot%2) + 1 }

// reply is what the caller saw.
type reply struct {
	said  string
	state sale.OrderState
	left  int64
}

// clerk is the sequential model: a shop small enough to be compared with ==.
type clerk struct {
	now   int64
	slots [histUsers * histKeys]clerkOrder
}

type clerkOrder struct {
	state   sale.OrderState // empty: not there
	expires int64
	heir    bool // replaced by a late payment
}

func (c *clerk) units(from, to int) int64 {
	n := int64(0)
	for slot := from; slot < to; slot++ {
		if o := &c.slots[slot]; o.state.Live() || o.heir {
			n += deed{slot: slot}.quantity()
		}
	}
	return n
}

func (c *clerk) left() int64 { return histStock - c.units(0, len(c.slots)) }

func (c *clerk) room(d deed) bool {
	user := d.slot / histKeys
	return c.units(user*histKeys, (user+1)*histKeys)+d.quantity() <= histLimit
}

// step does a deed and returns the one right answer.
func (c *clerk) step(d deed) reply {
	o := &c.slots[d.slot]
	switch d.verb {
	case "wait":
		c.now += d.wait
		return reply{}
	case "buy":
		return c.buy(d, o)
	case "expire":
		if o.state == sale.Reserved && c.now >= o.expires {
			o.state = sale.Expired
			return reply{said: "1"}
		}
		return reply{said: "0"}
	}
	switch {
	case o.state == "":
		return reply{said: string(sale.CodeOrderNotFound)}
	case d.verb == "pay":
		return c.pay(d, o)
	case o.state == sale.Reserved:
		o.state = sale.Cancelled
	case o.state != sale.Cancelled:
		return reply{said: string(sale.CodeIllegalState)}
	}
	return reply{said: "ok", state: o.state}
}

func (c *clerk) buy(d deed, o *clerkOrder) reply {
	r := reply{said: string(sale.Taken), left: c.left()}
	switch {
	case o.state != "":
		r.said, r.state = string(sale.Replayed), o.state
	case !c.room(d):
		r.said = string(sale.LimitReached)
	case r.left == 0:
		r.said = string(sale.SoldOut)
	case d.quantity() > r.left:
		r.said = string(sale.Insufficient)
	default:
		*o = clerkOrder{state: sale.Reserved, expires: c.now + histHold}
		r.state, r.left = sale.Reserved, c.left()
	}
	return r
}

func (c *clerk) pay(d deed, o *clerkOrder) reply {
	switch {
	case o.state == sale.Reserved:
		o.state = sale.Paid
	case o.state == sale.Paid || o.heir || !c.room(d) || d.quantity() > c.left():
		return reply{said: string(sale.OutcomeRefundRequired), state: o.state}
	default:
		o.heir = true
	}
	return reply{said: string(sale.OutcomePaid), state: sale.Paid}
}

// clerkModel offers the clerk to porcupine, whose faces are untyped.
func clerkModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return clerk{} },
		Step: func(state, input, output any) (bool, any) {
			c, known := state.(clerk)
			d, isDeed := input.(deed)
			saw, isReply := output.(reply)
			if !known || !isDeed || !isReply {
				return false, state
			}
			return c.step(d) == saw, c
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
}

func historyLinear(t *testing.T, w *world) {
	for round := range 6 {
		history := w.history(t, uint64(round))
		if got := porcupine.CheckOperationsTimeout(clerkModel(), history, 10*time.Second); got != porcupine.Ok {
			for _, op := range history {
				t.Logf("%d [%d, %d] %+v → %+v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
			}
			require.Equal(t, porcupine.Ok, got, "seed %d", round)
		}
	}
}

// history lets five callers act on one sale and returns what each saw. Call and
// Return are ticks of a counter: only their order matters.
func (w *world) history(t *testing.T, seed uint64) []porcupine.Operation {
	t.Helper()
	s := w.open(t, func(s *sale.Sale) {
		s.Items[0].Stock, s.Items[0].Price, s.PerUserLimit, s.Hold = histStock, histPrice, histLimit, histHold*time.Millisecond
	})
	var mu sync.Mutex
	var ticks atomic.Int64
	var out []porcupine.Operation
	together(t, 5, func(ctx context.Context, client int) error {
		rnd := rand.New(rand.NewPCG(seed, uint64(client))) //nolint:gosec // a test needs no secrets, and client is small
		for i := range 14 {
			d := deed{slot: rnd.IntN(histUsers * histKeys)}
			d.verb = []string{"buy", "buy", "buy", "buy", "cancel", "cancel", "pay", "pay", "expire", "wait"}[rnd.IntN(10)]
			if d.verb == "wait" {
				d.wait = 400
			}
			call := ticks.Add(1)
			saw, err := w.do(ctx, &s, d, fmt.Sprint("p-", s.Number, "-", client, "-", i))
			if err != nil {
				return err
			}
			mu.Lock()
			out = append(out, porcupine.Operation{ClientId: client, Input: d, Call: call, Output: saw, Return: ticks.Add(1)})
			mu.Unlock()
		}
		return nil
	})
	return out
}

// do does a deed at the ledger.
func (w *world) do(ctx context.Context, s *sale.Sale, d deed, payment string) (reply, error) {
	user, key := fmt.Sprint("user-", d.slot/histKeys), strconv.Itoa(d.slot%histKeys)
	id := s.OrderID(user, key)
	switch d.verb {
	case "wait":
		w.Advance(time.Duration(d.wait) * time.Millisecond)
		return reply{}, nil
	case "buy":
		r, err := w.tryOne(ctx, s, click(*s, user, key, d.quantity()))
		return reply{said: string(r.Verdict), state: r.Order.State, left: r.Left}, err
	case "expire":
		n, err := w.ledger.Expire(ctx, []sale.OrderID{id})
		return reply{said: strconv.Itoa(n)}, err
	case "pay":
		p := sale.Payment{ID: payment, Order: id, Status: sale.PaymentSucceeded, Amount: histPrice * d.quantity(), Currency: "EUR"}
		paid, err := w.ledger.Pay(ctx, p)
		return spoken(reply{said: string(paid.Outcome), state: paid.Order.State}, err)
	}
	o, err := w.ledger.Cancel(ctx, id, user)
	return spoken(reply{said: "ok", state: o.State}, err)
}

// spoken turns a business error into a reply; other errors end the history.
func spoken(r reply, err error) (reply, error) {
	if err == nil {
		return r, nil
	}
	if code := sale.CodeOf(err); code != sale.CodeUnavailable {
		return reply{said: string(code)}, nil
	}
	return reply{}, err
}
