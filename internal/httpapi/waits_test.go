package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const longest = "wait=20"

// asking sends a request that waits, and returns where its answer will be.
func (w *world) asking(t *testing.T, who, line, body string, headers ...string) <-chan answer {
	t.Helper()
	out := make(chan answer, 1)
	go func() {
		a, err := w.try(t.Context(), who, line, body, append(headers, "Prefer", longest)...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		out <- a
	}()
	return out
}

// buying sends a buy that waits. It asks again while the engine learns the time of a
// sale that has just come to the fast path.
func (w *world) buying(t *testing.T, user, slug string) <-chan answer {
	t.Helper()
	out, who := make(chan answer, 1), buyer(t, user)
	go func() {
		for {
			a, err := w.try(t.Context(), who, "POST /v1/sales/"+slug+"/orders", one, "Idempotency-Key", "k", "Prefer", longest)
			if err != nil {
				t.Errorf("buy: %v", err)
			}
			if err != nil || a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), `"busy"`) {
				out <- a
				return
			}
		}
	}()
	return out
}

func TestBuyersWaitForTheJudge(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 3)
	a := w.buying(t, "u1", "drop")
	w.waiters(t, 1)
	w.slips(t, "drop", 1)
	w.judge(t, "drop")
	got := <-a
	o := want[client.Order](t, http.StatusCreated, got)
	require.Equal(t, "reserved", o.State)
	require.Equal(t, "/v1/orders/"+o.ID, got.header.Get("Location"))
	require.Equal(t, "wait=10", got.header.Get("Preference-Applied"), "the bound of a request")
	require.Empty(t, got.header.Get("Doorbuster-Receipt"))
	require.Empty(t, got.header.Get("Retry-After"))
	w.waiters(t, 0)

	// Whoever repeats or looks waits too.
	want[client.Order](t, http.StatusAccepted, w.buy(t, buyer(t, "u2"), "drop", "k", one))
	again := w.buying(t, "u2", "drop")
	id := w.idOf(t, "drop", "u2", "k")
	look := w.asking(t, buyer(t, "u2"), "GET /v1/orders/"+id, "")
	shop := w.asking(t, w.shop, "GET /v1/orders/"+id+"?on_behalf_of=u2", "")
	w.waiters(t, 3)
	w.judge(t, "drop")
	got = <-again
	require.Equal(t, "reserved", want[client.Order](t, http.StatusOK, got).State)
	require.Equal(t, "true", got.header.Get("Idempotency-Replayed"))
	for _, c := range []<-chan answer{look, shop} {
		got = <-c
		require.Equal(t, "reserved", want[client.Order](t, http.StatusOK, got).State)
		require.Equal(t, "wait=10", got.header.Get("Preference-Applied"))
	}
	// Of what is judged nobody waits for anything.
	got = w.call(t, buyer(t, "u2"), "GET /v1/orders/"+id, "", "Prefer", longest)
	require.Equal(t, "reserved", want[client.Order](t, http.StatusOK, got).State)
	w.call(t, buyer(t, "u3"), "GET /v1/orders/"+id, "", "Prefer", longest).requireCode(t, http.StatusNotFound, "order_not_found")
	w.call(t, w.shop, "GET /v1/orders/"+sale.OrderID{1}.String(), "", "Prefer", longest).requireCode(t, http.StatusNotFound, "order_not_found")
}

func TestWaitingEndsInTime(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 3)
	u1 := buyer(t, "u1")
	a := w.call(t, u1, "POST /v1/sales/drop/orders", one, "Idempotency-Key", "k", "Prefer", "wait=1")
	o := want[client.Order](t, http.StatusAccepted, a)
	require.Equal(t, "wait=1", a.header.Get("Preference-Applied"))
	require.NotEmpty(t, a.header.Get("Doorbuster-Receipt"))
	a = w.call(t, u1, "GET /v1/orders/"+o.ID, "", "Prefer", "wait=1")
	require.Equal(t, o, want[client.Order](t, http.StatusOK, a))
	require.Equal(t, "1", a.header.Get("Retry-After"))
	a = w.call(t, u1, "GET /v1/orders/"+o.ID, "", "Prefer", "wait=0")
	require.Equal(t, "wait=0", a.header.Get("Preference-Applied"))

	short := buildWorld(t, settings{fast: 1, options: httpapi.Options{MaxWait: time.Second}})
	short.openFast(t, "drop", 3)
	a = <-short.buying(t, "u1", "drop")
	require.Equal(t, "queued", want[client.Order](t, http.StatusAccepted, a).State)
	require.Equal(t, "wait=1", a.header.Get("Preference-Applied"))
}

