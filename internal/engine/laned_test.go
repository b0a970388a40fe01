package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// An instance that sold on the direct path, and has heard nothing since, finds what
// is queued in lanes that the sale has got meanwhile.
func TestInstanceThatKnewNoLanesFindsWhatIsQueued(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1)
		require.Equal(t, sale.Reserved, s.buyAt(s.second, "early").Order.State)
		s.counter.mute.Store(true)
		s.build(1)
		d := s.buyAt(s.Engine, "late")
		require.Equal(t, sale.Queued, d.Order.State)

		o, err := s.second.Order(t.Context(), d.Order.ID, "late")
		require.NoError(t, err)
		require.Equal(t, sale.Queued, o.State)
		_, err = s.second.Pay(t.Context(), sale.Payment{
			ID: "charge", Order: d.Order.ID, Status: sale.PaymentSucceeded, Amount: d.Order.Amount, Currency: d.Order.Currency,
		})
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err), "it may be queued: %v", err)
		o, err = s.second.Cancel(t.Context(), d.Order.ID, "late")
		require.NoError(t, err)
		require.Equal(t, sale.Cancelled, o.State)
	})
}
