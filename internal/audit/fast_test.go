package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// fast puts the sale on the fast path, if nobody else is at it.
func (s *shop) fast(tb testing.TB) {
	tb.Helper()
	b, err := s.book.StartBuild(tb.Context(), s.sale.Number, s.sale.Epoch)
	if errors.Is(err, ledger.ErrBuilding) {
		return
	}
	require.NoError(tb, err)
	s.sale, err = s.book.FinishBuild(tb.Context(), ledger.Finish{Build: b, Salts: []uint32{1}, Load: func(context.Context, ledger.Present) error { return nil }})
	require.NoError(tb, err)
}

func (s *shop) direct(tb testing.TB) {
	tb.Helper()
	var err error
	s.sale, err = s.book.GoDirect(tb.Context(), s.sale.Number, s.sale.Epoch, s.sale.Epoch+1)
	require.NoError(tb, err)
}

// slip is what the fast counter leaves for a click that it takes now.
func (s *shop) slip(tb testing.TB, user, sku string, quantity int64) ledger.Attempt {
	tb.Helper()
	now, err := s.store.Now(tb.Context())
	require.NoError(tb, err)
	return ledger.Attempt{
		ID: s.sale.OrderID(user, "click"), User: user, SKU: sku, Quantity: quantity,
		Slip: &ledger.Slip{Epoch: s.sale.Epoch, Terms: s.sale.Terms, TakenAt: now},
	}
}

func (s *shop) judge(tb testing.TB, slips ...ledger.Attempt) []ledger.Result {
	tb.Helper()
	out, err := s.book.Reserve(tb.Context(), ledger.Batch{Sale: s.sale.Number, Epoch: s.sale.Epoch, Attempts: slips})
	require.NoError(tb, err)
	return out.Results
}

// tellFast goes on with the story on the fast path.
func (s *shop) tellFast(tb testing.TB) {
	tb.Helper()
	ctx := tb.Context()
	s.fast(tb)
	gina := s.slip(tb, "gina", priced, 1) // taken, cancelled; her slip comes again
	_, err := s.book.Cancel(ctx, s.judge(tb, gina)[0].Order.ID, "gina")
	require.NoError(tb, err)
	s.judge(tb, gina)

	require.Equal(tb, sale.RejectedLimit, s.judge(tb, s.slip(tb, "hank", priced, 3))[0].Order.Reason) // took too many
	_, err = s.book.CancelQueued(ctx, s.slip(tb, "ivan", priced, 1))                                  // left the queue
	require.NoError(tb, err)
	judy := s.slip(tb, "judy", free, 1) // shows her receipt
	judy.Slip.Presented = true
	require.Equal(tb, sale.Taken, s.judge(tb, judy)[0].Verdict)
	require.Equal(tb, sale.RejectedSlip, s.judge(tb, s.slip(tb, "leo", "boot", 1))[0].Order.Reason) // wants what there is not
	mia := s.slip(tb, "mia", free, 0)                                                               // no order can be made of hers
	require.NoError(tb, s.book.Park(ctx, s.sale.Number, []ledger.Letter{{ID: ledger.LetterID{1}, Attempt: &mia}}))

	kate := s.slip(tb, "kate", free, 1) // waited through a change of the way
	s.direct(tb)
	s.fast(tb)
	require.Equal(tb, sale.Taken, s.judge(tb, kate)[0].Verdict)
}

