package lab

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// story is a small sale of two units with everything in it that a demo has: ann
// double-clicks and pays, bob lets his hold run out and pays late in vain, cat
// hangs up, clicks again and cancels, dan is refused, eve comes late and pays.
type story struct {
	books   *books
	account account
}

var opening = time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)

func order(id, user, state string, from, to time.Duration) client.Order {
	o := client.Order{
		ID: id, Sale: "demo", SKU: "unit", Quantity: 1, Amount: 500, Currency: "EUR", User: user,
		State: state, ReservedAt: opening.Add(from),
	}
	if state != stateReserved {
		ended := opening.Add(to)
		o.EndedAt = &ended
	}
	if state == statePaid {
		o.PaymentID = "charge-" + id
	}
	return o
}

const ms = time.Millisecond

func tell() *story {
	s := &story{books: newBooks(2)}
	annHolds, annPaid := order("A", "ann", stateReserved, ms, 0), order("A", "ann", statePaid, ms, 100*ms)
	bobHolds, bobOver := order("B", "bob", stateReserved, ms, 0), order("B", "bob", stateExpired, ms, 3001*ms)
	evePaid := order("E", "eve", statePaid, 3002*ms, 3003*ms)
	eveHolds := order("E", "eve", stateReserved, 3002*ms, 0)

	s.says("ann", 2, 10, taken, &annHolds)
	s.says("ann", 2, 11, replayed, &annHolds)
	s.says("bob", 2, 12, taken, &bobHolds)
	s.says("cat", 3, 8, gaveUp, nil)
	s.says("cat", 9, 20, "sold_out", nil)
	s.says("dan", 3, 13, "sold_out", nil)
	s.pays(&annPaid, outcomePaid)
	s.pays(&annPaid, outcomeAlreadyPaid)
	s.books.saw(sighting{user: "bob", order: bobOver, sent: 3005 * ms, heard: 3006 * ms})
	s.says("eve", 3001, 3004, taken, &eveHolds)
	s.pays(&evePaid, outcomePaid)
	s.pays(&bobOver, outcomeRefundRequired)
	s.says("bob", 3010, 3011, replayed, &bobOver)

	s.account = account{
		sale: client.AdminSale{
			ID: "demo", PerUserLimit: 1, Items: []client.AdminItem{{SKU: "unit", Stock: 2, Sold: 2}},
		},
		orders:  []client.Order{evePaid, bobOver, annPaid},
		refunds: []client.Refund{{ID: "R", PaymentID: "charge-B", Order: "B", Amount: 500}},
	}
	return s
}

// says enters an answer; sent and heard are milliseconds after the opening.
func (s *story) says(user string, sent, heard int, v verdict, o *client.Order) {
	a := answer{user: user, key: "1", quantity: 1, verdict: v}
	a.sent, a.heard = time.Duration(sent)*ms, time.Duration(heard)*ms
	if o != nil {
		shown := *o
		shown.User = "" // buyers are not told who they are
		a.order = &shown
	}
	s.books.heardAnswer(&a)
}

func (s *story) pays(after *client.Order, outcome string) {
	n := notice{payment: "charge-" + after.ID, order: after.ID, amount: after.Amount, outcome: outcome, after: *after}
	s.books.heardNotice(n, sighting{user: after.User, order: *after, sent: 4000 * ms, heard: 4001 * ms})
}

// broken returns the names of the broken promises.
func (s *story) broken() []string {
	var names []string
	for _, p := range s.books.reckon(s.account) {
		if p.Broken > 0 {
			names = append(names, p.Name)
		}
	}
	return names
}

func (s *story) order(id string) *client.Order {
	for i := range s.account.orders {
		if s.account.orders[i].ID == id {
			return &s.account.orders[i]
		}
	}
	return nil
}

const (
	soldOnce = "every unit is paid by one buyer: none oversold, none left over"
	limited  = "nobody ever had more units than the limit per buyer"
	oneOrder = "one click makes at most one order, however often it is sent"
	truthful = "what buyers were told is what the ledger holds"
	stays    = "an order that has ended stays ended"
	charged  = "each charge paid exactly one order or is to be given back"
	honestly = "every call got an answer, and no answer was an internal error"
)

func TestAnHonestServerKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	for _, p := range tell().books.reckon(tell().account) {
		require.Zero(t, p.Broken, "%s: %v", p.Name, p.Details)
		require.NotZero(t, p.Checked, p.Name)
	}
}

