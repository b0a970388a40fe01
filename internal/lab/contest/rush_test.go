package contest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// victim is a house that is only ever killed.
type victim struct {
	house
	kills int
}

func (h *victim) kill() error {
	h.kills++
	return nil
}

// visited returns a visit of some buyers to a house of nobody's.
func visited(t *testing.T, size int, stock int64, h house) *visit {
	t.Helper()
	cast, err := buyers.Mint(size, "buyer", buyers.Minting{
		Secret: bytes.Repeat([]byte("s"), 32), Issuer: "doorbuster", Audience: "doorbuster", Now: time.Now(), Life: time.Hour,
	})
	require.NoError(t, err)
	v, err := (&lab{Options: Options{Stock: stock}, cast: cast}).visit("row", nil, 1, h)
	require.NoError(t, err)
	return v
}

// tell answers a step of a buyer's with his order in some state.
func (v *visit) tell(t *testing.T, kind traffic.Kind, buyer int32, state string, status int, replayed bool) traffic.Outcome { //nolint:revive // as in an answer
	t.Helper()
	id := fmt.Sprintf("ord_%d", buyer)
	body, err := json.Marshal(client.Order{ID: id, Sale: saleName, SKU: "unit", Quantity: 1, Amount: 100, Currency: "EUR", State: state})
	require.NoError(t, err)
	step := traffic.Step{Kind: kind, Buyer: buyer}
	if kind != traffic.Buy {
		step.Order = id
	}
	return v.script.Heard(&step, &wire.Answer{Status: status, Body: body, Replayed: replayed}, nil)
}

// However long it takes until half of the stock is sold, nobody is killed before, and
// nobody at all if it does not come to that.
func TestStrikeWaitsForSales(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sold, told int64 }{
		"half is sold":           {sold: 2, told: 2},
		"not even half is sold":  {sold: 1, told: 0},
		"nothing is sold at all": {sold: 0, told: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &victim{}
				v := visited(t, 5, 4, h)
				rush, over := context.WithTimeout(t.Context(), time.Minute)
				defer over()
				selling := time.AfterFunc(10*spread, func() {
					if h.kills > 0 {
						t.Error("killed before anything was sold")
					}
					for buyer := range int32(c.sold) { //nolint:gosec // a few
						v.tell(t, traffic.Buy, buyer, client.StateReserved, http.StatusCreated, false)
					}
				})
				defer selling.Stop()
				told, err := v.strike(rush)
				require.NoError(t, err)
				require.Equal(t, c.told, told)
				require.Equal(t, told > 0, h.kills == 1)
				require.LessOrEqual(t, h.kills, 1)
			})
		})
	}
}

// A unit of a queued order is sold when its buyer hears of the judgement, and a replay of
// his click is no second acceptance.
func TestEarHearsWhatIsSold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := visited(t, 5, 4, &victim{})
		hear := func(after time.Duration, kind traffic.Kind, buyer int32, state string, status int, replayed bool) traffic.Class {
			timer := time.NewTimer(after)
			<-timer.C
			return v.tell(t, kind, buyer, state, status, replayed).Class
		}
		at := func(d time.Duration) { require.Equal(t, d, v.script.lastSale()) }
		const second = time.Second
		require.Equal(t, traffic.Accepted, hear(opensIn+second, traffic.Buy, 0, client.StateReserved, http.StatusCreated, false))
		at(second)
		require.Equal(t, traffic.Accepted, hear(second, traffic.Buy, 1, client.StateQueued, http.StatusAccepted, false))
		require.Equal(t, traffic.Settled, hear(second, traffic.Buy, 1, client.StateQueued, http.StatusAccepted, true))
		at(second) // queued is not sold
		require.Equal(t, traffic.Looked, hear(second, traffic.Poll, 1, client.StateReserved, http.StatusOK, false))
		at(4 * second)
		require.Equal(t, traffic.Settled, hear(second, traffic.Buy, 1, client.StateReserved, http.StatusOK, true))
		at(4 * second) // known
		require.Equal(t, traffic.Accepted, hear(second, traffic.Buy, 2, client.StateQueued, http.StatusAccepted, false))
		require.Equal(t, traffic.Looked, hear(second, traffic.Poll, 2, client.StateRejected, http.StatusOK, false))
		at(4 * second) // rejected is not sold
	})
}

func TestLateBuyersAskOftenEnough(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		full   bool
		rounds int
		since  time.Duration
		over   bool
	}{
		"all is held, and a round has shown it": {full: true, rounds: 1, over: true},
		"all is held, and somebody got a unit":  {full: true},
		"many short rounds":                     {rounds: 9, since: quiet},
		"one that took long":                    {rounds: 1, since: answerTime},
		"two that took long":                    {rounds: quietRounds - 1, since: 2 * answerTime},
		"enough":                                {rounds: quietRounds, since: quiet + 1, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.over, over(c.full, c.rounds, c.since))
		})
	}
}
