package ledgertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// fastVerbs are the acts of a life that knows the fast path.
func fastVerbs() []string {
	return []string{
		"take", "settle", "rest", "take", "forward", "settle", "take", "present", "withdraw", "build", "take", "settle", "forward",
		"take", "rest", "hasty", "park", "direct", "start", "finish", "save", "relapse", "take", "build", "rest",
	}
}

var errLoad = errors.New("ledgertest: the counter does not answer")

// liveFast does an act of the fast path; done is false for any other.
func (l *life) liveFast(ctx context.Context, o op) (said string, done bool) {
	switch o.Verb {
	case "take":
		return l.take(ctx, o.Clicks), true
	case "settle":
		return l.settle(ctx, int(o.N), o.Flag), true
	case "present":
		return l.present(ctx, o.Charge), true
	case "withdraw":
		return l.withdraw(ctx, o.Charge), true
	case "park":
		return l.park(ctx), true
	case "forward":
		return l.forward(ctx), true
	case "hasty":
		return l.hasty(ctx), true
	case "direct":
		return l.goDirect(ctx), true
	case "start":
		return l.start(ctx), true
	case "finish":
		return l.finish(ctx, o.Flag), true
	case "build":
		return l.build(ctx, !o.Flag && o.N > 2), true
	case "save":
		l.lane.save()
		return "", true
	case "relapse":
		l.lane.relapse()
		return "", true
	case "rest":
		return l.rest(ctx), true
	}
	return "", false
}

func (l *life) take(ctx context.Context, clicks []opClick) string {
	now, err := l.w.ledger.Now(ctx)
	require.NoError(l.t, err)
	said := make([]string, 0, len(clicks))
	for _, c := range clicks {
		user, key := slotNames(c.Slot)
		said = append(said, l.lane.take(ledger.Attempt{
			ID: l.sale.OrderID(user, key), User: user, SKU: []string{"A", "B", "C"}[c.Item], Quantity: c.Quantity,
			Slip: &ledger.Slip{Epoch: l.lane.epoch, Terms: l.lane.terms, TakenAt: now},
		}))
	}
	return fmt.Sprint(said)
}

// settle has the first slips of the tray judged; unheard, they stay in it.
func (l *life) settle(ctx context.Context, n int, unheard bool) string { //nolint:revive // a fault of the world, drawn with the act
	n = min(n, len(l.lane.tray))
	if n == 0 {
		return ""
	}
	said := l.reserve(ctx, l.lane.tray[:n])
	if !unheard {
		l.lane.tray = append([]ledger.Attempt(nil), l.lane.tray[n:]...)
	}
	return said
}

// receipt returns one of the slips that the lane ever left.
func (l *life) receipt(n int) (ledger.Attempt, bool) {
	if len(l.lane.ever) == 0 {
		return ledger.Attempt{}, false
	}
	return presented(l.lane.ever[n%len(l.lane.ever)]), true
}

func (l *life) present(ctx context.Context, n int) string {
	a, any := l.receipt(n)
	if !any {
		return ""
	}
	return l.reserve(ctx, []ledger.Attempt{a})
}

func (l *life) withdraw(ctx context.Context, n int) string {
	a, any := l.receipt(n)
	if !any {
		return ""
	}
	after, err := l.w.ledger.CancelQueued(ctx, a)
	return l.answer(l.told(&after), err)
}

// park gives up on the first slip of the tray.
func (l *life) park(ctx context.Context) string {
	if len(l.lane.tray) == 0 {
		return ""
	}
	a := l.lane.tray[0]
	l.lane.tray = append([]ledger.Attempt(nil), l.lane.tray[1:]...)
	// The same slip is the same letter; what is taken again after a build is another.
	letter := ledger.Letter{ID: ledger.LetterID(a.ID), Place: "tray", Cause: "drawn", Attempt: &a}
	binary.BigEndian.PutUint32(letter.ID[:], uint32(a.Slip.Epoch)) //nolint:gosec // a life has few epochs
	return l.answer("", l.w.ledger.Park(ctx, l.sale.Number, []ledger.Letter{letter}))
}

// mirrored reports whether the lane is in force.
func (l *life) mirrored(s *sale.Sale) bool {
	return s.Path == sale.PathFast && s.Epoch == l.lane.epoch && l.lane.frozen == 0
}

