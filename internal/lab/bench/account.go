package bench

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// account is what the server says when the crowd has gone.
type account struct {
	sale    client.AdminSale
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

// read reads the account, page by page.
func (s *stage) read(ctx context.Context) (*account, error) {
	a := &account{orders: make(map[string]client.Order), refunds: make(map[string]client.Refund)}
	var err error
	if a.sale, err = s.admin.AdminSale(ctx, s.sale.ID); err != nil {
		return nil, err
	}
	orders := client.All(func(after string) (client.Page[client.Order], error) {
		return s.admin.AdminOrders(ctx, client.OrderQuery{Sale: s.sale.ID, After: after, Limit: pageSize})
	})
	for o, err := range orders {
		if err != nil {
			return nil, err
		}
		a.orders[o.ID] = o
	}
	return a, nil
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
