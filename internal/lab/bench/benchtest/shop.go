// Package benchtest holds a small seller in memory that speaks as much of the HTTP API
// as a bench uses, and that can lie. It exists to see checks fail, which a real server
// will not do for them.
package benchtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// Lie is what a shop does wrong.
type Lie int

// The lies.
const (
	Honest    Lie = iota
	Oversells     // P1: sells one unit more than there are
	GivesUp       // P2: says sold_out from the first attempt on
	Forgets       // P3: does not look at the limit
	Hides         // P3: keeps an order and says sold_out
	Repeats       // P4: makes an order of each request, whatever its key
	Invents       // P5: tells of an order that it does not keep
	Swaps         // P5: keeps an order for somebody else
	Loses         // P7: says paid and does not record it
	Breaks        // P9: answers with an internal error
	Blames        // no lie at all: it is out of order and says so, to everybody
	Pauses        // nor is this one: it is paused
	Unaudited     // audits nothing
	Stalls        // makes a sale and does not say so until the caller has gone
)

// Shop is a seller of one sale.
type Shop struct {
	URL string
	lie Lie

	mu     sync.Mutex
	sale   client.AdminSale
	orders []*client.Order
	clicks map[string]*client.Order
	born   int
}

// Serve starts a shop, which ends with the test.
func Serve(tb testing.TB, lie Lie) *Shop {
	tb.Helper()
	s := &Shop{lie: lie, clicks: make(map[string]*client.Order)}
	mux := http.NewServeMux()
	handle := func(pattern string, h func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			h(w, r)
		})
	}
	handle("GET /v1/sales", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, client.Page[client.Sale]{}) })
	handle("GET /v1/sales/{sale}", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, client.Sale{ID: s.sale.ID}) })
	handle("POST /v1/sales/{sale}/orders", s.buy)
	handle("POST /v1/orders/{order}/cancel", s.cancel)
	handle("POST /v1/orders/{order}/payments", s.pay)
	handle("GET /v1/refunds", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, client.Page[client.Refund]{}) })
	handle("GET /v1/admin/stats", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, client.Stats{Time: time.Now()}) })
	handle("POST /v1/admin/sales", s.create)
	handle("GET /v1/admin/sales/{sale}", s.show)
	handle("DELETE /v1/admin/sales/{sale}", s.delete)
	handle("POST /v1/admin/sales/{sale}/publish", s.publish)
	handle("POST /v1/admin/sales/{sale}/close", s.close)
	handle("GET /v1/admin/orders", s.list)
	handle("POST /v1/admin/sales/{sale}/audit", s.audit)
	handle("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "no_such_path") })
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func answer[T any](w http.ResponseWriter, status int, body T) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a caller who has gone needs none
}

func refuse(w http.ResponseWriter, status int, code client.CodeError) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(client.Problem{Status: status, Code: string(code)})
}

func (s *Shop) create(w http.ResponseWriter, r *http.Request) {
	var n client.NewSale
	if json.NewDecoder(r.Body).Decode(&n) != nil || len(n.Items) != 1 {
		refuse(w, http.StatusUnprocessableEntity, client.ErrInvalid)
		return
	}
	s.sale = client.AdminSale{
		ID: n.ID, Version: 1, State: draft, Status: "scheduled", PerUserLimit: n.PerUserLimit, Currency: n.Currency, Path: "direct", PreferredPath: "direct",
		Items: []client.AdminItem{{SKU: n.Items[0].SKU, Price: n.Items[0].Price, Stock: n.Items[0].Stock}},
	}
	if s.lie == Stalls {
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
	}
	answer(w, http.StatusCreated, s.sale)
}

// The states of a sale.
const (
	draft   = "draft"
	closed  = "closed"
	deleted = "deleted"
)

func (s *Shop) publish(w http.ResponseWriter, r *http.Request) {
	s.sale.State = "published"
	s.show(w, r)
}

func (s *Shop) delete(w http.ResponseWriter, _ *http.Request) {
	if s.sale.State != draft {
		refuse(w, http.StatusConflict, client.ErrIllegalState)
		return
	}
	s.sale.State = deleted
	w.WriteHeader(http.StatusNoContent)
}

// count returns the units held by all and by one user.
func (s *Shop) count(user string) (all, his int64) {
	for _, o := range s.orders {
		if o.State == client.StateReserved || o.State == client.StatePaid {
			all += o.Quantity
			if o.User == user {
				his += o.Quantity
			}
		}
	}
	return all, his
}

func (s *Shop) show(w http.ResponseWriter, _ *http.Request) {
	it := &s.sale.Items[0]
	it.Sold, _ = s.count("")
	it.Left = max(0, it.Stock-it.Sold)
	answer(w, http.StatusOK, s.sale)
}

func (s *Shop) audit(w http.ResponseWriter, _ *http.Request) {
	found := client.AuditReport{At: time.Now()}
	if s.lie != Unaudited {
		found.Sales = []client.AuditSale{{ID: s.sale.ID}}
	}
	answer(w, http.StatusOK, found)
}

