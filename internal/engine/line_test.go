package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// hold makes every Reserve wait until release is closed.
func (s *shop) hold() (release func()) {
	gate := make(chan struct{})
	s.ledger.set(func() {
		s.ledger.before = func(ledger.Batch) error {
			<-gate
			return nil
		}
	})
	return func() { close(gate) }
}

func TestAttemptsGatherWhileACallIsUnderWay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1000, 1)
		release := s.hold()
		var taken atomic.Int64
		buy := func(i int) {
			d, err := s.try(fmt.Sprintf("u%d", i), "k", 1)
			if err == nil && d.Verdict == sale.Taken {
				taken.Add(1)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { buy(0) })
		synctest.Wait() // its call is under way
		all.Go(func() { crowd(500, func(i int) { buy(1 + i) }) })
		synctest.Wait()
		release()
		all.Wait()
		require.Equal(t, int64(501), taken.Load())
		require.Equal(t, []int{1, 256, 244}, s.ledger.batches, "one alone at once, then what had gathered")
	})
}

func TestFullLineIsBusyAndChangesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(100, 1)
		release := s.hold()
		results := make(chan error, 20)
		go func() { _, err := s.try("first", "k", 1); results <- err }()
		synctest.Wait() // under way, not in line
		for i := range 4 {
			go func() { _, err := s.try(fmt.Sprintf("u%d", i), "k", 1); results <- err }()
		}
		synctest.Wait()
		_, err := s.try("over", "k", 1)
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err))
		release()
		for range 5 {
			require.NoError(t, <-results)
		}
		orders, err := s.ledger.ListOrders(t.Context(), ledger.OrderFilter{User: "over"})
		require.NoError(t, err)
		require.Empty(t, orders)
	}, func(o *engine.Options) { o.MaxQueue = 4 })
}

func TestCallerWhoLeavesBeforeTheCallIsDropped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1)
		release := s.hold()
		go func() { _, _ = s.try("first", "k", 1) }()
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := s.Buy(ctx, engine.Request{Sale: slug, User: "gone", Key: "k", Quantity: 1})
			failed <- err
		}()
		synctest.Wait()
		leave()
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(<-failed))
		release()
		synctest.Wait()
		orders, err := s.ledger.ListOrders(t.Context(), ledger.OrderFilter{User: "gone"})
		require.NoError(t, err)
		require.Empty(t, orders, "withdrawn before its batch was sent")
	})
}

func TestCallerWhoLeavesDuringTheCallFindsTheOrderByKey(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1)
		release := s.hold()
		ctx, leave := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := s.Buy(ctx, engine.Request{Sale: slug, User: "gone", Key: "k", Quantity: 1})
			failed <- err
		}()
		synctest.Wait()
		leave()
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(<-failed))
		release()
		synctest.Wait()
		require.Equal(t, sale.Replayed, s.buy("gone", "k", 1).Verdict)
	})
}

func TestInfrastructureTroubleIsNeverABusinessAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1, 1)
		s.ledger.set(func() { s.ledger.before = func(ledger.Batch) error { return errors.New("disk on fire") } })
		_, err := s.try("u", "k", 1)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		s.ledger.set(func() { s.ledger.before = nil })
		require.Equal(t, sale.Taken, s.buy("u", "k", 1).Verdict)
	})
}

func TestWrongEpochIsReadAgainAndFollowed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(2, 1)
		var calls atomic.Int64
		s.ledger.set(func() {
			s.ledger.before = func(ledger.Batch) error {
				if calls.Add(1) == 1 {
					return ledger.ErrWrongEpoch
				}
				return nil
			}
		})
		require.Equal(t, sale.Taken, s.buy("u", "k", 1).Verdict)
		s.ledger.set(func() { s.ledger.before = func(ledger.Batch) error { return ledger.ErrWrongEpoch } })
		_, err := s.try("v", "k", 1)
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err), "nothing was done: %v", err)
	})
}

func TestCloseAnswersWhatWasAccepted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1)
		release := s.hold()
		got := make(chan sale.Verdict, 2)
		for i := range 2 {
			go func() { d, _ := s.try(fmt.Sprintf("u%d", i), "k", 1); got <- d.Verdict }()
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Close(short), context.DeadlineExceeded, "a call is still under way")
		_, err := s.try("late", "k", 1)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		release()
		require.Equal(t, sale.Taken, <-got)
		require.Equal(t, sale.Taken, <-got)
	}, func(o *engine.Options) { o.CallTimeout = time.Minute })
}

func TestBadInputIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1)
		for name, r := range map[string]engine.Request{
			"no user":      {Sale: slug, Key: "k", Quantity: 1},
			"no key":       {Sale: slug, User: "u", Quantity: 1},
			"key in UTF-8": {Sale: slug, User: "u", Key: "ключ", Quantity: 1},
			"zero":         {Sale: slug, User: "u", Key: "k"},
			"negative":     {Sale: slug, User: "u", Key: "k", Quantity: -5},
			"huge":         {Sale: slug, User: "u", Key: "k", Quantity: 1 << 62},
		} {
			_, err := s.Buy(t.Context(), r)
			require.Contains(t, []sale.Code{sale.CodeInvalid, sale.CodeInvalidQuantity}, sale.CodeOf(err), name)
		}
		require.Zero(t, s.ledger.reserves.Load())
	})
}
