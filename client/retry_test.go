package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

func TestBuyKeepsItsKeyOverLostReplies(t *testing.T) {
	t.Parallel()
	d, c := open(t, lose, problem(http.StatusServiceUnavailable, "unavailable"), garble(http.StatusBadGateway), reply(http.StatusOK, client.Order{ID: "ord_1"}, "Idempotency-Replayed", "true"))
	got, err := c.Buy(t.Context(), "s", "", client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.True(t, got.Replayed)
	require.Equal(t, "ord_1", got.Order.ID)
	require.GreaterOrEqual(t, len(got.Key), 22, "128 bits at least")
	require.Len(t, d.seen(), 4)
	for _, s := range d.seen() {
		require.Equal(t, got.Key, s.Key)
		require.JSONEq(t, `{"quantity":1}`, s.Body, "each try carries the whole body")
	}
	again, err := c.Buy(t.Context(), "s", "", client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.NotEqual(t, got.Key, again.Key, "another click")
}

func garble(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		garbage(w, r)
	}
}

func TestBuyReturnsItsKeyOnErrors(t *testing.T) {
	t.Parallel()
	_, c := open(t, problem(http.StatusConflict, "sold_out"))
	got, err := c.Buy(t.Context(), "s", "", client.Attempt{Quantity: 1})
	require.ErrorIs(t, err, client.ErrSoldOut)
	require.NotEmpty(t, got.Key)
	require.Equal(t, client.ErrSoldOut, client.CodeOf(err))
}

func TestBusinessAnswersAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, code := range []client.CodeError{client.ErrSoldOut, client.ErrLimitReached, client.ErrNotStarted, client.ErrPaused} {
		d, c := open(t, problem(http.StatusConflict, string(code), "Retry-After", "0"))
		_, err := c.Buy(t.Context(), "s", "k", client.Attempt{Quantity: 1})
		require.ErrorIs(t, err, code)
		require.Len(t, d.seen(), 1)
		e, ok := errors.AsType[*client.Error](err)
		require.True(t, ok)
		require.Equal(t, "the detail", e.Detail)
		require.Equal(t, "the hint", e.Hint)
		require.Equal(t, 1, e.Tries)
	}
}

func TestTriesAreBounded(t *testing.T) {
	t.Parallel()
	d, c := open(t, lose)
	_, err := c.Cancel(t.Context(), "ord_1")
	require.ErrorIs(t, err, client.ErrNoAnswer)
	require.True(t, client.CodeOf(err).Unsure())
	e, _ := errors.AsType[*client.Error](err)
	require.Equal(t, 4, e.Tries)
	require.Len(t, d.seen(), 4)
}

func TestWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	add, total := int64(5), int64(50)
	calls := map[string]struct {
		safe bool
		do   func(ctx context.Context, c *client.Client) error
	}{
		"read": {true, func(ctx context.Context, c *client.Client) error { _, err := c.Sales(ctx); return err }},
		"pay": {true, func(ctx context.Context, c *client.Client) error {
			_, err := c.Pay(ctx, "o", client.Payment{ID: "p"})
			return err
		}},
		"cancel": {true, func(ctx context.Context, c *client.Client) error { _, err := c.Cancel(ctx, "o"); return err }},
		"refund": {true, func(ctx context.Context, c *client.Client) error {
			_, err := c.Refund(ctx, "o", client.RefundRequest{})
			return err
		}},
		"refund done": {true, func(ctx context.Context, c *client.Client) error { _, err := c.RefundDone(ctx, "r"); return err }},
		"pause":       {true, func(ctx context.Context, c *client.Client) error { _, err := c.Pause(ctx, "s"); return err }},
		"delete":      {true, func(ctx context.Context, c *client.Client) error { return c.DeleteSale(ctx, "s", 1) }},
		"set stock": {true, func(ctx context.Context, c *client.Client) error {
			_, err := c.Restock(ctx, "s", 0, client.Restock{Stock: &total})
			return err
		}},
		"set stock of a version": {false, func(ctx context.Context, c *client.Client) error {
			_, err := c.Restock(ctx, "s", 2, client.Restock{Stock: &total})
			return err
		}},
		"preheat": {true, func(ctx context.Context, c *client.Client) error { _, err := c.Preheat(ctx, "s"); return err }},
		"set path": {true, func(ctx context.Context, c *client.Client) error {
			_, err := c.SetPath(ctx, "s", 0, "fast")
			return err
		}},
		"set path of a version": {false, func(ctx context.Context, c *client.Client) error {
			_, err := c.SetPath(ctx, "s", 2, "fast")
			return err
		}},
		"replay a letter": {true, func(ctx context.Context, c *client.Client) error { _, err := c.ReplayLetter(ctx, "l"); return err }},
		"drop a letter":   {true, func(ctx context.Context, c *client.Client) error { _, err := c.DropLetter(ctx, "l"); return err }},
		"audit":           {true, func(ctx context.Context, c *client.Client) error { _, err := c.Audit(ctx, "s"); return err }},
		"add stock": {false, func(ctx context.Context, c *client.Client) error {
			_, err := c.Restock(ctx, "s", 0, client.Restock{Add: &add})
			return err
		}},
		"create": {false, func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateSale(ctx, client.NewSale{})
			return err
		}},
		"patch": {false, func(ctx context.Context, c *client.Client) error {
			_, err := c.PatchSale(ctx, "s", 1, client.SalePatch{})
			return err
		}},
	}
	unsure := map[string]http.HandlerFunc{
		"lost":        lose,
		"unavailable": problem(http.StatusServiceUnavailable, "unavailable"),
		"gateway":     garble(http.StatusGatewayTimeout),
	}
	for name, call := range calls {
		for trouble, step := range unsure {
			t.Run(name+" after "+trouble, func(t *testing.T) {
				t.Parallel()
				d, c := open(t, step, reply(http.StatusOK, struct{}{}))
				err := call.do(t.Context(), c)
				if call.safe {
					require.NoError(t, err)
					require.Len(t, d.seen(), 2)
					return
				}
				require.True(t, client.CodeOf(err).Unsure(), "%v", err)
				require.Len(t, d.seen(), 1, "it might be carried out twice")
			})
		}
		for _, code := range []string{"busy", "rate_limited"} {
			t.Run(name+" after "+code, func(t *testing.T) {
				t.Parallel()
				d, c := open(t, problem(http.StatusServiceUnavailable, code), reply(http.StatusOK, struct{}{}))
				require.NoError(t, call.do(t.Context(), c))
				require.Len(t, d.seen(), 2, "nothing had been done")
			})
		}
	}
}

