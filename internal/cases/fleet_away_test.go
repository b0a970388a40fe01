package cases_test

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// worker is the only server of halves that judges.
func (s *site) worker() *gate { return &gate{Server: s.fleet.Servers[0]} }

// sendAway stops the worker. back starts it again.
func (s *site) sendAway() (back func()) {
	s.t.Helper()
	w := s.worker()
	require.Zero(s.t, w.Stop())
	return func() { s.t.Helper(); w.Start() }
}

// queue takes a unit for a buyer, who waits for nothing.
func (s *site) queue(user, slug string) client.Bought {
	s.t.Helper()
	bought, err := s.as(user).Buy(s.t.Context(), slug, "the-click", client.Attempt{Quantity: 1})
	require.NoError(s.t, err)
	require.Equal(s.t, client.StateQueued, bought.Order.State)
	return bought
}

// judged waits until a queued order is judged, and returns it, also a rejected one.
func (s *site) judged(user string, b client.Bought) client.Order {
	s.t.Helper()
	o, err := s.as(user).Follow(s.t.Context(), b)
	if rejected, is := client.Rejection(err); is {
		return rejected
	}
	require.NoError(s.t, err)
	return o
}

// The accident: an instance that starts, or that sees an empty counter, fills it with
// what the ledger says, which knows nothing of the units that are taken and not judged.
// The right outcome: any number of starts changes nothing, neither here nor in a sale
// that nobody touches.
func TestC05FleetStartsDoNotFillTheCounter(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	f := s.fleet
	const stock, waiting = 50, 25
	drop, other := s.named(drop), s.named("other")
	published, untouched := s.open(drop, stock, 1), s.open(other, 7, 1)
	before := f.Redis.Must("HMGET", f.lane(untouched, "meta"), "epoch", "frozen", "s0", "l0", "taken", "returned")
	require.NoError(t, s.worker().Signal(syscall.SIGSTOP))
	buyers := f.lineUp(published, waiting)
	meta := f.lane(published, "meta")
	for i, g := range s.gates {
		if i == 1 {
			g.Kill()
		} else {
			require.Zero(t, g.Stop())
		}
		g.revive(t)
		require.Equal(t, name("", stock-waiting), f.Redis.Must("HGET", meta, "l0"), "a start fills nothing")
		_, err := g.as(s.AdminKey()).Preheat(t.Context(), drop)
		require.NoError(t, err)
		require.Equal(t, name("", stock-waiting), f.Redis.Must("HGET", meta, "l0"), "nor does a command to do so")
	}
	require.NoError(t, s.worker().Signal(syscall.SIGCONT))
	got := codes(crowd(100, func(i int) error {
		_, err := s.attempt(t.Context(), name("u", i), drop, "k", client.Attempt{Quantity: 1})
		return err
	}))
	require.Equal(t, map[client.CodeError]int{"": stock - waiting, client.ErrSoldOut: 100 - stock + waiting}, got)
	for _, one := range buyers() {
		require.True(t, one.reserved(), "%s was told %v: %v", one.user, one.states, one.trouble)
	}
	require.Equal(t, int64(stock), s.settled(drop).Reserved)

	busy := s.named("busy") // the same while a crowd buys
	f.open(busy, 30, 1, 2)
	th := f.throng(busy, 6)
	for i, g := range s.gates[:2] {
		th.took(5)
		if i == 1 {
			g.Kill()
		} else {
			require.Zero(t, g.Stop())
		}
		th.served(5)
		g.revive(t)
	}
	th.took(5)
	th.prove()
	require.Equal(t, before, f.Redis.Must("HMGET", f.lane(untouched, "meta"), "epoch", "frozen", "s0", "l0", "taken", "returned"))
	s.settled(other)
}

