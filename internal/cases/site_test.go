package cases_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// site is the product as buyers and shops see it, over HTTP: one server on the
// embedded default, or a fleet of several that sell on the fast path. What is asked
// of a fleet goes to one instance after the other.
type site struct {
	*testenv.Server // the only one, or the first
	t               *testing.T
	http            *http.Client
	gates           []*gate
	fleet           *fleet // nil on the embedded default
	stem            string // makes names of sales unique where a fleet is shared

	away    sync.RWMutex // held while the only server is away
	turns   atomic.Int64
	victims atomic.Int64
	keys    atomic.Int64

	tokensMu sync.Mutex
	tokens   map[string]string // by user; they outlive a restart
}

// newSite starts a server on the embedded default.
func newSite(t *testing.T, args ...string) *site {
	t.Helper()
	return siteOn(t, testenv.Serve(t, args...))
}

// siteOn reaches a server that runs.
func siteOn(t *testing.T, server *testenv.Server) *site {
	t.Helper()
	g := &gate{Server: server, wire: newWire(t)}
	g.connect(t)
	return &site{Server: server, t: t, tokens: make(map[string]string), http: g.wire, gates: []*gate{g}}
}

// siteOf reaches a fleet that runs.
func siteOf(t *testing.T, f *fleet) *site {
	t.Helper()
	return &site{Server: f.gates[0].Server, t: t, tokens: make(map[string]string), http: f.gates[0].wire, gates: f.gates, fleet: f}
}

