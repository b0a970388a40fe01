package lab

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

// lie is what a fake server does wrong.
type lie int

const (
	honest    lie = iota
	oversells     // does not look at the stock
	forgetful     // does not look at the key: each click is a new order
	phantoms      // tells of orders that it does not keep
)

const (
	fakeHold  = 150 * time.Millisecond
	fakePrice = 300
)

// fakeServer is a small seller in memory that speaks as much of the HTTP API as
// a crowd uses. It exists to see crowd and books at work against a seller who
// may lie, which the real one will not do.
type fakeServer struct {
	lie lie

	mu      sync.Mutex
	stock   int64
	born    int
	orders  map[string]*client.Order
	clicks  map[click]string // order by click
	refunds []client.Refund
}

// newFakeServer starts a seller of so many units.
func newFakeServer(t *testing.T, stock int64, l lie) *httptest.Server {
	t.Helper()
	f := &fakeServer{lie: l, stock: stock, orders: make(map[string]*client.Order), clicks: make(map[click]string)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sales", f.list)
	mux.HandleFunc("POST /v1/sales/{sale}/orders", f.buy)
	mux.HandleFunc("GET /v1/orders/{order}", f.show)
	mux.HandleFunc("POST /v1/orders/{order}/cancel", f.cancel)
	mux.HandleFunc("POST /v1/orders/{order}/payments", f.pay)
	mux.HandleFunc("GET /v1/admin/sales/{sale}", f.office)
	mux.HandleFunc("GET /v1/admin/orders", f.office)
	mux.HandleFunc("GET /v1/refunds", f.office)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func respond[T any](w http.ResponseWriter, status int, body T) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code client.CodeError) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(client.Problem{Status: http.StatusConflict, Code: string(code)})
}

// userOf reads the buyer out of a token, without asking who signed it.
func userOf(r *http.Request) string {
	parts := strings.Split(r.Header.Get("Authorization"), ".")
	if len(parts) != 3 {
		return ""
	}
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Sub string }
	_ = json.Unmarshal(raw, &claims)
	return claims.Sub
}

func (f *fakeServer) list(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, client.Page[client.Sale]{})
}

// held ends what is over and returns the units held by all and by one buyer.
func (f *fakeServer) held(user string) (all, his int64) {
	for _, o := range f.orders {
		if o.State == stateReserved && time.Now().After(*o.ExpiresAt) {
			end(o, stateExpired)
		}
		if o.State != stateReserved && o.State != statePaid {
			continue
		}
		all += o.Quantity
		if o.User == user {
			his += o.Quantity
		}
	}
	return all, his
}

func end(o *client.Order, state string) {
	now := time.Now()
	o.State, o.EndedAt = state, &now
}

func (f *fakeServer) buy(w http.ResponseWriter, r *http.Request) {
	var a client.Attempt
	_ = json.NewDecoder(r.Body).Decode(&a)
	c := click{userOf(r), r.Header.Get("Idempotency-Key")}
	f.mu.Lock()
	defer f.mu.Unlock()
	all, his := f.held(c.user)
	if id, known := f.clicks[c]; known && f.lie != forgetful {
		w.Header().Set("Idempotency-Replayed", "true")
		respond(w, http.StatusOK, f.orders[id])
		return
	}
	left := f.stock - all
	switch {
	case his+a.Quantity > buyerLimit && f.lie != forgetful:
		refuse(w, client.ErrLimitReached)
		return
	case f.lie == oversells:
	case left <= 0:
		refuse(w, client.ErrSoldOut)
		return
	case a.Quantity > left:
		refuse(w, client.ErrInsufficient)
		return
	}
	o := f.bear(c.user, a.Quantity)
	if f.lie != phantoms || f.born%3 > 0 {
		f.orders[o.ID], f.clicks[c] = o, o.ID
	}
	respond(w, http.StatusCreated, o)
}

func (f *fakeServer) bear(user string, quantity int64) *client.Order {
	f.born++
	expires := time.Now().Add(fakeHold)
	return &client.Order{
		ID: fmt.Sprintf("ord-%d", f.born), Sale: saleID, SKU: "unit", Quantity: quantity, Amount: quantity * fakePrice,
		Currency: "EUR", State: stateReserved, ReservedAt: time.Now(), ExpiresAt: &expires, User: user,
	}
}

// order finds the order of a request; f.mu is held.
func (f *fakeServer) order(w http.ResponseWriter, r *http.Request) *client.Order {
	f.held("")
	o := f.orders[r.PathValue("order")]
	if o == nil {
		refuse(w, client.ErrOrderNotFound)
	}
	return o
}

func (f *fakeServer) show(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.order(w, r); o != nil {
		respond(w, http.StatusOK, o)
	}
}

func (f *fakeServer) cancel(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.order(w, r)
	switch {
	case o == nil:
	case o.State != stateReserved:
		refuse(w, client.ErrIllegalState)
	default:
		end(o, stateCancelled)
		respond(w, http.StatusOK, o)
	}
}

func (f *fakeServer) pay(w http.ResponseWriter, r *http.Request) {
	var p client.Payment
	_ = json.NewDecoder(r.Body).Decode(&p)
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.order(w, r)
	switch {
	case o == nil:
	case o.State == statePaid:
		respond(w, http.StatusOK, client.PaymentResult{Outcome: outcomeAlreadyPaid, Order: *o})
	case o.State == stateReserved:
		end(o, statePaid)
		o.PaymentID = p.ID
		respond(w, http.StatusOK, client.PaymentResult{Outcome: outcomePaid, Order: *o})
	default:
		f.refunds = append(f.refunds, client.Refund{ID: "ref-" + o.ID, PaymentID: p.ID, Order: o.ID, Amount: p.Amount})
		respond(w, http.StatusOK, client.PaymentResult{Outcome: outcomeRefundRequired, Order: *o})
	}
}

// office answers what an operator reads.
func (f *fakeServer) office(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/refunds"):
		respond(w, http.StatusOK, client.Page[client.Refund]{Data: f.refunds})
	case strings.HasSuffix(r.URL.Path, "/orders"):
		var page client.Page[client.Order]
		for _, o := range f.orders {
			page.Data = append(page.Data, *o)
		}
		respond(w, http.StatusOK, page)
	default:
		all, _ := f.held("")
		respond(w, http.StatusOK, client.AdminSale{
			ID: saleID, PerUserLimit: buyerLimit,
			Items: []client.AdminItem{{SKU: "unit", Price: fakePrice, Stock: f.stock, Sold: all, Left: max(0, f.stock-all)}},
		})
	}
}
