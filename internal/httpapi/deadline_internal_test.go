package httpapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type name struct{}
		parent, cancel := context.WithCancel(context.WithValue(t.Context(), name{}, "v"))
		defer cancel()

		d := withDeadline(parent, time.Now().Add(time.Second))
		at, ok := d.Deadline()
		require.True(t, ok)
		require.Equal(t, time.Now().Add(time.Second), at)
		require.NoError(t, d.Err())
		require.Equal(t, "v", d.Value(name{}))
		child, end := context.WithCancel(d)
		defer end()
		<-child.Done()
		require.ErrorIs(t, child.Err(), context.DeadlineExceeded)
		require.ErrorIs(t, d.Err(), context.DeadlineExceeded)
		require.Equal(t, "v", d.Value(name{}))

		d = withDeadline(parent, time.Now().Add(time.Hour))
		defer d.stop()
		done := d.Done()
		cancel()
		<-done
		require.ErrorIs(t, d.Err(), context.Canceled)

		d = withDeadline(t.Context(), time.Now().Add(time.Hour))
		done = d.Done()
		d.stop()
		<-done
		withDeadline(t.Context(), time.Now()).stop() // never waited for
	})
}