// newWire returns what carries the requests of a test.
func newWire(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// named returns the name of one of the test's sales.
func (s *site) named(slug string) string { return slug + s.stem }

// crash kills a server and starts it again on the same data. Where it is the only
// one, callers of api wait meanwhile; of a fleet the others go on.
func (s *site) crash() {
	s.t.Helper()
	s.replace(func(g *gate) { g.Kill() })
}

// restart stops a server in order, and starts it again.
func (s *site) restart() {
	s.t.Helper()
	s.replace(func(g *gate) { require.Zero(s.t, g.Stop(), "an orderly stop under load") })
}

func (s *site) replace(end func(*gate)) {
	s.t.Helper()
	if s.fleet == nil {
		s.away.Lock()
		defer s.away.Unlock()
	}
	g := s.gates[int(s.victims.Add(1))%len(s.gates)]
	end(g)
	g.revive(s.t)
}

// gate returns one instance after the other, waiting while the only one is away.
func (s *site) gate() *gate {
	s.away.RLock()
	defer s.away.RUnlock()
	return s.gates[int(s.turns.Add(1))%len(s.gates)]
}

// few returns how much of n is enough on a fleet, where each step is many.
func (s *site) few(n int) int {
	if s.fleet != nil {
		return n / 3
	}
	return n
}

// api returns a client of one instance that tries once.
func (s *site) api(token string) *client.Client { return s.gate().as(token) }

// address returns where the API of one instance is.
func (s *site) address() string { return *s.gate().at.Load() }

// token returns a buyer's token.
func (s *site) token(user string) string {
	s.t.Helper()
	s.tokensMu.Lock()
	defer s.tokensMu.Unlock()
	token, known := s.tokens[user]
	if !known {
		token = s.Token(user)
		s.tokens[user] = token
	}
	return token
}

// as returns a buyer's client, admin one with every scope.
func (s *site) as(user string) *client.Client { s.t.Helper(); return s.api(s.token(user)) }
func (s *site) admin() *client.Client         { s.t.Helper(); return s.api(s.AdminKey()) }

// open publishes a sale: live for an hour, holds of a minute, one item. On a fleet
// it is on the fast path then.
func (s *site) open(slug string, stock, limit int64, change ...func(*client.NewSale)) client.AdminSale {
	s.t.Helper()
	now := time.Now()
	n := client.NewSale{
		ID: slug, StartsAt: instant(now.Add(-time.Minute)), EndsAt: instant(now.Add(time.Hour)),
		PerUserLimit: limit, HoldSeconds: new(int64(60)), MaxUnpaidHolds: new(int64(0)), Currency: "EUR",
		Items: []client.NewItem{{SKU: "unit", Price: price, Stock: stock}},
	}
	if s.fleet != nil {
		n.PreferredPath = "fast"
	}
	for _, f := range change {
		f(&n)
	}
	_, err := s.admin().CreateSale(s.t.Context(), n)
	require.NoError(s.t, err)
	published, err := s.admin().Publish(s.t.Context(), slug)
	require.NoError(s.t, err)
	if s.fleet == nil || published.Status == "ended" { // what has ended is not loaded any more
		return published
	}
	published, err = s.admin().Preheat(s.t.Context(), slug)
	require.NoError(s.t, err)
	require.Equal(s.t, "fast", published.Path)
	return published
}

// instant writes an instant as the API takes it.
func instant(at time.Time) string { return at.UTC().Format(instantLayout) }

const instantLayout = "2006-01-02T15:04:05.000Z"

// hold sets the hold of a new sale.
func hold(seconds int64) func(*client.NewSale) {
	return func(n *client.NewSale) { n.HoldSeconds = &seconds }
}

// attempt sends one click and follows what came of it until it is judged, or refused,
// at whatever instance answers.
func (s *site) attempt(ctx context.Context, user, slug, key string, a client.Attempt) (client.Bought, error) {
	bought, err := s.as(user).BuyWith(ctx, slug, client.BuyOptions{Key: key, Wait: hear}, a)
	for err == nil && bought.Order.State == client.StateQueued {
		var seen client.Order
		seen, err = s.as(user).OrderWith(ctx, bought.Order.ID, client.OrderOptions{Wait: hear, Receipt: bought.Receipt})
		if err == nil {
			bought.Order = seen
		} else if excused(err) && ctx.Err() == nil {
			err = nil
		}
	}
	if err != nil {
		return bought, err
	}
	bought.Order, err = s.as(user).Follow(ctx, bought) // which is judged: a rejected one is an error
	return bought, err
}

// buy attempts to buy with a key of its own. A fleet on a busy machine may have to be
// asked again.
func (s *site) buy(user, slug string, quantity int64) (client.Order, error) {
	s.t.Helper()
	ctx, key := s.t.Context(), s.key()
	for {
		bought, err := s.attempt(ctx, user, slug, key, client.Attempt{Quantity: quantity})
		if s.fleet == nil || !excused(err) || ctx.Err() != nil {
			return bought.Order, err
		}
	}
}

// key returns a new idempotency key.
func (s *site) key() string { return name("key-", int(s.keys.Add(1))) }

// take must succeed. On a fleet what came back a moment ago may be on its way to the
// counter, or the news of it to the instance that is asked.
func (s *site) take(user, slug string, quantity int64) (got client.Order) {
	s.t.Helper()
	until(s.t, user+" gets his units", func() bool {
		var err error
		got, err = s.buy(user, slug, quantity)
		if err == nil || s.fleet == nil || !comesBack(err) {
			require.NoError(s.t, err)
		}
		return err == nil
	})
	return got
}

// comesBack reports whether an attempt may succeed once units or limit are back.
func comesBack(err error) bool {
	return slices.Contains([]client.CodeError{client.ErrSoldOut, client.ErrInsufficient, client.ErrLimitReached}, client.CodeOf(err))
}

// takeAll buys one unit for each of n buyers, u0, u1 …, some at once.
func (s *site) takeAll(slug string, n int) []client.Order {
	s.t.Helper()
	orders, errs := make([]client.Order, n), make([]error, n)
	const hands = 16
	crowd(hands, func(first int) struct{} {
		for i := first; i < n; i += hands {
			bought, err := insist(s.t.Context(), func() (client.Bought, error) {
				return s.attempt(s.t.Context(), name("u", i), slug, "k", client.Attempt{Quantity: 1})
			})
			orders[i], errs[i] = bought.Order, err
		}
		return struct{}{}
	})
	for _, err := range errs {
		require.NoError(s.t, err)
	}
	return orders
}

// charge is the report of a captured charge of exactly what an order costs.
func charge(o client.Order, payment string) client.Payment {
	return client.Payment{ID: payment, Status: "succeeded", Amount: o.Amount, Currency: o.Currency}
}

// pay reports a captured charge for an order.
func (s *site) pay(o client.Order) client.PaymentResult {
	s.t.Helper()
	paid, err := s.admin().Pay(s.t.Context(), o.ID, charge(o, "charge-"+o.ID))
	require.NoError(s.t, err)
	return paid
}

func refundToStock() client.RefundRequest { return client.RefundRequest{Restock: true} }

// left returns the units that nobody holds, as the ledger has it.
func (s *site) left(slug string) int64 {
	s.t.Helper()
	found, err := insist(s.t.Context(), func() (client.AdminSale, error) { return s.admin().AdminSale(s.t.Context(), slug) })
	require.NoError(s.t, err)
	sum := int64(0)
	for _, it := range found.Items {
		sum += it.Left
	}
	return sum
}

// state returns the state of an order as it is now.
func (s *site) state(o client.Order) string {
	s.t.Helper()
	found, err := insist(s.t.Context(), func() (client.Order, error) { return s.admin().AdminOrder(s.t.Context(), o.ID) })
	require.NoError(s.t, err)
	return found.State
}

// refunds returns the refund records of some orders.
func (s *site) refunds(of ...client.Order) (found []client.Refund) {
	s.t.Helper()
	pages := client.All(func(after string) (client.Page[client.Refund], error) {
		return s.admin().Refunds(s.t.Context(), client.RefundQuery{After: after, Limit: 500})
	})
	for r, err := range pages {
		require.NoError(s.t, err)
		if slices.ContainsFunc(of, func(o client.Order) bool { return o.ID == r.Order }) {
			found = append(found, r)
		}
	}
	return found
}

// audited recounts the promises of a sale and requires that free, reserved and
// paid units are its stock. It may run in the middle of everything.
func (s *site) audited(slug string) client.AuditFigures {
	s.t.Helper()
	report, err := s.admin().Audit(s.t.Context(), slug)
	require.NoError(s.t, err)
	require.Len(s.t, report.Sales, 1)
	for _, rule := range report.Sales[0].Rules {
		require.Zero(s.t, rule.Broken, "sale %s breaks %s: %s", slug, rule.Rule, rule.Promise)
	}
	f := report.Sales[0].Figures
	require.Equal(s.t, f.Stock, f.Stock-f.Sold+f.Reserved+f.Paid, "free + reserved + paid = stock")
	return f
}

// settled does the same where nothing is under way, and on a fleet requires that the
// sale is on the fast path and its counter is the recount, too.
func (s *site) settled(slug string) client.AuditFigures {
	s.t.Helper()
	s.landed(slug)
	return s.audited(slug)
}

// look opens the ledger for reading, beside the servers.
func (s *site) look() *ledger.Book {
	s.t.Helper()
	book := ledger.New(s.store())
	s.t.Cleanup(func() { require.NoError(s.t, book.Close()) })
	return book
}

func (s *site) store() ledger.Store {
	s.t.Helper()
	if s.fleet != nil {
		store, err := pgledger.Open(s.t.Context(), pgledger.Options{URL: s.fleet.Postgres.URL, ReadOnly: true})
		require.NoError(s.t, err)
		return store
	}
	store, err := sqliteledger.Open(s.t.Context(), sqliteledger.Options{Path: s.database(), ReadOnly: true})
	require.NoError(s.t, err)
	return store
}

// database is the path of the embedded server's ledger.
func (s *site) database() string { return s.Dir + "/doorbuster.db" }

// answer is an answer that has been read whole.
type answer struct {
	status int
	header http.Header
	code   string // of a problem
	body   string
}

// call sends a request with any body and any headers, given as pairs.
func (s *site) call(token, method, path, body string, headers ...string) answer {
	s.t.Helper()
	a, err := s.send(token, method, path, body, headers...)
	require.NoError(s.t, err)
	return a
}

func (s *site) send(token, method, path, body string, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.address()+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost && strings.HasSuffix(path, "/orders") {
		r.Header.Set("Prefer", "wait=9") // so that a buy is answered alike on every path
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	return s.exchange(r)
}

// do sends a request that must be answered.
func (s *site) do(r *http.Request) answer {
	s.t.Helper()
	a, err := s.exchange(r)
	require.NoError(s.t, err)
	return a
}

func (s *site) exchange(r *http.Request) (answer, error) {
	resp, err := s.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(raw)}
	var p client.Problem
	if resp.Header.Get("Content-Type") == "application/problem+json" && json.Unmarshal(raw, &p) == nil {
		a.code = p.Code
	}
	return a, err
}

// patience is how long anything may take on a busy machine.
const patience = 20 * time.Second

// until asks again and again until the answer is yes.
func until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !yes() {
		select {
		case <-poll.C:
		case <-limit.C:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// asError is errors.As for errors of the client.
func asError(err error, to **client.Error) bool {
	found, ok := errors.AsType[*client.Error](err)
	*to = found
	return ok
}
