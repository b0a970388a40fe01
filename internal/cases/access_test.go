package cases_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// run runs the program beside the server, on its data, and returns its output.
func (s *site) run(args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), testenv.Binary(s.t), append(args, "--data-dir", s.Dir)...).Output() //nolint:gosec // our own binary
	require.NoError(s.t, err, "doorbuster %s", strings.Join(args, " "))
	return strings.TrimSpace(string(out))
}

// The accident: only the key of a click is compared, so another request gets the
// old answer and never runs, or somebody else's.
// The right outcome: a key belongs to one buyer in one sale. The same request is
// replayed, another one under it is refused, and everybody else is independent.
func TestC12KeyIsOfOneBuyerAndOneRequest(t *testing.T) {
	t.Parallel()
	onBoth(t, keyOfOneRequest)
}

func keyOfOneRequest(s *site) {
	t := s.t
	drop, second := s.named(drop), s.named("second")
	s.open(drop, 20, 3, func(n *client.NewSale) {
		n.Items = append(n.Items, client.NewItem{SKU: "other", Price: price, Stock: 20})
	})
	s.open(second, 5, 3)
	const key = "the-key"
	buy := func(user, slug, body string) answer {
		return s.call(s.token(user), http.MethodPost, "/v1/sales/"+slug+"/orders", body, "Idempotency-Key", key)
	}
	first := buy("u", drop, `{"item":"unit","quantity":1}`)
	require.Equal(t, http.StatusCreated, first.status, first.body)
	again := s.call(s.token("u"), http.MethodPost, "/v1/sales/"+drop+"/orders", `{"quantity":1,"item":"unit"}`, "Idempotency-Key", `"`+key+`"`)
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	require.Equal(t, first.body, again.body, "the same click, the same order")
	for _, body := range []string{`{"item":"unit","quantity":2}`, `{"item":"other","quantity":1}`} {
		a := buy("u", drop, body)
		require.Equal(t, http.StatusConflict, a.status, body)
		require.Equal(t, "idempotency_mismatch", a.code, body)
	}
	require.Equal(t, int64(1), s.settled(drop).Reserved, "nothing else happened")

	elsewhere := buy("u", second, `{"quantity":2}`)
	require.Equal(t, http.StatusCreated, elsewhere.status, "another sale is another matter")
	foreign := buy("v", drop, `{"item":"unit","quantity":1}`)
	require.Equal(t, http.StatusCreated, foreign.status, "another buyer too")
	require.NotEqual(t, first.header.Get("Location"), foreign.header.Get("Location"))
	paid := s.call(s.AdminKey(), http.MethodPost, first.header.Get("Location")+"/payments", `{"payment_id":"`+key+s.stem+`","status":"succeeded","amount":1000,"currency":"EUR"}`)
	require.Contains(t, paid.body, `"paid"`, "and another operation")

	for round := range 20 { // two requests under one key at once
		answers := crowd(2, func(i int) answer {
			a, _ := s.send(s.token(name("w", round)), http.MethodPost, "/v1/sales/"+drop+"/orders", name(`{"item":"unit","quantity":`, 1+i)+`}`, "Idempotency-Key", key)
			return a
		})
		codes := []int{answers[0].status, answers[1].status}
		require.ElementsMatch(t, []int{http.StatusCreated, http.StatusConflict}, codes, "one of them is the click")
		_, err := s.as(name("w", round)).Cancel(t.Context(), s.orderIn(answers))
		require.NoError(t, err)
	}
	s.settled(drop)
}

// orderIn returns the id of the order in the one good answer.
func (s *site) orderIn(answers []answer) string {
	s.t.Helper()
	for _, a := range answers {
		if id, found := strings.CutPrefix(a.header.Get("Location"), "/v1/orders/"); found {
			return id
		}
	}
	s.t.Fatal("no order among the answers")
	return ""
}

