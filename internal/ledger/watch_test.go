package ledger

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// overheard is a store in which somebody else commits what a test says.
type overheard struct {
	Store
	Reader
	spans  chan Span
	ended  atomic.Bool
	broken atomic.Bool
}

func (o *overheard) Listen(ctx context.Context, fn func(Span)) error {
	defer o.ended.Store(true)
	for {
		select {
		case s := <-o.spans:
			fn(s)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *overheard) Read() Reader { return o }
func (o *overheard) Close() error { return nil }

func (o *overheard) Rows(_ context.Context, n sale.Number, after uint64, limit int) ([]Entry, error) {
	if o.broken.Load() {
		return nil, errors.New("no connection")
	}
	rows := make([]Entry, limit)
	for i := range rows {
		rows[i] = Entry{Sale: n, Seq: after + uint64(i) + 1}
	}
	return rows, nil
}

// Watchers hear exactly the rows of others' spans, in pages, also after a span
// that could not be read; Close ends the listening.
func TestWatchHearsOthers(t *testing.T) {
	t.Parallel()
	o := &overheard{spans: make(chan Span)}
	b := New(o)
	heard := make(chan []Entry, 10)
	stop := b.Watch(func(rows []Entry) { heard <- rows })
	b.Watch(func([]Entry) {})()

	o.spans <- Span{Sale: 7, From: 3, To: 5}
	rows := <-heard
	require.Len(t, rows, 2)
	require.Equal(t, Entry{Sale: 7, Seq: 4}, rows[0])

	o.spans <- Span{Sale: 7, From: 5, To: 5 + 2*maxPage}
	first, second := <-heard, <-heard
	require.Len(t, first, maxPage)
	require.Equal(t, uint64(5+maxPage+1), second[0].Seq)

	o.broken.Store(true)
	o.spans <- Span{Sale: 7, From: 1, To: 2}
	o.spans <- Span{Sale: 7, From: 1, To: 2} // the first has been taken up
	require.Empty(t, heard)

	stop()
	require.NoError(t, b.Close())
	require.True(t, o.ended.Load(), "nothing listens after the end")
	require.NoError(t, b.Close())
}
