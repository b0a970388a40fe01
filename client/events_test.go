package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// feed answers each connection with the next text and then closes it.
type feed struct {
	mu    sync.Mutex
	texts []string
	asked []string // Last-Event-ID of each connection
}

func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	n := len(f.asked)
	f.asked = append(f.asked, r.Header.Get("Last-Event-ID"))
	f.mu.Unlock()
	if n >= len(f.texts) {
		problem(http.StatusNotFound, "sale_not_found")(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = io.WriteString(w, f.texts[n])
}

func collect(ctx context.Context, c *client.Client, lastID string) ([]client.Event, error) {
	var got []client.Event
	for e, err := range c.Events(ctx, "s", lastID) {
		if err != nil {
			return got, err
		}
		got = append(got, e)
	}
	return got, nil
}

func TestEventsAreReadAndContinued(t *testing.T) {
	t.Parallel()
	f := &feed{texts: []string{
		"retry: 1\n\n: heartbeat\n\nid: 1\nevent: sale\ndata: {\"a\":\ndata: 1}\n\nid: 2\ndata: {}\n\nid: 3\nevent: sale\ndata: {\"cut\":",
		"id: 3\nevent: order\ndata: {\"order\":\"ord_1\"}\n\n",
		"event: tick\ndata: {}\n\n",
	}}
	c, err := client.New(client.Options{URL: serve(t, f), Retry: quick()})
	require.NoError(t, err)
	got, err := collect(t.Context(), c, "0")
	require.ErrorIs(t, err, client.ErrSaleNotFound)
	require.Equal(t, []client.Event{
		{ID: "1", Type: "sale", Data: []byte("{\"a\":\n1}")},
		{ID: "2", Type: "message", Data: []byte("{}")},
		{ID: "3", Type: "order", Data: []byte(`{"order":"ord_1"}`)},
		{ID: "3", Type: "tick", Data: []byte("{}")},
	}, got, "an unfinished message is dropped and asked for again")
	require.Equal(t, []string{"0", "2", "3", "3"}, f.asked)
}

func TestEventsEndWithTheCaller(t *testing.T) {
	t.Parallel()
	f := &feed{texts: []string{"data: 1\n\ndata: 2\n\n"}}
	c, err := client.New(client.Options{URL: serve(t, f), Retry: quick()})
	require.NoError(t, err)
	for e, err := range c.Events(t.Context(), "s", "") {
		require.NoError(t, err)
		require.Equal(t, "1", string(e.Data))
		break
	}
	require.Len(t, f.asked, 1, "no other connection is opened")
}

func TestEventsEndWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := client.New(client.Options{URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})), Retry: quick()})
	require.NoError(t, err)
	n := 0
	for _, err = range c.Events(ctx, "s", "") {
		n++
		cancel()
	}
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, n)
}

func TestEventsRefuseOtherAnswers(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]http.HandlerFunc{
		"unauthenticated": problem(http.StatusUnauthorized, "unauthenticated"),
		"page of a proxy": garble(http.StatusForbidden),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, c := open(t, step)
			_, err := collect(t.Context(), c, "")
			require.Error(t, err)
			require.Len(t, d.seen(), 1)
		})
	}
	_, c := open(t, reply(http.StatusOK, nil))
	for _, err := range c.Events(t.Context(), "..", "") {
		require.ErrorIs(t, err, client.ErrInvalid)
	}
}

func TestEventsOutlastTrouble(t *testing.T) {
	t.Parallel()
	d, c := open(t, problem(http.StatusServiceUnavailable, "busy"), problem(http.StatusTooManyRequests, "rate_limited"), lose, garbage,
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
		})
	for e, err := range c.Events(t.Context(), "s", "") {
		require.NoError(t, err)
		require.Equal(t, "1", string(e.Data))
		break
	}
	require.Len(t, d.seen(), 5)
}

// silent is a body on which nothing arrives until its request is cancelled.
type silent struct{ done <-chan struct{} }

func (s silent) Read([]byte) (int, error) {
	<-s.done
	return 0, context.Canceled
}

func (silent) Close() error { return nil }

func TestASilentStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		c, err := client.New(client.Options{URL: "http://door", HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			if len(at) == 3 {
				return response(http.StatusNotFound, `{"code":"sale_not_found"}`), nil
			}
			resp := response(http.StatusOK, "", "Content-Type", "text/event-stream")
			resp.Body = silent{r.Context().Done()}
			return resp, nil
		})}})
		require.NoError(t, err)
		_, err = collect(t.Context(), c, "")
		require.ErrorIs(t, err, client.ErrSaleNotFound)
		require.Len(t, at, 3)
		require.InDelta(t, 45, at[1].Seconds(), 1)
		require.InDelta(t, 90, at[2].Seconds(), 2)
	})
}

func TestAMessageWithoutEndIsNotKept(t *testing.T) {
	t.Parallel()
	f := &feed{texts: []string{fmt.Sprintf("data: %02000000d\n\n", 1)}}
	c, err := client.New(client.Options{URL: serve(t, f), Retry: quick()})
	require.NoError(t, err)
	got, err := collect(t.Context(), c, "")
	require.ErrorIs(t, err, client.ErrSaleNotFound)
	require.Empty(t, got)
	require.Len(t, f.asked, 2)
	_, isOurs := errors.AsType[*client.Error](err)
	require.True(t, isOurs)
}
