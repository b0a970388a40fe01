package client_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// TestAgainstTheServer walks a sale through its life on the real server.
func TestAgainstTheServer(t *testing.T) {
	t.Parallel()
	srv := testenv.Serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shop, err := client.New(client.Options{URL: srv.URL, Token: srv.AdminKey()})
	require.NoError(t, err)
	ann, bob := shop.As(srv.Token("ann")), shop.As(srv.Token("bob"))

	// An operator opens a sale.
	made, err := shop.CreateSale(ctx, client.NewSale{
		ID: "drop", StartsAt: "2020-01-01T00:00:00Z", EndsAt: "2099-01-01T00:00:00Z", PerUserLimit: 2, Currency: "EUR",
		Items: []client.NewItem{{SKU: "ticket", Price: 500, Stock: 2}},
	})
	require.NoError(t, err)
	_, err = shop.CreateSale(ctx, client.NewSale{
		ID: "drop", StartsAt: "2020-01-01T00:00:00Z", EndsAt: "2099-01-01T00:00:00Z", PerUserLimit: 2, Currency: "EUR",
		Items: []client.NewItem{{SKU: "ticket", Price: 500, Stock: 2}},
	})
	require.ErrorIs(t, err, client.ErrSaleExists)
	limit := int64(1)
	_, err = shop.PatchSale(ctx, "drop", made.Version+1, client.SalePatch{PerUserLimit: &limit})
	require.ErrorIs(t, err, client.ErrVersionMismatch)
	_, err = shop.PatchSale(ctx, "drop", made.Version, client.SalePatch{PerUserLimit: &limit})
	require.NoError(t, err)
	_, err = ann.Sale(ctx, "drop", "")
	require.ErrorIs(t, err, client.ErrSaleNotFound, "a draft is nobody's business")
	_, err = shop.Publish(ctx, "drop")
	require.NoError(t, err)

	// Buyers look.
	seen, err := ann.Sale(ctx, "drop", "")
	require.NoError(t, err)
	require.Equal(t, "live", seen.Sale.Status)
	require.WithinDuration(t, time.Now(), seen.Time, time.Minute)
	same, err := ann.Sale(ctx, "drop", seen.ETag)
	require.NoError(t, err)
	require.True(t, same.NotModified)
	sales, err := shop.As("").Sales(ctx)
	require.NoError(t, err)
	require.Len(t, sales, 1)

	// One buys, twice with one key, and pays.
	got, err := ann.Buy(ctx, "drop", "", client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.Equal(t, "reserved", got.Order.State)
	again, err := ann.Buy(ctx, "drop", got.Key, client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, got.Order.ID, again.Order.ID)
	_, err = ann.Buy(ctx, "drop", "", client.Attempt{Quantity: 1})
	require.ErrorIs(t, err, client.ErrLimitReached)
	_, err = bob.Order(ctx, got.Order.ID)
	require.ErrorIs(t, err, client.ErrOrderNotFound)
	_, err = shop.OrderOf(ctx, "bob", got.Order.ID)
	require.ErrorIs(t, err, client.ErrOrderNotFound)
	_, err = shop.CancelOf(ctx, "bob", got.Order.ID)
	require.ErrorIs(t, err, client.ErrOrderNotFound)
	notice := client.Payment{ID: "charge-1", Status: "succeeded", Amount: 500, Currency: "EUR"}
	paid, err := shop.Pay(ctx, got.Order.ID, notice)
	require.NoError(t, err)
	require.Equal(t, "paid", paid.Outcome)
	paid, err = shop.Pay(ctx, got.Order.ID, notice)
	require.NoError(t, err)
	require.Equal(t, "already_paid", paid.Outcome)

	// Another buys through the shop and gives it back.
	other, err := shop.Buy(ctx, "drop", "", client.Attempt{Quantity: 1, OnBehalfOf: "bob", ClientIP: "192.0.2.1"})
	require.NoError(t, err)
	mine, err := shop.OrderOf(ctx, "bob", other.Order.ID)
	require.NoError(t, err)
	require.Equal(t, "bob", mine.User)
	_, err = shop.CancelOf(ctx, "bob", other.Order.ID)
	require.NoError(t, err)

	// The first gets the money back.
	_, err = shop.Refund(ctx, got.Order.ID, client.RefundRequest{Restock: true})
	require.NoError(t, err)
	refunds, err := shop.Refunds(ctx, client.RefundQuery{State: "required"})
	require.NoError(t, err)
	require.Len(t, refunds.Data, 1)
	done, err := shop.RefundDone(ctx, refunds.Data[0].ID)
	require.NoError(t, err)
	require.Equal(t, "done", done.State)

	// Operators look.
	for o, listErr := range client.All(func(after string) (client.Page[client.Order], error) {
		return shop.AdminOrders(ctx, client.OrderQuery{Sale: "drop", After: after, Limit: 1})
	}) {
		require.NoError(t, listErr)
		require.Contains(t, []string{"refunded", "cancelled"}, o.State)
	}
	own, err := ann.Orders(ctx, client.OrderQuery{Sale: "drop"})
	require.NoError(t, err)
	require.Len(t, own.Data, 1)
	stats, err := shop.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(2), stats.Sales[0].Left)
	report, err := shop.Audit(ctx, "drop")
	require.NoError(t, err)
	require.False(t, report.Broken())
	require.Equal(t, int64(2), report.Sales[0].Figures.Orders)
	require.NotEmpty(t, report.Sales[0].Rules)

	// The end.
	_, err = shop.Restock(ctx, "drop", 0, client.Restock{Add: &limit})
	require.NoError(t, err)
	five := int64(5)
	after, err := shop.Restock(ctx, "drop", 0, client.Restock{Stock: &five})
	require.NoError(t, err)
	require.Equal(t, five, after.Items[0].Stock)
	for _, act := range []func(context.Context, string) (client.AdminSale, error){shop.Pause, shop.Resume, shop.CloseSale} {
		after, err = act(ctx, "drop")
		require.NoError(t, err)
	}
	require.NoError(t, shop.DeleteSale(ctx, "drop", after.Version))
}

