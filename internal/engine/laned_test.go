package engine_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
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

// A sale that is closed and put away sells nothing, to whomever waited in line and to
// whomever comes to an instance that knows the sale as it was.
func TestLaneOfADeletedSaleSellsNothing(t *testing.T) {
	t.Parallel()
	var shop *fastShop
	leave := func(context.Context, *sale.Sale) error { // the path; the lane stays, as if nobody could clear it
		shop.goDirect() //nolint:contextcheck // by the test's own
		return nil
	}
	inFastBubble(t, engine.Options{Clear: leave}, func(t *testing.T, s *fastShop) {
		shop, s.sale = s, s.open(10, 1)
		s.build(1)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "early").Verdict)
		s.judge(1)
		goOn, arrived := make(chan struct{}), make(chan struct{}, 1)
		s.counter.set(func() {
			s.counter.before = func(*stock.Call) error {
				arrived <- struct{}{}
				<-goOn
				return nil
			}
		})
		answers := make(chan sale.Verdict)
		buy := func(user string) {
			go func() {
				d, err := s.Buy(context.WithoutCancel(t.Context()), engine.Request{Sale: slug, User: user, Key: "k", Quantity: 1})
				if err != nil {
					t.Logf("%s: %v", user, err)
				}
				answers <- d.Verdict
			}()
		}
		buy("on his way")
		<-arrived
		buy("in line")
		synctest.Wait()
		o := s.order(s.sale.OrderID("early", "k"), "early")
		_, err := s.Cancel(t.Context(), o.ID, "early")
		require.NoError(t, err)
		for _, a := range []sale.Action{sale.ActionClose, sale.ActionDelete} {
			_, err = s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: a})
			require.NoError(t, err)
		}
		_, err = s.Sale(t.Context(), slug) // somebody looks at its page
		require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
		s.counter.set(func() { s.counter.before = nil })
		close(goOn)
		for range 2 {
			require.NotEqual(t, sale.Taken, <-answers)
		}
		synctest.Wait()
		d, err := s.second.Buy(t.Context(), engine.Request{Sale: slug, User: "late", Key: "k", Quantity: 1})
		require.NotEqual(t, sale.Taken, d.Verdict, "%v", err)
		at, err := s.mem.Read(t.Context(), s.lane(0))
		require.NoError(t, err)
		require.Equal(t, int64(10), at.Left[0])
		entries, err := s.mem.Look(t.Context(), s.lane(0), "", 10)
		require.NoError(t, err)
		require.Empty(t, entries)
	})
}