func TestLostPauseIsFoundDone(t *testing.T) {
	t.Parallel()
	d, c := open(t, lose, problem(http.StatusConflict, "illegal_state"), reply(http.StatusOK, client.AdminSale{ID: "s", State: "paused"}))
	s, err := c.Pause(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, "paused", s.State)
	require.Equal(t, "GET", d.seen()[2].Method)
}

func TestPauseOfAPausedSaleIsAnError(t *testing.T) {
	t.Parallel()
	d, c := open(t, problem(http.StatusConflict, "illegal_state"))
	_, err := c.Pause(t.Context(), "s")
	require.ErrorIs(t, err, client.ErrIllegalState)
	require.Len(t, d.seen(), 1)
}

func TestLostPauseThatDidNotHappen(t *testing.T) {
	t.Parallel()
	_, c := open(t, lose, problem(http.StatusConflict, "illegal_state"), reply(http.StatusOK, client.AdminSale{State: "closed"}))
	_, err := c.Pause(t.Context(), "s")
	require.ErrorIs(t, err, client.ErrIllegalState)
}

func TestLostDeleteIsFoundDone(t *testing.T) {
	t.Parallel()
	_, c := open(t, lose, problem(http.StatusNotFound, "sale_not_found"))
	require.NoError(t, c.DeleteSale(t.Context(), "s", 1))
	_, c = open(t, problem(http.StatusNotFound, "sale_not_found"))
	require.ErrorIs(t, c.DeleteSale(t.Context(), "s", 1), client.ErrSaleNotFound)
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := []time.Time{}
		c := offline(t, client.Retry{MaxPause: 10 * time.Second}, func(int) (*http.Response, error) {
			at = append(at, time.Now())
			if len(at) == 1 {
				return response(http.StatusServiceUnavailable, `{"code":"busy"}`, "Retry-After", "3"), nil
			}
			return response(http.StatusOK, `{}`), nil
		})
		_, err := c.Order(t.Context(), "o")
		require.NoError(t, err)
		require.GreaterOrEqual(t, at[1].Sub(at[0]), 3*time.Second)
		require.Less(t, at[1].Sub(at[0]), 4*time.Second)
	})
}

func TestRetryAfterBeyondPatienceIsReturned(t *testing.T) {
	t.Parallel()
	d, c := open(t, problem(http.StatusTooManyRequests, "rate_limited", "Retry-After", "60"))
	_, err := c.Sales(t.Context())
	e, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	require.ErrorIs(t, err, client.ErrRateLimited)
	require.Equal(t, time.Minute, e.RetryAfter)
	require.Len(t, d.seen(), 1)
}

func TestRetryAfterAsDate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		when := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
		c := offline(t, client.Retry{}, func(int) (*http.Response, error) {
			return response(http.StatusServiceUnavailable, `{"code":"busy"}`, "Retry-After", when), nil
		})
		_, err := c.Sales(t.Context())
		e, ok := errors.AsType[*client.Error](err)
		require.True(t, ok)
		require.InDelta(t, 90, e.RetryAfter.Seconds(), 1)
	})
}

func TestPausesDoubleAndStayBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		c := offline(t, client.Retry{Tries: 8, Pause: 100 * time.Millisecond, MaxPause: time.Second}, func(int) (*http.Response, error) {
			at = append(at, time.Now())
			return nil, io.ErrUnexpectedEOF
		})
		_, err := c.Sales(t.Context())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Len(t, at, 8)
		for i, want := range []time.Duration{ms(100), ms(200), ms(400), ms(800), ms(1000), ms(1000), ms(1000)} {
			got := at[i+1].Sub(at[i])
			require.GreaterOrEqual(t, got, want/2, "pause %d", i)
			require.LessOrEqual(t, got, want, "pause %d", i)
		}
	})
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func TestDeadlineIsNotSleptThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := offline(t, client.Retry{MaxPause: time.Minute}, func(int) (*http.Response, error) {
			return response(http.StatusServiceUnavailable, `{"code":"busy"}`, "Retry-After", "10"), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.Sales(ctx)
		require.ErrorIs(t, err, client.ErrBusy)
		require.Zero(t, time.Since(start), "the answer is known now, not in five seconds")
	})
}

func TestHangingServerIsLeft(t *testing.T) {
	t.Parallel()
	_, c := open(t, hang)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := c.Buy(ctx, "s", "k", client.Attempt{Quantity: 1})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, client.ErrNoAnswer)
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestATryThatHangsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		c, err := client.New(client.Options{
			URL: "http://door", Retry: client.Retry{TryTimeout: time.Second},
			HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if tries.Add(1) == 1 {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return response(http.StatusOK, `{"order":"ord_1"}`), nil
			})},
		})
		require.NoError(t, err)
		o, err := c.Order(t.Context(), "ord_1")
		require.NoError(t, err)
		require.Equal(t, "ord_1", o.ID)
	})
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	c, err := client.New(client.Options{URL: url, Retry: quick()})
	require.NoError(t, err)
	_, err = c.CreateSale(t.Context(), client.NewSale{})
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.False(t, client.CodeOf(err).Unsure())
	e, _ := errors.AsType[*client.Error](err)
	require.Equal(t, 4, e.Tries, "nothing was sent, so even a creation is tried again")
}

func TestGarbageIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]http.HandlerFunc{
		"page":          garbage,
		"error page":    garble(http.StatusNotFound),
		"redirect":      reply(http.StatusFound, nil, "Location", "http://elsewhere.invalid/"),
		"empty problem": reply(http.StatusConflict, struct{}{}, "Content-Type", "application/problem+json"),
		"plain error":   reply(http.StatusConflict, client.Problem{Code: "sold_out"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, c := open(t, step)
			_, err := c.Order(t.Context(), "o")
			require.ErrorIs(t, err, client.ErrBadAnswer)
			require.Len(t, d.seen(), 1)
		})
	}
}

func TestCancelledBeforeTheStart(t *testing.T) {
	t.Parallel()
	d, c := open(t, reply(http.StatusOK, client.Order{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Buy(ctx, "s", "k", client.Attempt{Quantity: 1})
	require.ErrorIs(t, err, client.ErrStopped)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, d.seen())
}

func TestTokenFuncIsAskedForEachTry(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	d := &door{steps: []http.HandlerFunc{lose, reply(http.StatusOK, client.Order{})}}
	srv := serve(t, d)
	c, err := client.New(client.Options{URL: srv, Retry: quick(), TokenFunc: func(context.Context) (string, error) {
		if asked.Add(1) == 1 {
			return "old", nil
		}
		return "new", nil
	}})
	require.NoError(t, err)
	_, err = c.Order(t.Context(), "o")
	require.NoError(t, err)
	require.Equal(t, "Bearer old", d.seen()[0].Auth)
	require.Equal(t, "Bearer new", d.seen()[1].Auth)

	c, err = client.New(client.Options{URL: srv, TokenFunc: func(context.Context) (string, error) { return "", io.EOF }})
	require.NoError(t, err)
	_, err = c.Order(t.Context(), "o")
	require.ErrorIs(t, err, client.ErrStopped)
	require.ErrorIs(t, err, io.EOF)
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	e := &client.Error{Problem: client.Problem{Code: "invalid_request", Title: "title", Detail: "the start is missing", Field: "starts_at"}, Tries: 2, Err: io.EOF}
	require.EqualError(t, e, "invalid_request: the start is missing (starts_at): EOF (after 2 tries)")
	require.EqualError(t, &client.Error{Problem: client.Problem{Code: "x", Title: "title"}}, "x: title")
	require.Empty(t, client.CodeOf(io.EOF))
	require.NotErrorIs(t, e, client.ErrSoldOut)
}