func (l *life) forward(ctx context.Context) string {
	s := l.now(ctx)
	for l.mirrored(&s) {
		rows, err := l.w.ledger.LaneRows(ctx, s.Number, l.lane.applied, 3)
		require.NoError(l.t, err)
		require.NoError(l.t, l.lane.apply(rows))
		if len(rows.Rows) < 3 {
			return fmt.Sprint("up to ", rows.Upto)
		}
	}
	return "no lane"
}

// hasty gives back at once what has ended, ahead of the journal.
func (l *life) hasty(ctx context.Context) string {
	for slot := range lifeUsers * lifeKeys {
		id := l.id(slot)
		found, err := l.w.ledger.OrdersByID(ctx, []sale.OrderID{id})
		require.NoError(l.t, err)
		if o, known := found[id]; known && !o.State.Live() && l.lane.frozen == 0 {
			l.lane.give(id)
		}
	}
	return ""
}

func (l *life) goDirect(ctx context.Context) string {
	s := l.now(ctx)
	after, err := l.w.ledger.GoDirect(ctx, s.Number, s.Epoch, max(s.Epoch, l.lane.build.Token-2)+1)
	require.NoError(l.t, err)
	return fmt.Sprint(after.Path, after.Epoch)
}

// start begins a build: it freezes the lane and reads the ledger.
func (l *life) start(ctx context.Context) string {
	b, err := l.w.ledger.StartBuild(ctx, l.sale.Number, l.now(ctx).Epoch)
	if errors.Is(err, ledger.ErrBuilding) {
		return "building"
	}
	require.NoError(l.t, err)
	l.lane.build, l.lane.frozen = b, b.Token
	seen := laneReading{records: make(map[sale.OrderID]laneRecord)}
	require.NoError(l.t, l.w.Store.Snapshot(ctx, func(r ledger.Reader) error {
		rec, err := r.SaleByNumber(ctx, l.sale.Number)
		if err != nil {
			return err
		}
		seen.after = rec.Seq
		return r.EachOrder(ctx, l.sale.Number, func(o sale.Order) error {
			if o.State.Live() {
				seen.records[o.ID] = laneRecord{o.SKU, o.Quantity}
			}
			return nil
		})
	}))
	l.lane.seen = seen
	return fmt.Sprint("token ", b.Token)
}

// finish ends the build that was begun last, or repeats its end.
func (l *life) finish(ctx context.Context, broken bool) string { //nolint:revive // a fault of the world, drawn with the act
	b := l.lane.build
	after, err := l.w.ledger.FinishBuild(ctx, ledger.Finish{Build: b, After: l.lane.seen.after, Load: func(_ context.Context, now ledger.Present) error {
		if broken {
			return errLoad
		}
		return l.lane.load(&now)
	}})
	switch {
	case errors.Is(err, ledger.ErrSuperseded), errors.Is(err, errLoad):
		return err.Error()
	case b.Sale.Number == 0:
		return l.answer("", err)
	}
	require.NoError(l.t, err)
	if l.lane.frozen == b.Token {
		l.lane.epoch, l.lane.frozen, l.lane.stale = b.Token, 0, false
	}
	return fmt.Sprint(after.Path, after.Epoch)
}

// build does all steps of a build, if nobody else is at it; a planned one has what
// is queued judged first.
func (l *life) build(ctx context.Context, planned bool) string { //nolint:revive // drawn with the act
	said := l.start(ctx)
	if said == "building" {
		return said
	}
	if planned {
		said += l.settle(ctx, len(l.lane.tray), false)
	}
	return said + l.finish(ctx, false)
}

// rest judges and forwards all there is; the lane must then be the ledger's mirror.
func (l *life) rest(ctx context.Context) string {
	said := l.settle(ctx, len(l.lane.tray), false) + l.forward(ctx)
	s := l.now(ctx)
	if !l.mirrored(&s) || l.lane.stale {
		return said
	}
	var orders []sale.Order
	require.NoError(l.t, l.w.Store.Snapshot(ctx, func(r ledger.Reader) error {
		return r.EachOrder(ctx, s.Number, func(o sale.Order) error {
			orders = append(orders, o)
			return nil
		})
	}))
	require.Empty(l.t, l.lane.differs(&s, orders))
	return said
}