// C22 where the judge himself says no: what was taken is cut off meanwhile, and each
// rejected order gives its unit and its place in the limit back.
func TestC22FleetRejectedOrdersGiveBack(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	drop := s.named(drop)
	s.open(drop, 5, 1)
	back := s.sendAway()
	queued := make([]client.Bought, 5)
	for i := range queued {
		queued[i] = s.queue(name("u", i), drop)
	}
	_, err := s.admin().Restock(t.Context(), drop, 0, client.Restock{Add: new(int64(-2))})
	require.NoError(t, err)
	back()
	states := make(map[string]int)
	for i, b := range queued {
		o := s.judged(name("u", i), b)
		states[o.State]++
		if o.State == client.StateRejected {
			// Whether the taking or the cut came first is told by two clocks.
			require.Contains(t, []string{"stock_reduced", "sold_out"}, o.Reason)
			_, err = s.as(name("u", i)).Cancel(t.Context(), o.ID)
			require.ErrorIs(t, err, client.ErrIllegalState, "a rejected order holds nothing")
		}
	}
	require.Equal(t, map[string]int{client.StateReserved: 3, client.StateRejected: 2}, states)
	figures := s.settled(drop)
	require.Equal(t, int64(2), figures.Rejected)
	_, err = s.admin().Restock(t.Context(), drop, 0, client.Restock{Add: new(int64(2))})
	require.NoError(t, err)
	for i := range queued {
		if s.judged(name("u", i), queued[i]).State == client.StateRejected {
			s.take(name("u", i), drop, 1) // his limit is free, and the click another one
		}
	}
	require.Equal(t, int64(5), s.settled(drop).Reserved)
}

// C23 where an order is cancelled while it is queued: it is never judged into life, and
// gives back what was taken for it.
func TestC23FleetCancelledWhileQueued(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	drop := s.named(drop)
	s.open(drop, 3, 1)
	back := s.sendAway()
	gone, stays := s.queue("gone", drop), s.queue("stays", drop)
	for range 2 {
		o, err := s.as("gone").Cancel(t.Context(), gone.Order.ID)
		require.NoError(t, err)
		require.Equal(t, client.StateCancelled, o.State)
	}
	back()
	require.Equal(t, client.StateReserved, s.judged("stays", stays).State)
	for range s.gates {
		seen, err := s.as("gone").Order(t.Context(), gone.Order.ID)
		require.NoError(t, err)
		require.Equal(t, client.StateCancelled, seen.State, "it stays cancelled")
	}
	require.Equal(t, int64(2), s.left(drop))
	require.Equal(t, int64(1), s.settled(drop).Cancelled)
	s.take("gone", drop, 1)
	s.take("another", drop, 1)
	_, err := s.buy("one-too-many", drop, 1)
	require.ErrorIs(t, err, client.ErrSoldOut)
}

// C32 between the counter and the judge: who was in time has his order, whatever has
// become of the sale.
func TestC32FleetSaleShutsOverQueuedOrders(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	for _, c := range shuttings() {
		s.open(s.named(c.slug), 10, 1)
	}
	back := s.sendAway()
	queued := make(map[string][]client.Bought)
	for _, c := range shuttings() {
		slug := s.named(c.slug)
		for i := range 3 {
			queued[slug] = append(queued[slug], s.queue(name("u", i), slug))
		}
		_, err := s.as("u0").Cancel(t.Context(), queued[slug][0].Order.ID)
		require.NoError(t, err)
		c.shut(s, slug)
	}
	back()
	for _, c := range shuttings() {
		slug := s.named(c.slug)
		require.Equal(t, client.StateCancelled, s.judged("u0", queued[slug][0]).State)
		paid, left := s.judged("u1", queued[slug][1]), s.judged("u2", queued[slug][2])
		require.Equal(t, client.StateReserved, paid.State, "%s: taken in time", slug)
		require.Equal(t, "paid", s.pay(paid).Outcome)
		_, err := s.as("u2").Cancel(t.Context(), left.ID)
		require.NoError(t, err)
		_, err = s.buy("fresh", slug, 1)
		require.ErrorIs(t, err, c.fresh)
		figures := s.audited(slug)
		require.Equal(t, [3]int64{1, 2, 0}, [3]int64{figures.Paid, figures.Cancelled, figures.Rejected})
	}
	paused := s.named("paused")
	s.settled(paused)
	_, err := s.admin().Resume(t.Context(), paused)
	require.NoError(t, err)
	s.settled(paused)
	require.Len(t, s.ofSale(paused), 3, "a resume does nothing twice")
}