// The accident: a payment notice is believed though it is not from the shop's
// own provider, or was made for something else.
// The right outcome: without a key for this shop nothing is stored, and a good
// notice about one order is none about another. (Signed webhooks of providers
// have a door of their own, later.)
func TestC16NoticeMustBeTheShops(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.open(drop, 5, 1)
	other, o := s.take("other", drop, 1), s.take("u", drop, 1)
	s.pay(other)
	good := `{"payment_id":"p","status":"succeeded","amount":1000,"currency":"EUR"}`
	path := "/v1/orders/" + o.ID + "/payments"
	revoked := s.run("key", "create", "--scope", "shop")
	s.run("key", "revoke", strings.Split(revoked, "_")[1])
	stranger, _, err := foreignKey()
	require.NoError(t, err)
	for who, c := range map[string]struct {
		token string
		want  int
	}{
		"nobody":             {"", http.StatusUnauthorized},
		"garbage":            {"dbk_garbage", http.StatusUnauthorized},
		"another shop's key": {stranger, http.StatusUnauthorized},
		"a revoked key":      {revoked, http.StatusUnauthorized},
		"the buyer":          {s.token("u"), http.StatusForbidden},
		"an operator":        {s.run("key", "create", "--scope", "admin"), http.StatusForbidden},
		"a tool":             {s.run("key", "create", "--scope", "ops"), http.StatusForbidden},
	} {
		a := s.call(c.token, http.MethodPost, path, good)
		require.Equal(t, c.want, a.status, "%s: %s", who, a.body)
	}
	shop := s.run("key", "create", "--scope", "shop")
	for what, c := range map[string]struct{ body, code string }{
		"of another order": {`{"payment_id":"charge-` + other.ID + `","status":"succeeded","amount":1000,"currency":"EUR"}`, "payment_mismatch"},
		"twice":            {`{"payment_id":"p","status":"failed","status":"succeeded","amount":1000,"currency":"EUR"}`, "invalid_request"},
		"other case":       {`{"payment_id":"p","Status":"succeeded","amount":1000,"currency":"EUR"}`, "invalid_request"},
		"with more":        {`{"payment_id":"p","status":"succeeded","amount":1000,"currency":"EUR","order":"` + o.ID + `"}`, "invalid_request"},
		"without id":       {`{"status":"succeeded","amount":1000,"currency":"EUR"}`, "invalid_request"},
		"two objects":      {good + good, "invalid_request"},
		"cut off":          {good[:40], "malformed_json"},
		"negative":         {`{"payment_id":"p","status":"succeeded","amount":-1000,"currency":"EUR"}`, "invalid_request"},
	} {
		require.Equal(t, c.code, s.call(shop, http.MethodPost, path, c.body).code, what)
	}
	require.Equal(t, "order_not_found", s.call(shop, http.MethodPost, "/v1/orders/"+unlike(o.ID)+"/payments", good).code)
	require.Equal(t, "reserved", s.state(o))
	require.Equal(t, int64(1), s.settled(drop).Charges, "nothing is stored but the charge of the other order")

	for want, times := "paid", 0; times < 3; want, times = "already_paid", times+1 {
		require.Contains(t, s.call(shop, http.MethodPost, path, good).body, `"`+want+`"`)
	}
	require.Equal(t, int64(2), s.settled(drop).Paid)
}

// unlike returns a well-formed order id that differs from the given one in its
// last character, of which eight are possible.
func unlike(id string) string {
	last := "a"
	if strings.HasSuffix(id, last) {
		last = "e"
	}
	return id[:len(id)-1] + last
}

// foreignKey returns an API key that this server never saw.
func foreignKey() (text string, record ledger.APIKey, err error) {
	record, text, err = auth.NewAPIKey("elsewhere", []string{"shop"})
	return text, record, err
}

