package cases_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// rude sends a buy over a connection of its own and hangs up after a while, or
// waits for the answer if the while is 0. It returns the status, 0 for none.
func (s *site) rude(ctx context.Context, user, slug string, hangUp time.Duration) (int, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(s.address(), "http://"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	const body = `{"quantity":1}`
	_, err = fmt.Fprintf(conn, "POST /v1/sales/%s/orders HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer %s\r\nIdempotency-Key: k\r\nPrefer: wait=2\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", slug, s.token(user), len(body), body)
	if err != nil {
		return 0, err
	}
	wait := patience
	if hangUp > 0 {
		wait = hangUp
	}
	if err = conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// The accident: a client that hangs up, or a signal to stop, ends the work
// between two steps: a unit is gone and no order is there.
// The right outcome: each attempt is done, and found by its key, or undone; what
// was accepted before the signal is answered; nothing is left in between.
func TestC67HangUpsAndStopsInTheMiddleOfABuy(t *testing.T) {
	t.Parallel()
	onBothAlone(t, hangUpsAndStops)
}

func hangUpsAndStops(s *site) {
	t := s.t
	buyers, stock := s.few(1500), s.few(1000)
	drop := s.named(drop)
	s.open(drop, int64(stock), 1, hold(600))
	for i := range buyers {
		s.token(name("u", i)) // minted before the crowd
	}
	var next, answers atomic.Int64
	statuses, polite := make([]int, buyers), make([]bool, buyers)
	var crowdOf sync.WaitGroup
	for worker := range 48 {
		random := rand.New(rand.NewPCG(67, uint64(worker)))
		crowdOf.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= buyers {
					return
				}
				hangUp := time.Duration(0)
				if random.IntN(10) < 3 {
					hangUp = time.Millisecond + time.Duration(random.Int64N(int64(49*time.Millisecond)))
				}
				polite[i] = hangUp == 0
				statuses[i], _ = s.rude(t.Context(), name("u", i), drop, hangUp)
				answers.Add(1)
			}
		})
	}
	for stop := range int64(3) {
		until(t, "the crowd is served", func() bool { return answers.Load() >= (stop+1)*int64(buyers)/5 })
		s.restart()
	}
	crowdOf.Wait()
	taken := int64(0)
	for i, status := range statuses {
		require.Contains(t, []int{0, http.StatusCreated, http.StatusAccepted, http.StatusConflict, http.StatusServiceUnavailable}, status)
		bought, err := s.attempt(t.Context(), name("u", i), drop, "k", client.Attempt{Quantity: 1})
		if status == http.StatusCreated || status == http.StatusAccepted {
			require.NoError(t, err)
			require.True(t, bought.Replayed, "what was answered is found by its key")
		}
		if err != nil {
			require.ErrorIs(t, err, client.ErrSoldOut)
			continue
		}
		require.False(t, polite[i] && status == 0 && bought.Replayed, "who waited for an answer got it, or nothing was done")
		taken++
	}
	require.Equal(t, int64(stock), taken)
	require.Equal(t, int64(stock), s.settled(drop).Reserved)
}

// lossy is a proxy that hands requests on and loses some of the answers.
type lossy struct {
	address string
	lost    atomic.Int64
}

