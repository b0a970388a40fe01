package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func requestFor(user, sku string) engine.Request {
	return engine.Request{Sale: slug, User: user, Key: "k", SKU: sku, Quantity: 1}
}

func TestRefreshingCrowdReadsASaleOnceASecond(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1)
		look := func() {
			crowd(300, func(int) {
				if _, err := s.Sale(t.Context(), slug); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		before := s.ledger.reads.Load()
		look()
		require.Equal(t, before+1, s.ledger.reads.Load())
		look()
		require.Equal(t, before+1, s.ledger.reads.Load())
		s.pass(time.Second)
		look()
		require.Equal(t, before+2, s.ledger.reads.Load(), "one reads in the background, the others see the old one")
	})
}

func TestOwnChangesAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1)
		title := "renamed"
		for _, step := range []struct {
			change sale.Change
			status sale.Status
		}{
			{sale.Change{Action: sale.ActionPause}, sale.StatusPaused},
			{sale.Change{Action: sale.ActionResume}, sale.StatusLive},
			{sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Title: &title}}, sale.StatusLive},
			{sale.Change{Action: sale.ActionClose}, sale.StatusClosed},
		} {
			_, err := s.ChangeSale(t.Context(), slug, 0, step.change)
			require.NoError(t, err)
			v, err := s.Sale(t.Context(), slug)
			require.NoError(t, err)
			require.Equal(t, step.status, v.Status(s.Now()))
			all, err := s.Sales(t.Context())
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.Equal(t, v.Version, all[0].Version, "list and detail agree")
		}
	})
}

func TestUnknownSlugIsRememberedBrieflyAndForgottenAtCreation(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		for range 100 {
			_, err := s.Sale(t.Context(), slug)
			require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
		}
		require.Equal(t, int64(1), s.ledger.reads.Load())
		s.open(10, 1)
		_, err := s.Sale(t.Context(), slug)
		require.NoError(t, err)
		_, err = s.Sale(t.Context(), "No/Such\x00Slug")
		require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
	})
}

// Who guesses slugs costs the ledger no more than a list a second, and hides nothing.
func TestGuessedSlugsAreAnsweredFromTheList(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		guess := func(n int) {
			for i := range n {
				_, err := s.Sale(t.Context(), fmt.Sprintf("guess-%d", i))
				require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
			}
		}
		guess(5000)
		require.Equal(t, int64(100), s.ledger.reads.Load())
		require.Equal(t, int64(1), s.ledger.lists.Load())
		s.open(10, 1)
		_, err := s.Sale(t.Context(), slug)
		require.NoError(t, err, "a sale is found as soon as it is there")
		s.pass(2 * time.Second)
		guess(5000)
		require.LessOrEqual(t, s.ledger.reads.Load(), int64(202))
		require.LessOrEqual(t, s.ledger.lists.Load(), int64(3))
		_, err = s.Sale(t.Context(), slug)
		require.NoError(t, err)
	})
}

func TestDraftIsInvisible(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		_, err := s.CreateSale(t.Context(), sale.Sale{
			Slug: slug, Items: []sale.Item{{SKU: "shoe", Stock: 1}},
			Rules: sale.Rules{StartsAt: time.UnixMilli(1), EndsAt: time.UnixMilli(2), PerUserLimit: 1, LimitRule: sale.LimitLive, Hold: time.Minute, Currency: "EUR"},
		})
		require.NoError(t, err)
		_, err = s.Sale(t.Context(), slug)
		require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
		require.Equal(t, sale.NoSuchSale, s.buy("u", "k", 1).Verdict)
	})
}

func TestSaleIsShownStaleForFiveSecondsWhileTheLedgerFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1)
		_, err := s.Sale(t.Context(), slug)
		require.NoError(t, err)
		s.ledger.set(func() { s.ledger.failing = errors.New("no disk") })
		s.pass(4 * time.Second)
		_, err = s.Sale(t.Context(), slug)
		require.NoError(t, err)
		s.pass(2 * time.Second)
		_, err = s.Sale(t.Context(), slug)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err), "too old to be shown, and not a business answer")
		s.ledger.set(func() { s.ledger.failing = nil })
		_, err = s.Sale(t.Context(), slug)
		require.NoError(t, err)
	})
}

func TestSuccessorUnderTheSameSlugIsSoldAfresh(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		first := s.open(1, 1)
		old := s.buy("owner", "k", 1)
		require.Equal(t, sale.Taken, old.Verdict)
		_, err := s.Cancel(t.Context(), old.Order.ID, "")
		require.NoError(t, err)
		for _, a := range []sale.Action{sale.ActionClose, sale.ActionDelete} {
			_, err = s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: a})
			require.NoError(t, err)
		}
		require.Equal(t, sale.NoSuchSale, s.buy("owner", "k", 1).Verdict)
		second := s.open(1, 1)
		require.NotEqual(t, first.Number, second.Number)
		d := s.buy("owner", "k", 1)
		require.Equal(t, sale.Taken, d.Verdict, "the old key means nothing in the new sale")
		require.NotEqual(t, old.Order.ID, d.Order.ID)
	})
}

func TestForeignOrderLooksUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1, 1)
		o := s.buy("owner", "k", 1).Order
		_, foreign := s.Order(t.Context(), o.ID, "thief")
		_, unknown := s.Order(t.Context(), sale.OrderID{1}, "thief")
		require.Equal(t, unknown, foreign)
		_, err := s.Cancel(t.Context(), o.ID, "thief")
		require.Equal(t, unknown, err)
	})
}

func TestSalesThatAreOverAreLetGo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		for i := range 5 {
			name := fmt.Sprintf("drop-%d", i)
			s.open(1, 1, func(d *sale.Sale) { d.Slug = name })
			_, err := s.Buy(t.Context(), engine.Request{Sale: name, User: "u", Key: "k", Quantity: 1})
			require.NoError(t, err)
			require.LessOrEqual(t, s.Stands(), 2, "the one before has ended and is gone by the next but one")
			if i == 3 {
				_, err = s.ChangeSale(t.Context(), name, 0, sale.Change{Action: sale.ActionClose})
				require.NoError(t, err)
			}
			s.pass(2 * time.Hour)
			_, err = s.Sale(t.Context(), name)
			require.NoError(t, err)
		}
	})
}
