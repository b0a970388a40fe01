package cases_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

func TestFleetSmoke(t *testing.T) {
	t.Parallel()
	f := testenv.ServeFleet(t, testenv.FleetOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := f.Servers[0]
	admin, err := client.New(client.Options{URL: s.URL, Token: s.AdminKey()})
	require.NoError(t, err)
	now := time.Now()
	_, err = admin.CreateSale(ctx, client.NewSale{ID: "drop", Currency: "EUR", StartsAt: now.Add(-time.Minute).UTC().Format(time.RFC3339), EndsAt: now.Add(time.Hour).UTC().Format(time.RFC3339), PerUserLimit: 1,
		PreferredPath: "fast",
		Items: []client.NewItem{{SKU: "unit", Price: 1000, Stock: 10}}})
	require.NoError(t, err)
	_, err = admin.Publish(ctx, "drop")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		v, err := admin.AdminSale(ctx, "drop")
		require.NoError(t, err)
		return v.Path == "fast"
	}, 10*time.Second, 10*time.Millisecond)
	for i := range 12 {
		u := fmt.Sprintf("u%d", i)
		srv := f.Servers[i%3]
		c, err := client.New(client.Options{URL: srv.URL, Token: srv.Token(u)})
		require.NoError(t, err)
		o, err := c.Buy(ctx, "drop", "k", client.Attempt{Quantity: 1})
		fmt.Println(u, o, err)
		if err == nil {
			require.Eventually(t, func() bool {
				got, err := c.Order(ctx, o.Order.ID)
				if err != nil {
					fmt.Println(err)
				}
				return got.State == "reserved"
			}, 5*time.Second, 5*time.Millisecond)
		}
	}
}