// Each case is one lie, and the promise that shows it.
func TestALyingServerIsCaught(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		lie   func(*story)
		shows string
	}{
		"a unit is sold twice": {func(s *story) {
			o := order("X", "fay", statePaid, 5*ms, 6*ms)
			s.account.orders = append(s.account.orders, o)
			s.says("fay", 4, 6, taken, &o)
			s.pays(&o, outcomePaid)
		}, soldOnce},
		"a unit is held twice for a while": {func(s *story) {
			o := order("X", "fay", stateCancelled, 5*ms, 6*ms)
			s.account.orders = append(s.account.orders, o)
			s.says("fay", 4, 6, taken, &o)
		}, soldOnce},
		"a unit is left over":      {func(s *story) { s.account.sale.Items[0].Stock = 3 }, soldOnce},
		"the counter is wrong":     {func(s *story) { s.account.sale.Items[0].Sold = 1 }, soldOnce},
		"a hold never ends":        {func(s *story) { s.order("B").State = stateReserved }, soldOnce},
		"two orders beat limit":    {func(s *story) { s.order("E").User = "ann" }, limited},
		"one click, two orders":    {func(s *story) { s.says("ann", 30, 31, replayed, s.order("E")) }, oneOrder},
		"one click is born twice":  {func(s *story) { s.says("ann", 30, 31, taken, s.order("A")) }, oneOrder},
		"two buyers get one order": {func(s *story) { s.says("dan", 30, 31, replayed, s.order("A")) }, oneOrder},
		"an order is forgotten":    {func(s *story) { s.says("ann", 30, 31, "sold_out", nil) }, oneOrder},
		"a phantom": {func(s *story) {
			o := order("P", "dan", stateReserved, ms, 0)
			s.says("dan", 30, 31, taken, &o)
		}, truthful},
		"a secret order": {func(s *story) {
			s.account.orders = append(s.account.orders, order("S", "dan", stateExpired, 2*ms, 3*ms))
		}, truthful},
		"a stranger":                {func(s *story) { s.order("B").User = "mallory" }, truthful},
		"another amount":            {func(s *story) { s.order("A").Amount = 1 }, truthful},
		"another quantity":          {func(s *story) { s.order("A").Quantity = 2 }, truthful},
		"paid is told, then denied": {func(s *story) { s.order("A").State = stateCancelled }, truthful},
		"expired comes alive":       {func(s *story) { s.order("B").State = statePaid }, truthful},
		"an end is taken back": {func(s *story) {
			o := order("B", "bob", stateReserved, ms, 0)
			s.books.saw(sighting{user: "bob", order: o, sent: 5000 * ms, heard: 5001 * ms})
		}, stays},
		"a charge vanishes":          {func(s *story) { s.account.refunds = nil }, charged},
		"a charge counts twice":      {func(s *story) { s.account.refunds[0].PaymentID = "charge-A" }, charged},
		"a charge pays two orders":   {func(s *story) { s.order("E").PaymentID = "charge-A" }, charged},
		"an order paid by nobody":    {func(s *story) { s.order("E").PaymentID = "gift" }, charged},
		"too little comes back":      {func(s *story) { s.account.refunds[0].Amount = 499 }, charged},
		"a charge is merely noted":   {func(s *story) { s.pays(s.order("A"), "recorded") }, charged},
		"an internal error":          {func(s *story) { s.fails(http.StatusInternalServerError, time.Second) }, honestly},
		"busy without saying when":   {func(s *story) { s.fails(http.StatusServiceUnavailable, 0) }, honestly},
		"no answer":                  {func(s *story) { s.says("dan", 30, 31, unanswered, nil) }, honestly},
		"a purchase that goes wrong": {func(s *story) { s.books.failed(trouble{user: "ann", what: "pay A", code: "forbidden"}) }, honestly},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell()
			c.lie(s)
			require.Contains(t, s.broken(), c.shows)
		})
	}
}

func (s *story) fails(status int, pause time.Duration) {
	s.books.heardAnswer(&answer{user: "dan", key: "2", sent: 30 * ms, heard: 31 * ms, verdict: "unavailable", status: status, pause: pause})
}

// What an honest server may do though it looks odd.
func TestOddButHonestIsNotCalledALie(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*story){
		"busy after the order is no answer to the click": func(s *story) { s.says("ann", 30, 31, "busy", nil) },
		"a refusal asked for before the order was known": func(s *story) { s.says("ann", 3, 9, "sold_out", nil) },
		"who hung up may have an order without knowing": func(s *story) {
			s.account.orders = append(s.account.orders, order("C", "cat", stateExpired, 3500*ms, 3600*ms))
			s.order("E").ReservedAt = opening.Add(3700 * ms)
			s.order("E").EndedAt = nil
		},
		"an older view that arrives late": func(s *story) {
			o := order("A", "ann", stateReserved, ms, 0)
			s.books.saw(sighting{user: "ann", order: o, sent: 11 * ms, heard: 9000 * ms})
		},
		"a unit that goes in the millisecond it comes back": func(s *story) { s.order("E").ReservedAt = *s.order("B").EndedAt },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell()
			change(s)
			require.Empty(t, s.broken())
		})
	}
}

func TestDetailsAreBounded(t *testing.T) {
	t.Parallel()
	s := tell()
	for range 3 * maxDetails {
		s.fails(http.StatusBadGateway, 0)
	}
	for _, p := range s.books.reckon(s.account) {
		require.LessOrEqual(t, len(p.Details), maxDetails)
		if p.Name == honestly {
			require.Equal(t, 3*maxDetails, p.Broken)
		}
	}
}

// Where one lie breaks a promise in two ways, both are told.
func TestDetailsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*story){
		"order B is still reserved":           func(s *story) { s.order("B").State = stateReserved },
		"3 units are paid of a stock of 2":    func(s *story) { s.order("B").State = statePaid },
		"1 of 2 units as sold and 4 as left":  func(s *story) { s.account.sale.Items[0].Sold, s.account.sale.Items[0].Left = 1, 4 },
		"the sale has 2 items instead of one": func(s *story) { s.account.sale.Items = append(s.account.sale.Items, s.account.sale.Items[0]) },
		"3 units were held at one time":       func(s *story) { *s.order("B").EndedAt = opening.Add(time.Hour) },
		"ann held 2 units; the limit is 1":    func(s *story) { s.order("E").User = "ann" },
		"shown to ann as 1 × unit of demo":    func(s *story) { s.order("A").SKU = "other" },
		"order B was expired and later reserved": func(s *story) {
			o := order("B", "bob", stateReserved, ms, 0)
			s.books.saw(sighting{user: "bob", order: o, sent: 5000 * ms, heard: 5001 * ms})
		},
	}
	for text, lie := range cases {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s := tell()
			lie(s)
			var details []string
			for _, p := range s.books.reckon(s.account) {
				details = append(details, p.Details...)
			}
			require.Contains(t, strings.Join(details, "\n"), text)
		})
	}
}