// A new order that is rejected while its buyer waits is refused; each reason has its
// code.
func TestRejectedWhileWaiting(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 9)
	rejected := func(user, code, reason string, before func()) {
		t.Helper()
		a := w.buying(t, user, "drop")
		w.waiters(t, 1)
		w.slips(t, "drop", 1) // while the clock moves no call may be on its way
		before()
		w.judge(t, "drop")
		p := (<-a).requireCode(t, http.StatusConflict, code)
		require.Len(t, p.Orders, 1)
		require.Equal(t, "rejected", p.Orders[0].State)
		require.Equal(t, reason, p.Orders[0].Reason)
		require.Contains(t, p.Hint, "new key")
		var again answer
		require.Eventually(t, func() bool { // the engine may have to learn the time first
			again = <-w.buying(t, user, "drop")
			return again.status != http.StatusServiceUnavailable
		}, patience, time.Millisecond)
		require.Equal(t, p.Orders[0], want[client.Order](t, http.StatusOK, again))
	}
	rejected("u1", "sold_out", "stock_reduced", func() { w.cut(t, "drop", 9) })
	want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+office+"/drop/restock", `{"add":9}`))
	rejected("u3", "rejected", "unreadable", func() {
		s, err := w.book.Sale(t.Context(), "drop")
		require.NoError(t, err)
		require.NoError(t, w.book.Park(t.Context(), s.Number, []ledger.Letter{letterOf(&s, 1, "u3")}))
	})
	rejected("u2", "rejected", "too_late", func() { w.store.Advance(11 * time.Minute) })
}

// Those who wait for the judge keep nobody from buying or looking.
func TestWaitersTakeNoPlaces(t *testing.T) {
	t.Parallel()
	tight := httpapi.Limit{InFlight: 1, Queue: 1, Wait: 20 * time.Second}
	w := buildWorld(t, settings{fast: 1, options: httpapi.Options{Buy: tight, Read: tight}})
	w.openFast(t, "drop", 100)
	const crowd = 5
	answers := make([]<-chan answer, 0, 2*crowd)
	for i := range crowd {
		answers = append(answers, w.buying(t, fmt.Sprint("u", i), "drop"))
		w.slips(t, "drop", int64(i)+1) // he is no stranger any more
		w.waiters(t, 2*i+1)
		id := w.idOf(t, "drop", fmt.Sprint("u", i), "k")
		answers = append(answers, w.asking(t, buyer(t, fmt.Sprint("u", i)), "GET /v1/orders/"+id, ""))
		w.waiters(t, 2*i+2)
	}
	stats := want[client.Stats](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/stats", ""))
	require.Equal(t, client.ClassLoad{}, stats.Classes.Buy)
	require.Equal(t, client.ClassLoad{}, stats.Classes.Read)
	require.Contains(t, w.metrics(t), fmt.Sprintf("doorbuster_http_waiters %d\n", 2*crowd))
	want[client.Order](t, http.StatusAccepted, w.buy(t, buyer(t, "other"), "drop", "k", one))
	require.Equal(t, http.StatusOK, w.call(t, nobody, "GET /v1/sales/drop", "").status)
	w.judge(t, "drop")
	for i, a := range answers {
		got := <-a
		require.Equal(t, []int{http.StatusCreated, http.StatusOK}[i%2], got.status, "%s", got.body)
	}
	w.waiters(t, 0)
}

// On the direct path nobody waits for a judge, and a preference frees no place.
func TestDirectBuyersKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	s := newStuck()
	w := buildWorld(t, settings{ledger: s.over, fast: 1, options: httpapi.Options{Buy: httpapi.Limit{InFlight: 1, Queue: 1, Wait: time.Minute}}})
	w.openSale(t, "drop", 100)
	first := w.buying(t, "u1", "drop")
	<-s.entered
	second := w.buying(t, "u2", "drop")
	require.Eventually(t, func() bool { return w.api.Waiting("buy") == 1 }, patience, time.Millisecond)
	w.buy(t, buyer(t, "u3"), "drop", "k", one).requireCode(t, http.StatusServiceUnavailable, "busy")
	close(s.release)
	for _, a := range []<-chan answer{first, second} {
		got := <-a
		require.Equal(t, http.StatusCreated, got.status)
		require.Equal(t, "wait=10", got.header.Get("Preference-Applied"), "the answer is the judge's")
	}
}

