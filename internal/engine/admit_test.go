package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// A refusal of the gate is the answer, unless the key has an order already; one of
// the load is the answer at once.
func TestGateRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 2)
		asked := 0
		try := func(user, key string, quantity int64, refusal error) (engine.Decision, error) {
			return s.Buy(t.Context(), engine.Request{Sale: slug, User: user, Key: key, Quantity: quantity, Admit: func(context.Context) error {
				asked++
				return refusal
			}})
		}
		d, err := try("a", "k", 1, nil)
		require.NoError(t, err)
		require.Equal(t, sale.Taken, d.Verdict)
		reserves := s.ledger.reserves.Load()
		for _, code := range []sale.Code{sale.CodeBanned, sale.CodeChallengeRequired, sale.CodePassRequired, sale.CodePassInvalid} {
			refusal := &sale.Error{Code: code}
			again, failed := try("a", "k", 1, refusal)
			require.NoError(t, failed, code)
			require.Equal(t, sale.Replayed, again.Verdict)
			require.Equal(t, d.Order.ID, again.Order.ID)
			other, failed := try("a", "k", 2, refusal)
			require.NoError(t, failed, code)
			require.Equal(t, sale.KeyMismatch, other.Verdict)
			_, failed = try("a", "another", 1, refusal)
			require.ErrorIs(t, failed, refusal)
			_, failed = try("b", "k", 1, refusal)
			require.ErrorIs(t, failed, refusal, "the key of somebody else")
		}
		require.Zero(t, s.ledger.singles.Load(), "who is refused has no reading of his own")
		looks := s.ledger.looks.Load()
		_, err = try("a", "k", 1, &sale.Error{Code: sale.CodeRateLimited})
		require.Equal(t, sale.CodeRateLimited, sale.CodeOf(err))
		require.Equal(t, looks, s.ledger.looks.Load(), "nothing was looked up")
		_, err = try("a", "new", 1, errors.New("the limits cannot be asked"))
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		s.ledger.set(func() { s.ledger.looking = errors.New("out") })
		_, err = try("a", "k", 1, &sale.Error{Code: sale.CodeBanned})
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err), "that there is no order would be a lie")
		s.ledger.set(func() { s.ledger.looking = nil })
		require.Equal(t, reserves, s.ledger.reserves.Load(), "none of them was an attempt")

		for i := range 9 {
			require.Equal(t, sale.Taken, s.buy("owner"+string(rune('0'+i)), "k", 1).Verdict)
		}
		require.Equal(t, sale.SoldOut, s.buy("late", "k", 1).Verdict)
		synctest.Wait() // memory knows who has an order
		asked = 0
		d, err = try("later", "k", 1, &sale.Error{Code: sale.CodeBanned})
		require.NoError(t, err)
		require.Equal(t, sale.SoldOut, d.Verdict)
		require.Zero(t, asked, "memory answers without the gate")
	})
}

// Who probes a sold-out sale and is refused lets the next one probe.
func TestRefusedProbeLetsTheNextOneProbe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1, 1)
		s.sellOut(1)
		s.pass(2 * time.Second) // memory has lapsed
		_, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: "x", Key: "k", Quantity: 1, Admit: func(context.Context) error {
			return &sale.Error{Code: sale.CodeRateLimited}
		}})
		require.Equal(t, sale.CodeRateLimited, sale.CodeOf(err))
		require.Equal(t, sale.SoldOut, s.buy("y", "k", 1).Verdict)
	})
}
