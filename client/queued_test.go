package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

func queuedOrder() client.Order {
	return client.Order{ID: "ord_1", Sale: "s", SKU: "a", Quantity: 1, State: client.StateQueued}
}

func rejectedOrder(reason string) client.Order {
	return client.Order{ID: "ord_1", State: client.StateRejected, Reason: reason}
}

func TestQueuedBuyIsNoError(t *testing.T) {
	t.Parallel()
	_, c := open(t, reply(http.StatusAccepted, queuedOrder(), "Doorbuster-Receipt", "r1.x", "Retry-After", "1"))
	got, err := c.Buy(t.Context(), "s", "k", client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.Equal(t, client.Bought{Order: queuedOrder(), Key: "k", Receipt: "r1.x"}, got)
}

func TestBuyWithOptions(t *testing.T) {
	t.Parallel()
	for wait, prefer := range map[time.Duration]string{
		0: "", -time.Second: "", time.Millisecond: "wait=1", 2 * time.Second: "wait=2", 2001 * time.Millisecond: "wait=3", time.Hour: "wait=20",
	} {
		var header http.Header
		_, c := open(t, func(w http.ResponseWriter, r *http.Request) {
			header = r.Header
			reply(http.StatusAccepted, queuedOrder(), "Idempotency-Replayed", "true")(w, r)
		})
		got, err := c.BuyWith(t.Context(), "s", client.BuyOptions{Key: "k", Wait: wait, Receipt: "r1.x"}, client.Attempt{Quantity: 1})
		require.NoError(t, err)
		require.Equal(t, prefer, header.Get("Prefer"))
		require.Equal(t, "k", header.Get("Idempotency-Key"))
		require.Equal(t, "r1.x", header.Get("Doorbuster-Receipt"))
		require.Equal(t, "r1.x", got.Receipt, "a replay need not repeat it")
		require.True(t, got.Replayed)
	}
}

// A rejection is one error whichever way it is learned: while waiting, by the same
// key, or by following.
func TestRejectionIsAnError(t *testing.T) {
	t.Parallel()
	for reason, code := range map[string]client.CodeError{
		"sold_out": client.ErrSoldOut, "stock_reduced": client.ErrSoldOut, "limit_reached": client.ErrLimitReached, "cool_down": client.ErrCoolDown,
		"too_late": client.ErrRejected, "sale_gone": client.ErrRejected, "unreadable": client.ErrRejected, "of a later version": client.ErrRejected,
	} {
		waited := client.Problem{Type: "about:blank", Title: "Conflict", Status: http.StatusConflict, Code: string(code), Orders: []client.Order{rejectedOrder(reason)}}
		d, c := open(t, lose, reply(http.StatusConflict, waited, "Content-Type", "application/problem+json"), reply(http.StatusOK, rejectedOrder(reason), "Idempotency-Replayed", "true"))
		for range 3 {
			got, err := c.BuyWith(t.Context(), "s", client.BuyOptions{Key: "k", Wait: time.Second}, client.Attempt{Quantity: 1})
			require.ErrorIs(t, err, code, reason)
			require.Equal(t, rejectedOrder(reason), got.Order)
			o, rejected := client.Rejection(err)
			require.True(t, rejected)
			require.Equal(t, reason, o.Reason)
			_, err = c.Follow(t.Context(), got)
			require.ErrorIs(t, err, code, reason)
		}
		require.Len(t, d.seen(), 4, "nothing is repeated but what was lost, and nothing followed")
	}
	_, c := open(t, problem(http.StatusConflict, "sold_out"))
	_, err := c.Buy(t.Context(), "s", "k", client.Attempt{Quantity: 1})
	_, rejected := client.Rejection(err)
	require.False(t, rejected, "a refusal at the door")
	_, rejected = client.Rejection(io.EOF)
	require.False(t, rejected)
	_, rejected = client.Rejection(nil)
	require.False(t, rejected)
}

// text is an order as the server writes it.
func text(o client.Order) string {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		judged := queuedOrder()
		judged.State = client.StateReserved
		var at []time.Time
		var requests []*http.Request
		c := watchedClient(t, func(try int, r *http.Request) (*http.Response, error) {
			at, requests = append(at, time.Now()), append(requests, r)
			switch try {
			case 1, 2:
				return response(http.StatusOK, text(queuedOrder()), "Retry-After", "1"), nil
			case 3, 4, 5, 6: // as often as one call is tried
				return response(http.StatusServiceUnavailable, `{"code":"unavailable"}`, "Retry-After", "2"), nil
			case 7, 8, 9, 10:
				return nil, io.ErrUnexpectedEOF
			case 11:
				return response(http.StatusServiceUnavailable, `{"code":"busy"}`, "Retry-After", "60"), nil
			}
			return response(http.StatusOK, text(judged)), nil
		})
		bought := client.Bought{Order: queuedOrder(), Key: "k", Receipt: "r1.x"}
		bought.Order.User = "ann" // as API keys see it
		got, err := c.Follow(t.Context(), bought)
		require.NoError(t, err)
		require.Equal(t, judged, got)
		require.Len(t, requests, 12)
		for _, r := range requests {
			require.Equal(t, "http://door/v1/orders/ord_1?on_behalf_of=ann", r.URL.String())
			require.Equal(t, "wait=20", r.Header.Get("Prefer"))
			require.Equal(t, "r1.x", r.Header.Get("Doorbuster-Receipt"))
		}
		for i, pause := range map[int]time.Duration{1: time.Second, 2: time.Second, 6: 2 * time.Second, 11: time.Minute} {
			require.GreaterOrEqual(t, at[i].Sub(at[i-1]), pause, i)
		}
	})
}