func TestWaitersAreCapped(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{fast: 1, options: httpapi.Options{
		Waiters: httpapi.WaiterLimits{Total: 4, PerIP: 2, PerUser: 1}, TrustedProxies: []string{"127.0.0.1"},
	}})
	w.openFast(t, "drop", 100)
	try := func(user, ip string) <-chan answer {
		return w.asking(t, buyer(t, user), "POST /v1/sales/drop/orders", one, "Idempotency-Key", "k", "X-Forwarded-For", ip)
	}
	refused := func(a <-chan answer) {
		t.Helper()
		got := <-a
		require.Equal(t, "queued", want[client.Order](t, http.StatusAccepted, got).State, "he is answered without waiting")
		require.Empty(t, got.header.Get("Preference-Applied"))
	}
	first := try("u1", "192.0.2.1")
	w.waiters(t, 1)
	refused(try("u1", "192.0.2.2"))
	second := try("u2", "192.0.2.1")
	w.waiters(t, 2)
	refused(try("u3", "192.0.2.1"))
	waiting := make([]<-chan answer, 0, 4)
	waiting = append(waiting, first, second)
	for i := range 2 { // the buyers of a shop come from its address
		user := fmt.Sprint("s", i)
		waiting = append(waiting, w.asking(t, w.shop, "POST /v1/sales/drop/orders", `{"quantity":1,"on_behalf_of":"`+user+`"}`, "Idempotency-Key", "k", "X-Forwarded-For", "192.0.2.1"))
		w.waiters(t, 3+i)
	}
	refused(try("u9", "192.0.2.9"))
	w.slips(t, "drop", 6)
	w.judge(t, "drop")
	for _, a := range waiting {
		require.Equal(t, http.StatusCreated, (<-a).status)
	}
}

// C67: a shutdown does not wait for the waiting, and nobody is told that something
// went wrong.
func TestEndOfWaits(t *testing.T) {
	t.Parallel()
	h := &heldCounter{entered: make(chan struct{}, 10), release: make(chan struct{})}
	w := buildWorld(t, settings{fast: 1, counter: h.over})
	w.openFast(t, "drop", 100)
	a := w.buying(t, "u1", "drop")
	w.slips(t, "drop", 1)
	w.waiters(t, 1)
	look := w.asking(t, buyer(t, "u1"), "GET /v1/orders/"+w.idOf(t, "drop", "u1", "k"), "")
	w.waiters(t, 2)
	h.hold()
	inside := w.buying(t, "u2", "drop") // with the counter when the end comes
	<-h.entered
	w.api.EndWaits()
	w.api.EndWaits()
	got := <-a
	require.Equal(t, "queued", want[client.Order](t, http.StatusAccepted, got).State)
	require.NotEmpty(t, got.header.Get("Doorbuster-Receipt"))
	require.Equal(t, "queued", want[client.Order](t, http.StatusOK, <-look).State)
	close(h.release)
	require.Equal(t, "queued", want[client.Order](t, http.StatusAccepted, <-inside).State)
	late := <-w.buying(t, "u3", "drop")
	require.Equal(t, "queued", want[client.Order](t, http.StatusAccepted, late).State)
	require.Empty(t, late.header.Get("Preference-Applied"))
	w.waiters(t, 0)
	w.judge(t, "drop")
	require.EqualValues(t, 97, w.left(t, "drop"))
}

// heldCounter holds takes while it is told to.
type heldCounter struct {
	stock.Counter
	mu      sync.Mutex
	holding bool
	entered chan struct{}
	release chan struct{}
}

func (h *heldCounter) over(c stock.Counter) stock.Counter { h.Counter = c; return h }

func (h *heldCounter) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holding = true
}

func (h *heldCounter) Take(ctx context.Context, c stock.Call) (stock.Reply, error) {
	h.mu.Lock()
	holding := h.holding
	h.mu.Unlock()
	if holding {
		h.entered <- struct{}{}
		<-h.release
	}
	return h.Counter.Take(ctx, c)
}
