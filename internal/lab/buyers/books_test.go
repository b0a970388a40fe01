package buyers_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

func TestStates(t *testing.T) {
	t.Parallel()
	assert.Equal(t, buyers.Rejected, buyers.StateOf("rejected"))
	assert.Zero(t, buyers.StateOf("lost"))
	assert.Equal(t, "reserved, paid", (buyers.Paid | buyers.Reserved).String())
	assert.Empty(t, buyers.States(0).String())
}

// TestTwoStories: one order told to two buyers, for two clicks, or with other facts is
// a promise broken.
func TestTwoStories(t *testing.T) {
	t.Parallel()
	reserved := wire.Answer{Status: 201, Body: order("ord_1", "reserved")}
	other := wire.Answer{Status: 200, Replayed: true, Body: text(client.Order{ID: "ord_1", Quantity: 2, Amount: 7, Currency: "EUR", State: "reserved"})}
	for name, second := range map[string]struct {
		step   traffic.Step
		answer wire.Answer
	}{
		"another buyer": {traffic.Step{Kind: traffic.Buy, Buyer: 2}, reserved},
		"another click": {traffic.Step{Kind: traffic.Buy, Click: 1}, reserved},
		"another price": {traffic.Step{Kind: traffic.Buy}, other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.hear(traffic.Step{Kind: traffic.Buy}, reserved)
			require.Empty(t, w.books.Faults())
			w.hear(second.step, second.answer)
			w.hear(second.step, second.answer)
			faults := w.books.Faults()
			require.Len(t, faults, 1)
			assert.Equal(t, "P4", faults[0].Promise)
			assert.EqualValues(t, 2, faults[0].Count)
			assert.Contains(t, faults[0].Example, "ord_1")
		})
	}
}

func TestChargesAreEntered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.hear(traffic.Step{Kind: traffic.Buy, Buyer: 1, Click: 3}, wire.Answer{Status: 201, Body: order("ord_1", "reserved")})
	pay := traffic.Step{Kind: traffic.Pay, Buyer: 1, Click: 3, Order: "ord_1"}
	w.read(t, pay)
	o := w.books.Orders()[0]
	assert.True(t, o.Charged)
	assert.Empty(t, o.Outcome)

	// It came too late and bore another order.
	born := client.Order{ID: "ord_2", Quantity: 2, Amount: 998, Currency: "EUR", State: "paid", Replaces: "ord_1"}
	out := w.hear(pay, wire.Answer{Status: 200, Body: text(client.PaymentResult{Outcome: "paid", Order: born})})
	assert.Equal(t, "paid", out.Verdict)
	all := w.books.Orders()
	require.Len(t, all, 2)
	assert.Equal(t, "paid", all[0].Outcome)
	assert.Equal(t, buyers.Reserved, all[0].Seen)
	assert.EqualValues(t, -1, all[1].Click)
	assert.Equal(t, buyers.Paid, all[1].Seen)
	assert.Empty(t, w.books.Faults())
}

// TestBooksAgreeWithAPlainList tells the same stories, in any order and from many
// sides at once, to the books and to a list.
func TestBooksAgreeWithAPlainList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	rapid.Check(t, func(r *rapid.T) {
		books := buyers.NewBooks(w.cast)
		script, err := buyers.New(w.cast, books, buyers.Options{Sale: "drop", Run: "r"})
		require.NoError(r, err)
		type story struct {
			order int16
			state string
		}
		stories := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) story {
			n := rapid.Int16Range(0, 20).Draw(r, "order")
			return story{n, rapid.SampledFrom([]string{"queued", "reserved", "paid", "cancelled", "expired", "rejected", "refunded"}).Draw(r, "state")}
		}), 0, 60).Draw(r, "stories")

		want := make(map[string]buyers.States)
		var all sync.WaitGroup
		for _, s := range stories {
			id := fmt.Sprintf("ord_%d", s.order)
			want[id] |= buyers.StateOf(s.state)
			all.Go(func() {
				step := traffic.Step{Kind: traffic.Buy, Buyer: int32(s.order % 5), Click: s.order}
				script.Heard(&step, &wire.Answer{Status: 200, Replayed: true, Body: order(id, s.state)}, nil)
			})
		}
		all.Wait()
		got := make(map[string]buyers.States)
		waiting := int64(0)
		for _, o := range books.Orders() {
			got[o.ID] = o.Seen
			if o.Seen == buyers.Queued {
				waiting++
			}
		}
		assert.Equal(r, want, got)
		assert.Empty(r, books.Faults())
		assert.Equal(r, int64(len(want)), books.Live().Orders)
		assert.Equal(r, waiting, books.Live().Waiting)
	})
}