// rideFast lets something random happen that only the fast path knows.
func (s *shop) rideFast(tb testing.TB, random *rand.Rand, slips *[]ledger.Attempt) {
	tb.Helper()
	ctx := tb.Context()
	some := func() []ledger.Attempt {
		if len(*slips) == 0 {
			return nil
		}
		a := (*slips)[random.IntN(len(*slips))]
		slip := *a.Slip
		slip.Presented = random.IntN(3) == 0
		a.Slip = &slip
		return []ledger.Attempt{a}
	}
	switch random.IntN(9) {
	case 0:
		if s.sale.Path == sale.PathFast {
			s.direct(tb)
		}
	case 1, 2:
		if s.sale.Path == sale.PathDirect {
			s.fast(tb)
		}
	case 3:
		for _, a := range some() {
			_, err := s.book.CancelQueued(ctx, a)
			require.True(tb, err == nil || sale.CodeOf(err) == sale.CodeIllegalState || sale.CodeOf(err) == sale.CodeOrderNotFound, err)
		}
	case 4:
		for _, a := range some() {
			id := ledger.LetterID(a.ID)
			require.NoError(tb, s.book.Park(ctx, s.sale.Number, []ledger.Letter{{ID: id, Attempt: &a}}))
		}
	case 5, 6:
		if s.sale.Path == sale.PathFast {
			a := s.slip(tb, fmt.Sprintf("user %d", random.IntN(12)), []string{priced, free, "boot"}[random.IntN(3)], 1+random.Int64N(3))
			a.ID = s.sale.OrderID(a.User, fmt.Sprintf("click-%d", random.IntN(40)))
			*slips = append(*slips, a)
		}
	default:
		if len(*slips) == 0 {
			break
		}
		for _, r := range s.judge(tb, append(some(), some()...)...) {
			require.NoError(tb, r.Err)
		}
	}
	var err error
	s.sale, err = s.book.SaleByNumber(ctx, s.sale.Number)
	require.NoError(tb, err)
}

// rows returns the indexes of the rows of a kind.
func (w *world) rows(kind ledger.Kind) []int {
	w.tb.Helper()
	var out []int
	for i := range w.entries {
		if w.entries[i].Kind == kind {
			out = append(out, i)
		}
	}
	require.NotEmpty(w.tb, out, "%s", kind)
	return out
}

// last returns the index of the last row of a kind.
func (w *world) last(kind ledger.Kind) int {
	w.tb.Helper()
	all := w.rows(kind)
	return all[len(all)-1]
}

func laneBody(o *sale.Order) ledger.LaneBody {
	return ledger.LaneBody{User: o.User, SKU: o.SKU, Quantity: o.Quantity, TakenAt: ledger.Millis(o.ReservedAt)}
}

// editLast changes the body of the last row about the sale.
func (w *world) editLast(edit func(*ledger.SaleBody)) {
	w.tb.Helper()
	e := &w.entries[w.last(ledger.SaleKind(sale.ActionReroute))]
	var b ledger.SaleBody
	require.NoError(w.tb, json.Unmarshal(e.Body, &b))
	edit(&b)
	e.Body = encode(w.tb, b)
	w.rechain()
}