// watchedClient is offline with a look at the requests.
func watchedClient(t *testing.T, fn func(try int, r *http.Request) (*http.Response, error)) *client.Client {
	t.Helper()
	try := 0
	c, err := client.New(client.Options{URL: "http://door", HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		try++
		return fn(try, r)
	})}})
	require.NoError(t, err)
	return c
}

func TestFollowWhatIsJudged(t *testing.T) {
	t.Parallel()
	d, c := open(t, problem(http.StatusTeapot, "x"))
	for _, state := range []string{client.StateReserved, client.StatePaid, client.StateCancelled} {
		o, err := c.Follow(t.Context(), client.Bought{Order: client.Order{State: state}})
		require.NoError(t, err)
		require.Equal(t, state, o.State)
	}
	require.Empty(t, d.seen())
}

func TestFollowIsRefused(t *testing.T) {
	t.Parallel()
	for _, code := range []client.CodeError{client.ErrOrderNotFound, client.ErrUnauthenticated} {
		d, c := open(t, problem(http.StatusNotFound, string(code)))
		o, err := c.Follow(t.Context(), client.Bought{Order: queuedOrder()})
		require.ErrorIs(t, err, code)
		require.Equal(t, queuedOrder(), o)
		require.Len(t, d.seen(), 1)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forever := func(int, *http.Request) (*http.Response, error) {
			return response(http.StatusOK, text(queuedOrder()), "Retry-After", "1"), nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		started := time.Now()
		_, err := watchedClient(t, forever).Follow(ctx, client.Bought{Order: queuedOrder()})
		require.ErrorIs(t, err, client.ErrStillQueued)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, client.CodeOf(err).Unsure(), "nothing was to be carried out")
		require.LessOrEqual(t, time.Since(started), time.Minute)

		stopped, stop := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, stop)
		_, err = watchedClient(t, forever).Follow(stopped, client.Bought{Order: queuedOrder()})
		require.ErrorIs(t, err, client.ErrStillQueued)
		require.ErrorIs(t, err, context.Canceled)

		started = time.Now()
		_, err = watchedClient(t, func(int, *http.Request) (*http.Response, error) { return nil, errors.New("down") }).
			Follow(t.Context(), client.Bought{Order: queuedOrder()})
		require.ErrorIs(t, err, client.ErrStillQueued)
		require.ErrorContains(t, err, "down")
		require.InDelta(t, 15, time.Since(started).Minutes(), 0.2, "the bound of its own")
	})
}

// A try may take as long as the server was asked to wait.
func TestWaitingTriesHaveTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		c := watchedClient(t, func(_ int, r *http.Request) (*http.Response, error) {
			deadline, _ := r.Context().Deadline()
			left = time.Until(deadline)
			return response(http.StatusOK, `{}`), nil
		})
		_, err := c.OrderWith(t.Context(), "o", client.OrderOptions{Wait: 7 * time.Second})
		require.NoError(t, err)
		require.Equal(t, 17*time.Second, left)
		_, err = c.Order(t.Context(), "o")
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, left)
	})
}

func TestDeadLetterIsRead(t *testing.T) {
	t.Parallel()
	_, c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, strings.NewReader(`{"letter":"dlq_x","sale":"s","raw":"Af8=","state":"dropped","parked_at":"2026-11-27T08:00:00Z"}`))
	})
	l, err := c.DropLetter(t.Context(), "dlq_x")
	require.NoError(t, err)
	require.Equal(t, []byte{1, 0xff}, l.Raw)
	require.Nil(t, l.Attempt)
}
