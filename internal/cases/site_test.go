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
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// site is the real server in a process of its own, reached over HTTP.
type site struct {
	*testenv.Server
	t    *testing.T
	http *http.Client

	mu   sync.RWMutex // held while the server is away
	base *client.Client
	keys atomic.Int64

	tokensMu sync.Mutex
	tokens   map[string]string // by user; they outlive a restart
}

func newSite(t *testing.T, args ...string) *site {
	t.Helper()
	return siteOn(t, testenv.Serve(t, args...))
}

// siteOn reaches a server that runs.
func siteOn(t *testing.T, server *testenv.Server) *site {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	s := &site{Server: server, t: t, tokens: make(map[string]string), http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(transport.CloseIdleConnections)
	s.connect()
	return s
}

func (s *site) connect() {
	s.t.Helper()
	base, err := client.New(client.Options{URL: s.URL, HTTPClient: s.http, Retry: client.Retry{Tries: 1}})
	require.NoError(s.t, err)
	s.base = base
}

// crash kills the server and starts it again on the same data. Callers of api
// wait meanwhile.
func (s *site) crash() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Kill()
	s.Start()
	s.connect()
}

// api returns a client that tries once, waiting while the server is away.
func (s *site) api(token string) *client.Client {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.base.As(token)
}

// address returns where the API is, waiting while the server is away.
func (s *site) address() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.URL
}

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

// open publishes a sale: live for an hour, holds of a minute, one item.
func (s *site) open(slug string, stock, limit int64, change ...func(*client.NewSale)) client.AdminSale {
	s.t.Helper()
	now := time.Now()
	n := client.NewSale{
		ID: slug, StartsAt: now.Add(-time.Minute).UTC().Format(instantLayout), EndsAt: now.Add(time.Hour).UTC().Format(instantLayout),
		PerUserLimit: limit, HoldSeconds: new(int64(60)), MaxUnpaidHolds: new(int64(0)), Currency: "EUR",
		Items: []client.NewItem{{SKU: "unit", Price: price, Stock: stock}},
	}
	for _, f := range change {
		f(&n)
	}
	_, err := s.admin().CreateSale(s.t.Context(), n)
	require.NoError(s.t, err)
	published, err := s.admin().Publish(s.t.Context(), slug)
	require.NoError(s.t, err)
	return published
}

const instantLayout = "2006-01-02T15:04:05.000Z"

// hold sets the hold of a new sale.
func hold(seconds int64) func(*client.NewSale) {
	return func(n *client.NewSale) { n.HoldSeconds = &seconds }
}

// buy attempts to buy with a key of its own.
func (s *site) buy(user, slug string, quantity int64) (client.Order, error) {
	s.t.Helper()
	bought, err := s.as(user).Buy(s.t.Context(), slug, "", client.Attempt{Quantity: quantity})
	return bought.Order, err
}

// take must succeed.
func (s *site) take(user, slug string, quantity int64) client.Order {
	s.t.Helper()
	o, err := s.buy(user, slug, quantity)
	require.NoError(s.t, err)
	return o
}

// takeAll buys one unit for each of n buyers, u0, u1 …, some at once.
func (s *site) takeAll(slug string, n int) []client.Order {
	s.t.Helper()
	shop := s.admin()
	orders, errs := make([]client.Order, n), make([]error, n)
	const hands = 16
	crowd(hands, func(first int) struct{} {
		for i := first; i < n; i += hands {
			bought, err := insist(s.t.Context(), func() (client.Bought, error) {
				return shop.Buy(s.t.Context(), slug, "k", client.Attempt{Quantity: 1, OnBehalfOf: name("u", i)})
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
	found, err := s.admin().AdminSale(s.t.Context(), slug)
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
	found, err := s.admin().AdminOrder(s.t.Context(), o.ID)
	require.NoError(s.t, err)
	return found.State
}

// settled recounts the promises of a sale and requires that free, reserved and
// paid units are its stock.
func (s *site) settled(slug string) client.AuditFigures {
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

// look opens the server's ledger for reading, beside the server.
func (s *site) look() *ledger.Book {
	s.t.Helper()
	store, err := sqliteledger.Open(s.t.Context(), sqliteledger.Options{Path: s.database(), ReadOnly: true})
	require.NoError(s.t, err)
	book := ledger.New(store)
	s.t.Cleanup(func() { require.NoError(s.t, book.Close()) })
	return book
}

// database is the path of the server's ledger.
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