// The accident: ids can be guessed and nobody asks whose the order is, so that a
// stranger frees the unit for himself.
// The right outcome: whoever may not touch an order learns nothing and changes
// nothing, in whatever state it is.
func TestC65ForeignOrdersAreOutOfReach(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	published := s.open(drop, 10, 1)
	orders := map[string]client.Order{}
	for _, state := range []string{"reserved", "paid", "cancelled", "refunded"} {
		o := s.take("owner-"+state, drop, 1)
		orders[state] = o
		if state == "paid" || state == "refunded" {
			s.pay(o)
		}
		if state == "cancelled" {
			_, err := s.as("owner-cancelled").Cancel(t.Context(), o.ID)
			require.NoError(t, err)
		}
		if state == "refunded" {
			_, err := s.admin().Refund(t.Context(), o.ID, refundToStock())
			require.NoError(t, err)
		}
	}
	unknown := "ord_" + strings.Repeat("a", 25) + "i"
	expired, err := auth.Mint(s.secret(), auth.Claims{
		User: "owner-reserved", Issuer: "doorbuster", Audience: "doorbuster", IssuedAt: time.Unix(0, 0), Expires: time.Unix(60, 0),
	})
	require.NoError(t, err)
	type endpoint struct{ method, path, body string }
	endpoints := []endpoint{
		{http.MethodGet, "/v1/orders/ORDER", ""},
		{http.MethodPost, "/v1/orders/ORDER/cancel", ""},
		{http.MethodPost, "/v1/orders/ORDER/payments", `{"payment_id":"p","status":"succeeded","amount":1000,"currency":"EUR"}`},
		{http.MethodPost, "/v1/orders/ORDER/refund", `{"restock":true}`},
		{http.MethodGet, "/v1/admin/orders/ORDER", ""},
		{http.MethodPost, "/v1/admin/orders/ORDER/cancel", ""},
		{http.MethodGet, "/v1/admin/orders?user=owner-reserved", ""},
		{http.MethodGet, "/v1/orders?on_behalf_of=owner-reserved", ""},
		{http.MethodGet, "/v1/orders?user=owner-reserved", ""},
		{http.MethodGet, "/v1/refunds", ""},
		{http.MethodPost, "/v1/admin/sales/drop/pause", ""},
		{http.MethodPost, "/v1/admin/sales/drop/restock", `{"add":1}`},
		{http.MethodPost, "/v1/sales/drop/orders", `{"quantity":1,"on_behalf_of":"owner-cancelled"}`},
	}
	seq := func() int {
		rows, rowsErr := s.look().Rows(t.Context(), sale.Number(published.Number), 0, 1000)
		require.NoError(t, rowsErr)
		return len(rows)
	}
	before := seq()
	for who, token := range map[string]string{"nobody": "", "garbage": "a.b.c", "expired": expired, "stranger": s.token("stranger")} {
		for _, e := range endpoints {
			refused := map[string]bool{}
			for _, id := range []string{orders["reserved"].ID, orders["paid"].ID, orders["cancelled"].ID, orders["refunded"].ID, unknown} {
				a := s.call(token, e.method, strings.ReplaceAll(e.path, "ORDER", id), e.body, "Idempotency-Key", "k", "X-Request-Id", "same")
				require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity}, a.status,
					"%s, %s %s: %s", who, e.method, e.path, a.body)
				require.NotContains(t, a.body, "owner-", "%s, %s %s", who, e.method, e.path)
				refused[a.body] = true
			}
			require.Len(t, refused, 1, "%s cannot tell orders apart that exist from one that does not: %s %s", who, e.method, e.path)
		}
	}
	mine := s.call(s.token("stranger"), http.MethodGet, "/v1/orders", "")
	require.JSONEq(t, `{"data":[]}`, mine.body)
	// A shop that acts for the wrong buyer is told as little.
	shop := s.run("key", "create", "--scope", "shop")
	a := s.call(shop, http.MethodPost, "/v1/orders/"+orders["reserved"].ID+"/cancel", `{"on_behalf_of":"stranger"}`)
	require.Equal(t, "order_not_found", a.code)
	a = s.call(shop, http.MethodGet, "/v1/orders/"+orders["reserved"].ID+"?on_behalf_of=stranger", "")
	require.Equal(t, "order_not_found", a.code)
	require.Equal(t, http.StatusForbidden, s.call(shop, http.MethodPost, "/v1/admin/orders/"+orders["reserved"].ID+"/cancel", "").status)
	require.Equal(t, before, seq(), "nothing has happened")

	require.Equal(t, http.StatusOK, s.call(s.token("owner-reserved"), http.MethodGet, "/v1/orders/"+orders["reserved"].ID, "").status)
	_, err = s.as("owner-reserved").Cancel(t.Context(), orders["reserved"].ID)
	require.NoError(t, err, "the owner may")
	s.settled(drop)
}

// secret is the development key that signs buyers' tokens.
func (s *site) secret() []byte {
	s.t.Helper()
	secret, err := auth.ReadSecret(s.Dir + "/jwt.key")
	require.NoError(s.t, err)
	return secret
}