// The accident: the queue has a longest length, and drops orders that no worker has
// read, or that one has claimed; what is left of them makes workers stumble.
// The right outcome: a full queue takes no more and no unit either; an entry that is
// gone costs its buyer nothing who comes with his receipt, and stops nobody else.
func TestC36FleetQueueIsFullOrTrimmed(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	const stock, late = 1000, 30
	drop := s.named(drop)
	published := s.open(drop, stock, 1)
	back := s.sendAway()
	queued := make([]client.Bought, fewSlips)
	for i := range queued {
		queued[i] = s.queue(name("u", i), drop)
	}
	for i := range late {
		_, err := s.as(name("late", i)).Buy(t.Context(), drop, "the-click", client.Attempt{Quantity: 1})
		var busy *client.Error
		require.True(t, asError(err, &busy), "%v", err)
		require.Equal(t, http.StatusServiceUnavailable, busy.Status)
		require.Equal(t, "busy", busy.Code)
		require.Positive(t, busy.RetryAfter)
	}
	r, tray := s.fleet.Redis, s.fleet.lane(published, "tray")
	require.Equal(t, name("", stock-fewSlips), r.Must("HGET", s.fleet.lane(published, "meta"), "l0"), "who is refused costs nothing")

	claimed, err := r.Do(t.Context(), "XREADGROUP", "GROUP", "judge", "ghost", "COUNT", "10", "STREAMS", tray, ">").AsXRead()
	require.NoError(t, err)
	require.Len(t, claimed[tray], 10)
	for i, e := range claimed[tray] {
		if i%2 == 0 {
			r.Must("XDEL", tray, e.ID) // claimed by one who is dead, and gone
		}
	}
	unread, err := r.Do(t.Context(), "XRANGE", tray, "("+claimed[tray][9].ID, "+", "COUNT", "5").AsXRange()
	require.NoError(t, err)
	for _, e := range unread {
		r.Must("XDEL", tray, e.ID)
	}
	back()
	for i, b := range queued {
		require.Equal(t, client.StateReserved, s.judged(name("u", i), b).State, "accepted is accepted")
	}
	for i := range late {
		s.take(name("late", i), drop, 1)
	}
	until(t, "nobody keeps what is gone", func() bool { return r.Must("XPENDING", tray, "judge", "-", "+", "10") == "" })
	require.Equal(t, int64(fewSlips+late), s.settled(drop).Reserved)
}

// The accident: an order that the ledger refuses again and again is set aside; its unit
// and its place in the limit stay taken, and its buyer is told "queued" for ever.
// The right outcome: it ends as rejected, gives back, and stops nobody; who has it
// judged once more goes through the door like anybody.
func TestC38FleetOrderThatIsSetAside(t *testing.T) {
	t.Parallel()
	s := halves.site(t)
	drop := s.named(drop)
	s.open(drop, 3, 1)
	db := s.sql()
	exec := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF NEW.user_id = 'cursed' AND NEW.state = 'reserved' THEN RAISE check_violation; END IF; RETURN NEW; END $$`)
	exec("CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()")
	cursed := s.queue("cursed", drop)
	for i := range 2 { // in the same batch, or behind it
		s.take(name("lucky", i), drop, 1)
	}
	o := s.judged("cursed", cursed)
	require.Equal(t, client.StateRejected, o.State)
	require.NotEmpty(t, o.Reason)
	s.settled(drop)
	exec("DROP TRIGGER refuse ON orders")
	exec("DROP FUNCTION refuse")

	last := s.take("last", drop, 1)
	page, err := s.admin().DeadLetters(t.Context(), client.LetterQuery{Sale: drop})
	require.NoError(t, err)
	require.Len(t, page.Data, 1)
	require.NotNil(t, page.Data[0].Attempt)
	require.Equal(t, "cursed", page.Data[0].Attempt.User)
	_, err = s.admin().ReplayLetter(t.Context(), page.Data[0].ID)
	require.ErrorIs(t, err, client.ErrIllegalState, "what was given back is not used again")
	require.Equal(t, int64(3), s.settled(drop).Reserved)
	_, err = s.admin().AdminCancel(t.Context(), last.ID)
	require.NoError(t, err)
	s.take("cursed", drop, 1) // his limit is free
	require.Equal(t, int64(3), s.settled(drop).Reserved)
}
