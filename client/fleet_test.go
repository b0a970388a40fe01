package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// TestQueuedOrdersOfTheServer buys on the fast path of one server and follows on
// another.
func TestQueuedOrdersOfTheServer(t *testing.T) {
	t.Parallel()
	fleet := testenv.ServeFleet(t, testenv.FleetOptions{Servers: []testenv.FleetServer{{Roles: "gate"}, {}}})
	here, there := fleet.Servers[0], fleet.Servers[1]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shop, err := client.New(client.Options{URL: here.URL, Token: here.AdminKey()})
	require.NoError(t, err)
	elsewhere, err := client.New(client.Options{URL: there.URL})
	require.NoError(t, err)
	_, err = shop.CreateSale(ctx, client.NewSale{
		ID: "drop", StartsAt: "2020-01-01T00:00:00Z", EndsAt: "2099-01-01T00:00:00Z", PerUserLimit: 2, Currency: "EUR",
		PreferredPath: "fast", Items: []client.NewItem{{SKU: "ticket", Price: 500, Stock: 3}},
	})
	require.NoError(t, err)
	_, err = shop.Publish(ctx, "drop")
	require.NoError(t, err)
	s, err := shop.Preheat(ctx, "drop")
	require.NoError(t, err)
	require.Equal(t, "fast", s.Path)

	ann := shop.As(here.Token("ann"))
	got, err := ann.Buy(ctx, "drop", "", client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.Equal(t, client.StateQueued, got.Order.State)
	require.NotEmpty(t, got.Receipt)
	o, err := elsewhere.As(here.Token("ann")).Follow(ctx, got)
	require.NoError(t, err)
	require.Equal(t, client.StateReserved, o.State)
	again, err := elsewhere.As(here.Token("ann")).BuyWith(ctx, "drop", client.BuyOptions{Key: got.Key, Receipt: got.Receipt}, client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, o, again.Order)

	waited, err := ann.BuyWith(ctx, "drop", client.BuyOptions{Wait: 20 * time.Second}, client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.Equal(t, client.StateReserved, waited.Order.State)
	_, err = ann.Buy(ctx, "drop", "", client.Attempt{Quantity: 1})
	require.ErrorIs(t, err, client.ErrLimitReached)
	_, rejected := client.Rejection(err)
	require.False(t, rejected)

	// A shop buys for somebody and follows as him.
	other, err := shop.Buy(ctx, "drop", "", client.Attempt{Quantity: 1, OnBehalfOf: "bob"})
	require.NoError(t, err)
	o, err = shop.Follow(ctx, other)
	require.NoError(t, err)
	require.Equal(t, "bob", o.User)

	_, err = ann.Cancel(ctx, waited.Order.ID)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // on every server
		_, err = elsewhere.As(here.Token("eve")).BuyWith(ctx, "drop", client.BuyOptions{Wait: time.Second}, client.Attempt{Quantity: 1})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	direct, err := shop.SetPath(ctx, "drop", 0, "direct")
	require.NoError(t, err)
	require.Equal(t, "direct", direct.Path)
	stats, err := shop.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, "direct", stats.Sales[0].Path)
	require.Zero(t, stats.Sales[0].Left)
}