func fastBreaches() []breach {
	return []breach{
		{"an order kept from the lane", laneTold, func(w *world) {
			i := w.last(ledger.KindLaneAdopt)
			w.entries = slices.Delete(w.entries, i, i+1)
			w.rechain()
		}},
		{"an order told to the lane too late", laneTold, func(w *world) {
			i := w.rows(ledger.KindLaneAdopt)[0]
			w.entries[i], w.entries[i+1] = w.entries[i+1], w.entries[i]
			w.rechain()
		}},
		{"a live order's units given back", laneTold, func(w *world) {
			o := w.of("alice")
			w.add(ledger.KindLaneReturn, o.ID, laneBody(o))
		}},
		{"an ended order adopted", laneTold, func(w *world) {
			o := w.of("gina")
			w.add(ledger.KindLaneReturn, o.ID, laneBody(o))
			w.add(ledger.KindLaneAdopt, o.ID, laneBody(o))
		}},
		{"more adopted than there is", laneTold, func(w *world) {
			b := laneBody(w.of("kate"))
			b.Quantity++
			w.entries[w.last(ledger.KindLaneAdopt)].Body = encode(w.tb, b)
			w.rechain()
		}},
		{"an order adopted out of the blue", laneTold, func(w *world) { w.add(ledger.KindLaneAdopt, w.of("bob").ID, laneBody(w.of("bob"))) }},
		{"a lane where there is none", laneTold, func(w *world) {
			direct := w.rows(ledger.SaleKind(sale.ActionReroute))[1]
			o := w.of("gina")
			w.entries = slices.Insert(w.entries, direct+1, ledger.Entry{
				Sale: w.facts.number, At: w.entries[direct].At, Kind: ledger.KindLaneReturn, Order: o.ID, Body: encode(w.tb, laneBody(o)),
			})
			w.rechain()
		}},
		{"an epoch that comes again", wayTrace, func(w *world) {
			w.editLast(func(b *ledger.SaleBody) { b.Epoch = 1 })
			w.facts.body.Epoch = 1
		}},
		{"a rule changed on the way", wayTrace, func(w *world) {
			w.editLast(func(b *ledger.SaleBody) { b.PerUserLimit++ })
			w.facts.body.PerUserLimit++
		}},
		{"a way changed with a rule", wayTrace, func(w *world) {
			i := w.rows(ledger.SaleKind(sale.ActionReroute))[0]
			w.entries[i].Kind = ledger.SaleKind(sale.ActionUpdate)
			for j := i; j < len(w.entries); j++ { // the versions that follow fit
				if e := &w.entries[j]; e.Kind.OfSale() {
					var b ledger.SaleBody
					require.NoError(w.tb, json.Unmarshal(e.Body, &b))
					b.Version++
					e.Body = encode(w.tb, b)
				}
			}
			w.facts.body.Version++
			w.rechain()
		}},
		{"born under an epoch that never was", wayTrace, func(w *world) {
			o := w.of("ivan")
			o.Epoch = 99
			w.editRows(o.ID, 0, func(b *ledger.OrderBody) { b.Epoch = 99 })
		}},
		{"rejected with a hold", legalMove, func(w *world) {
			o := w.of("hank")
			o.ExpiresAt = o.ReservedAt.Add(time.Minute)
			w.editRows(o.ID, 0, func(b *ledger.OrderBody) { b.ExpiresAt = ledger.Millis(o.ExpiresAt) })
		}},
		{"rejected for another reason", orderTrace, func(w *world) { w.of("hank").Reason = sale.RejectedSoldOut }},
		{"money for what could not be judged", orderTerms, func(w *world) {
			o := w.of("leo")
			o.Amount = 1000
			w.editRows(o.ID, 0, func(b *ledger.OrderBody) { b.Amount = 1000 })
		}},
		{"a lane row about nothing", rowBody, func(w *world) { w.add(ledger.KindLaneReturn, sale.OrderID{}, laneBody(w.of("gina"))) }},
		{"a lane row about nobody", rowBody, func(w *world) { w.add(ledger.KindLaneReturn, w.of("gina").ID, ledger.LaneBody{}) }},
	}
}

// An order is rejected for a reason that there is, and for none in any other state.
func TestReasonsAreOfRejections(t *testing.T) {
	t.Parallel()
	for user, why := range map[string]sale.RejectReason{"hank": "", "ivan": sale.RejectedLimit, "leo": "whim"} {
		w := story(t)
		o := w.of(user)
		o.Reason = why
		w.editRows(o.ID, 0, func(b *ledger.OrderBody) { b.Reason = why })
		report := w.recount()
		require.Contains(t, brokenRules(&report), rowBody.String(), user)
	}
}

// A file from before the fast path is read as what it is.
func TestVersionOneIsRead(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.buy(t, "alice", priced, 1)
	w := s.capture(t)
	for i := range w.entries {
		w.entries[i].Body = bytes.Replace(w.entries[i].Body, []byte(`"preferred_path":"direct",`), nil, 1)
	}
	w.rechain()
	file := string(w.export())
	require.Contains(t, file, `"version":2`)
	file = strings.Replace(file, `"version":2`, `"version":1`, 1)
	file = strings.Replace(file, `"preferred_path":"direct",`, "", 1)
	require.NotContains(t, file, "preferred")
	report, err := Verify(t.Context(), bytes.NewReader(forge(t, []byte(file))), VerifyOptions{})
	require.NoError(t, err)
	require.False(t, report.Broken(), "%s", text(t, &report))
	require.Equal(t, []string{}, brokenRules(&report.Sales[0]))
}