// TestEventsOfTheServer follows a sale and a buyer's own order over a restart of
// the connection.
func TestEventsOfTheServer(t *testing.T) {
	t.Parallel()
	srv := testenv.Serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shop, err := client.New(client.Options{URL: srv.URL, Token: srv.AdminKey()})
	require.NoError(t, err)
	_, err = shop.CreateSale(ctx, client.NewSale{
		ID: "drop", StartsAt: "2020-01-01T00:00:00Z", EndsAt: "2099-01-01T00:00:00Z", PerUserLimit: 2, Currency: "EUR",
		Items: []client.NewItem{{SKU: "ticket", Price: 500, Stock: 2}},
	})
	require.NoError(t, err)
	_, err = shop.Publish(ctx, "drop")
	require.NoError(t, err)
	ann := shop.As(srv.Token("ann"))
	var order client.Bought
	lastID, states := "", []string{}
	for e, streamErr := range ann.Events(ctx, "drop", "") {
		require.NoError(t, streamErr)
		switch {
		case e.Type == client.EventSale && order.Order.ID == "":
			var s client.Sale
			require.NoError(t, json.Unmarshal(e.Data, &s))
			require.Equal(t, int64(2), s.Items[0].Left)
			order, err = ann.Buy(ctx, "drop", "", client.Attempt{Quantity: 1})
			require.NoError(t, err)
		case e.Type == client.EventOrder:
			var o client.Order
			require.NoError(t, json.Unmarshal(e.Data, &o))
			require.Equal(t, order.Order.ID, o.ID)
			states, lastID = append(states, o.State), e.ID
		}
		if len(states) > 0 {
			break
		}
	}
	require.Equal(t, []string{"reserved"}, states)
	require.NotEmpty(t, lastID)
	_, err = ann.Cancel(ctx, order.Order.ID)
	require.NoError(t, err)
	for e, streamErr := range ann.Events(ctx, "drop", lastID) {
		require.NoError(t, streamErr)
		if e.Type == client.EventOrder {
			require.Contains(t, string(e.Data), `"cancelled"`)
			require.NotEqual(t, lastID, e.ID)
			return
		}
	}
	t.Fatal("the stream ended")
}
