package bench

import (
	"context"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// account is what the server says when the crowd has gone.
type account struct {
	sale    client.AdminSale
	steady  bool // nothing moved while it was read: sale and orders are of one instant
	orders  map[string]client.Order
	refunds map[string]client.Refund // by payment
}

const (
	// readTime bounds reading the account.
	readTime = 2 * time.Minute
	// pageSize is the most that the API gives at once.
	pageSize = 500
	// judgeTime bounds the wait for orders that are still queued.
	judgeTime  = 30 * time.Second
	judgeEvery = 50 * time.Millisecond
)

// judged waits until no order of the sale waits for its judgement, as far as the
// server can tell, and reports whether that came.
func (s *stage) judged(ctx context.Context) (bool, error) {
	limit := time.NewTimer(judgeTime)
	defer limit.Stop()
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for {
		stats, err := s.admin.Stats(ctx)
		if err != nil {
			return false, err
		}
		if queuedIn(&stats, s.sale.ID) == 0 {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-limit.C:
			return false, nil
		case <-tick.C:
		}
	}
}

func queuedIn(stats *client.Stats, sale string) int64 {
	for i := range stats.Sales {
		if s := &stats.Sales[i]; s.ID == sale && s.Queued != nil {
			return *s.Queued
		}
	}
	return 0
}

// mostReadings bounds how often the orders are read in the hope that nothing moves
// meanwhile, as it does while holds run out or others buy.
const mostReadings = 3

// read reads the account.
func (s *stage) read(ctx context.Context) (*account, error) {
	before, err := s.admin.AdminSale(ctx, s.sale.ID)
	if err != nil {
		return nil, err
	}
	for reading := 1; ; reading++ {
		a, err := s.readOnce(ctx)
		if err != nil {
			return nil, err
		}
		a.steady = slices.Equal(a.sale.Items, before.Items)
		if a.steady || reading == mostReadings {
			return a, nil
		}
		before = a.sale
	}
}

// readOnce reads the orders, page by page, and then the sale.
func (s *stage) readOnce(ctx context.Context) (*account, error) {
	a := &account{orders: make(map[string]client.Order), refunds: make(map[string]client.Refund)}
	orders := client.All(func(after string) (client.Page[client.Order], error) {
		return s.admin.AdminOrders(ctx, client.OrderQuery{Sale: s.sale.ID, After: after, Limit: pageSize})
	})
	for o, err := range orders {
		if err != nil {
			return nil, err
		}
		a.orders[o.ID] = o
	}
	var err error
	a.sale, err = s.admin.AdminSale(ctx, s.sale.ID)
	return a, err
}

// readRefunds reads the records of the sale's charges that are to be given back.
func (s *stage) readRefunds(ctx context.Context, a *account) error {
	refunds := client.All(func(after string) (client.Page[client.Refund], error) {
		return s.admin.Refunds(ctx, client.RefundQuery{State: "required", After: after, Limit: pageSize})
	})
	for r, err := range refunds {
		if err != nil {
			return err
		}
		if _, ours := a.orders[r.Order]; ours {
			a.refunds[r.PaymentID] = r
		}
	}
	return nil
}

func (a *account) stock() int64 {
	var n int64
	for i := range a.sale.Items {
		n += a.sale.Items[i].Stock
	}
	return n
}