// lose stands in front of a server and cuts one connection of five after the
// request has been answered, before the answer gets through.
func lose(t *testing.T, server string, seed uint64) *lossy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &lossy{address: "http://" + listener.Addr().String()}
	var open sync.WaitGroup
	random, mu := rand.New(rand.NewPCG(seed, seed)), sync.Mutex{}
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			drops := random.IntN(5) == 0
			mu.Unlock()
			open.Go(func() { p.relay(conn, server, drops) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	return p
}

// relay carries one exchange; connections are not kept open.
func (p *lossy) relay(conn net.Conn, server string, drops bool) { //nolint:revive // which kind of connection it is
	defer func() { _ = conn.Close() }()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	onward, err := http.NewRequestWithContext(ctx, request.Method, server+request.URL.RequestURI(), request.Body)
	if err != nil {
		return
	}
	onward.Header, onward.ContentLength = request.Header, request.ContentLength
	resp, err := http.DefaultTransport.RoundTrip(onward)
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if drops {
		_, _ = io.Copy(io.Discard, resp.Body)
		p.lost.Add(1)
		return
	}
	resp.Header.Set("Connection", "close")
	_ = resp.Write(conn)
}

// The accident: the answer to a buy or a payment is lost, the buyer is told
// "failed", begins anew, and has two orders.
// The right outcome: the same key finds the order. With a new key the limit holds
// and points to what there is; where more is allowed the first order is in "my
// orders" at once. No charge is dropped.
func TestC68LostAnswersMakeNoSecondOrder(t *testing.T) {
	t.Parallel()
	t.Run("network", func(t *testing.T) {
		t.Parallel()
		onBoth(t, lostOnTheWay)
	})
	t.Run("ledger", lostBehindTheLedger)
}

// lostBehindTheLedger loses the answer of a commit that was carried out.
func lostBehindTheLedger(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(1, 1)
	first := s.take("first", 1)
	until(t, "the instance refuses from memory", func() bool {
		r := s.try("late", s.key(), 1)
		require.NoError(t, r.err)
		return r.Times.Ledger == 0
	})
	s.cancel(first)
	lost := func(statement string) error {
		if statement == "committed" {
			return errors.New("the line went dead")
		}
		return nil
	}
	s.before.Store(&lost)
	require.ErrorIs(t, s.try("u", "k", 1).err, sale.Unavailable(nil))
	s.before.Store(nil)
	require.Equal(t, sale.SoldOut, s.buy("late", s.key(), 1).Verdict)
	require.Equal(t, sale.Replayed, s.buy("u", "k", 1).Verdict, "the order is found although nobody here knew of it")
	require.Equal(t, sale.LimitReached, s.buy("u", "anew", 1).Verdict)
	s.settled()
}

// lostOnTheWay loses one answer of five between server and client.
func lostOnTheWay(s *site) {
	t := s.t
	proxy := lose(t, s.address(), 68)
	one, five := s.named("one"), s.named("five")
	s.open(one, 200, 1)
	s.open(five, 400, 5)
	direct := s.admin()
	transport := &http.Transport{DisableKeepAlives: true}
	base, err := client.New(client.Options{URL: proxy.address, HTTPClient: &http.Client{Transport: transport}, Retry: client.Retry{Tries: 1}})
	require.NoError(t, err)
	type story struct {
		err            error
		first, second  string // orders by key
		told           string // the order that a refusal pointed to
		listed, orders int
	}
	live := func(slug string) func(int) story {
		return func(i int) (out story) {
			user := name("u", i)
			buyer := base.As(s.token(user))
			buy := func(key string) (client.Bought, error) {
				var bought client.Bought
				var err error
				for range 3 { // a client that gives up after three tries
					o := client.BuyOptions{Key: key, Wait: hear}
					if bought, err = buyer.BuyWith(t.Context(), slug, o, client.Attempt{Quantity: 1}); !client.CodeOf(err).Unsure() {
						return bought, err
					}
				}
				return bought, err
			}
			first, err := buy("first")
			out.first = first.Order.ID
			if err != nil && !client.CodeOf(err).Unsure() {
				return story{err: err}
			}
			mine, err := s.as(user).Orders(t.Context(), client.OrderQuery{Sale: slug})
			if err != nil {
				return story{err: err}
			}
			out.listed = len(mine.Data)
			second, err := buy("second")
			out.second = second.Order.ID
			var refused *client.Error
			if asError(err, &refused) && refused.Code == "limit_reached" {
				out.told = refused.Orders[0].ID
			}
			mine, err = s.as(user).Orders(t.Context(), client.OrderQuery{Sale: slug})
			if err != nil {
				return story{err: err}
			}
			out.orders = len(mine.Data)
			for _, o := range mine.Data {
				shop := base.As(s.AdminKey())
				for range 3 {
					if _, err = shop.Pay(t.Context(), o.ID, charge(o, "charge-"+o.ID)); err == nil {
						break
					}
				}
			}
			return out
		}
	}
	for _, slug := range []string{one, five} {
		for i, got := range crowd(80, live(slug)) {
			require.NoError(t, got.err)
			require.Equal(t, 1, got.listed, "the first order is there, also where its answer was lost three times")
			if slug == one {
				require.Equal(t, 1, got.orders, "user %d has one order", i)
				require.Empty(t, got.second)
			} else {
				require.Equal(t, 2, got.orders, "user %d wanted two", i)
			}
			if got.told != "" && got.first != "" {
				require.Equal(t, got.first, got.told, "the refusal points to the first order")
			}
		}
	}
	require.Positive(t, proxy.lost.Load())
	// What was charged is booked, also where the provider heard nothing of it.
	for _, slug := range []string{one, five} {
		page, err := direct.AdminOrders(t.Context(), client.OrderQuery{Sale: slug, State: "reserved", Limit: 500})
		require.NoError(t, err)
		for _, o := range page.Data {
			require.Equal(t, "paid", s.pay(o).Outcome)
		}
	}
	require.Equal(t, int64(80), s.settled(one).Paid)
	require.Equal(t, int64(160), s.settled(five).Paid)
}
