package stocktest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// raceCases: many at once.
func raceCases() []testCase {
	return []testCase{
		{name: "Race/a crowd with judge and returns", run: raceCrowd},
		{name: "Race/as if one after the other", run: raceLinear},
	}
}

// raceCrowd lets buyers press, a judge empty the tray and orders come back, all at
// once, until everything is sold, and recounts.
func raceCrowd(t *testing.T, w *world) {
	const units, buyers, rounds = 150, 8, 40
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{units}, []int64{units} })
	type held struct {
		user   string
		record stock.Record
	}
	var mu sync.Mutex
	taken, returned := make(map[sale.OrderID]held), make(map[sale.OrderID]bool)
	var crowd, others sync.WaitGroup
	at := w.now(t)
	for b := range buyers {
		for i := range rounds {
			w.users[name("u", b*rounds+i)] = true
		}
	}
	for b := range buyers {
		crowd.Go(func() {
			random := seeded(b)
			for i := range rounds {
				attempts := make([]stock.Attempt, 3)
				for j := range attempts {
					user := name("u", random.IntN(buyers*rounds))
					attempts[j] = stock.Attempt{ID: w.id(user, name("k", random.IntN(3))), User: user, Quantity: 1}
				}
				c := stock.Call{Lane: w.Lane, Epoch: w.epoch, Terms: w.terms, AskedAt: at, Attempts: attempts}
				w.sign(&c)
				r, err := w.Counter.Take(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				for j := range r.Results {
					if r.Results[j].Verdict != sale.Taken {
						continue
					}
					o := held{attempts[j].User, r.Results[j].Record}
					mu.Lock()
					if _, twice := taken[o.record.ID]; twice {
						t.Errorf("%s was taken twice", o.record.ID)
					}
					taken[o.record.ID] = o
					giveUp := i%4 == 0
					returned[o.record.ID] = giveUp
					mu.Unlock()
					if giveUp {
						acts := []stock.Act{giveBack(0, o.record, o.user)}
						for range 2 {
							if err := w.Counter.Return(t.Context(), w.Lane, w.epoch, acts); err != nil {
								t.Error(err)
							}
						}
					}
				}
			}
		})
	}
	stop := make(chan struct{})
	judged := make(map[sale.OrderID]int)
	others.Go(func() {
		for last := false; ; {
			entries, err := w.Counter.Claim(t.Context(), w.Lane, stock.Claim{Consumer: "judge", Max: 5})
			if err != nil {
				t.Error(err)
				return
			}
			if len(entries) == 0 && last {
				return
			}
			select {
			case <-stop:
				last = true
			default:
			}
			for i := range entries {
				slips, err := stock.ReadSlips(w.Lane.Sale, &entries[i])
				if err != nil {
					t.Error(err)
				}
				for j := range slips {
					judged[slips[j].ID]++
				}
			}
			if err := w.Counter.Done(t.Context(), w.Lane, entries); err != nil {
				t.Error(err)
			}
		}
	})
	crowd.Wait()
	close(stop)
	others.Wait()

	got := w.read(t)
	var back int64
	for id := range taken {
		require.Equal(t, 1, judged[id], "a slip for each that was taken")
		if returned[id] {
			back++
		}
	}
	require.Len(t, judged, len(taken))
	require.Equal(t, []int64{int64(len(taken)), back}, []int64{got.Taken, got.Returned})
	require.Equal(t, []int64{units - int64(len(taken)) + back}, got.Left)
	require.Zero(t, got.Queued)
	for _, o := range taken {
		i := slices.IndexFunc(w.records(t, o.user), func(r stock.Record) bool { return r.ID == o.record.ID })
		require.GreaterOrEqual(t, i, 0)
	}
}

// seeded returns a generator that repeats itself.
func seeded(seed int) *rand.Rand {
	return rand.New(rand.NewPCG(7, uint64(seed))) //nolint:gosec // a test's, and no secret
}

// takeInput and takeOutput are a step of a history: one attempt, or its return.
type takeInput struct {
	user, key string
	quantity  int64
	back      bool
}

type takeOutput struct {
	verdict sale.Verdict
	left    int64
}

// takeState is what a lane of one item with a limit of two must remember.
type takeState struct {
	left   int64
	orders [3][2]int8 // by user and key: 0 never, -1 ended, else the quantity
}

func takeModel(units int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return takeState{left: units} },
		Step: func(state, input, output any) (bool, any) {
			s, _ := state.(takeState)
			in, _ := input.(takeInput)
			out, _ := output.(takeOutput)
			return out == s.step(in), s
		},
	}
}

func (s *takeState) step(in takeInput) takeOutput {
	user, key := in.user[1]-'0', in.key[1]-'0'
	order := &s.orders[user][key]
	if in.back {
		if *order > 0 {
			s.left += int64(*order)
			*order = -1
		}
		return takeOutput{}
	}
	var held int64
	for _, q := range s.orders[user] {
		held += max(0, int64(q))
	}
	switch {
	case *order > 0 && int64(*order) != in.quantity:
		return takeOutput{verdict: sale.KeyMismatch, left: s.left}
	case *order != 0:
		return takeOutput{verdict: sale.Replayed, left: s.left}
	case held+in.quantity > 2:
		return takeOutput{verdict: sale.LimitReached, left: s.left}
	case s.left == 0:
		return takeOutput{verdict: sale.SoldOut}
	case s.left < in.quantity:
		return takeOutput{verdict: sale.Insufficient, left: s.left}
	}
	*order = int8(in.quantity) //nolint:gosec // one or two
	s.left -= in.quantity
	return takeOutput{verdict: sale.Taken, left: s.left}
}

func raceLinear(t *testing.T, w *world) {
	const callers, steps, units = 4, 25, 3
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{units}, []int64{units} })
	for u := range 3 {
		w.users[name("u", u)] = true
	}
	at := w.now(t)
	var mu sync.Mutex
	var history []porcupine.Operation
	var turn int64 // a clock that only orders
	tick := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		turn++
		return turn
	}
	var crowd sync.WaitGroup
	for caller := range callers {
		crowd.Go(func() {
			random := seeded(caller)
			for range steps {
				in := takeInput{user: name("u", random.IntN(3)), key: name("k", random.IntN(2)), quantity: 1 + random.Int64N(2), back: random.IntN(3) == 0}
				op := porcupine.Operation{ClientId: caller, Input: in, Call: tick()}
				out, err := w.act(t.Context(), at, in)
				op.Output, op.Return = out, tick()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	crowd.Wait()
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(takeModel(units), history, 20*time.Second))
}

func (w *world) act(ctx context.Context, at time.Time, in takeInput) (takeOutput, error) {
	id := w.id(in.user, in.key)
	if in.back {
		return takeOutput{}, w.Counter.Return(ctx, w.Lane, w.epoch, []stock.Act{{Kind: stock.ActReturn, ID: id, User: in.user}})
	}
	c := stock.Call{
		Lane: w.Lane, Epoch: w.epoch, Terms: w.terms, AskedAt: at, Attempts: []stock.Attempt{{ID: id, User: in.user, Quantity: in.quantity}},
	}
	w.sign(&c)
	r, err := w.Counter.Take(ctx, c)
	if err != nil || len(r.Results) != 1 {
		return takeOutput{}, err
	}
	return takeOutput{verdict: r.Results[0].Verdict, left: r.Results[0].Left}, nil
}