func (s *Shop) close(w http.ResponseWriter, r *http.Request) {
	if s.sale.State == draft {
		refuse(w, http.StatusConflict, client.ErrIllegalState)
		return
	}
	s.sale.State, s.sale.Status = closed, closed
	s.show(w, r)
}

// Closed reports whether the sale was closed.
func (s *Shop) Closed() bool { return s.state() == closed }

// Made reports whether there is, or was, a sale.
func (s *Shop) Made() bool { return s.state() != "" }

// Deleted reports whether the draft of the sale was deleted.
func (s *Shop) Deleted() bool { return s.state() == deleted }

func (s *Shop) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sale.State
}

// Orders returns how many orders there are.
func (s *Shop) Orders() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.orders)
}

func (s *Shop) list(w http.ResponseWriter, _ *http.Request) {
	var page client.Page[client.Order]
	for _, o := range s.orders {
		page.Data = append(page.Data, *o)
	}
	answer(w, http.StatusOK, page)
}

func (s *Shop) buy(w http.ResponseWriter, r *http.Request) {
	var a client.Attempt
	_ = json.NewDecoder(r.Body).Decode(&a) // what cannot be read buys nothing
	user := userOf(r)
	click := user + " " + r.Header.Get("Idempotency-Key")
	if o := s.clicks[click]; o != nil && s.lie != Repeats {
		w.Header().Set("Idempotency-Replayed", "true")
		answer(w, http.StatusOK, own(o))
		return
	}
	all, his := s.count(user)
	stock := s.sale.Items[0].Stock
	if s.lie == Oversells {
		stock++
	}
	switch {
	case s.lie == Blames:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, client.ErrUnavailable)
	case s.lie == Pauses:
		refuse(w, http.StatusConflict, client.ErrPaused)
	case s.lie == GivesUp:
		refuse(w, http.StatusConflict, client.ErrSoldOut)
	case his+a.Quantity > s.sale.PerUserLimit && s.lie != Forgets && s.lie != Repeats:
		refuse(w, http.StatusConflict, client.ErrLimitReached)
	case all+a.Quantity > stock:
		refuse(w, http.StatusConflict, client.ErrSoldOut)
	default:
		s.sell(w, user, click, a.Quantity)
	}
}

// userOf reads the buyer out of a token, without asking who signed it; what is no JWT
// is itself a name.
func userOf(r *http.Request) string {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return token
	}
	var claims struct {
		Sub string `json:"sub"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return token
	}
	return claims.Sub
}

// sell makes an order. Of every third the shop lies, so that not all goes wrong.
func (s *Shop) sell(w http.ResponseWriter, user, click string, quantity int64) {
	s.born++
	o := &client.Order{
		ID: fmt.Sprintf("ord_%d", s.born), Sale: s.sale.ID, SKU: s.sale.Items[0].SKU, Quantity: quantity, Amount: quantity * s.sale.Items[0].Price,
		Currency: s.sale.Currency, State: client.StateReserved, ReservedAt: time.Now(), User: user,
	}
	lies := s.born%3 == 0
	if !lies || s.lie != Invents {
		s.orders, s.clicks[click] = append(s.orders, o), o
	}
	switch {
	case lies && s.lie == Breaks:
		refuse(w, http.StatusInternalServerError, "internal")
		return
	case lies && s.lie == Hides:
		refuse(w, http.StatusConflict, client.ErrSoldOut)
		return
	}
	answer(w, http.StatusCreated, own(o))
	if lies && s.lie == Swaps {
		o.User = "somebody"
	}
}

// own is an order as its buyer sees it.
func own(o *client.Order) client.Order {
	out := *o
	out.User, out.PaymentID = "", ""
	return out
}

// find returns the order of a request, nil if there is none.
func (s *Shop) find(r *http.Request) *client.Order {
	for _, o := range s.orders {
		if o.ID == r.PathValue("order") {
			return o
		}
	}
	return nil
}

func (s *Shop) cancel(w http.ResponseWriter, r *http.Request) {
	o := s.find(r)
	if o == nil {
		refuse(w, http.StatusNotFound, client.ErrOrderNotFound)
		return
	}
	now := time.Now()
	o.State, o.EndedAt = client.StateCancelled, &now
	answer(w, http.StatusOK, own(o))
}

func (s *Shop) pay(w http.ResponseWriter, r *http.Request) {
	var p client.Payment
	_ = json.NewDecoder(r.Body).Decode(&p) // an empty one pays nothing
	o := s.find(r)
	if o == nil {
		refuse(w, http.StatusNotFound, client.ErrOrderNotFound)
		return
	}
	after := own(o)
	after.State = client.StatePaid
	if s.lie != Loses {
		o.State, o.PaymentID = client.StatePaid, p.ID
	}
	answer(w, http.StatusOK, client.PaymentResult{Outcome: "paid", Order: after})
}
