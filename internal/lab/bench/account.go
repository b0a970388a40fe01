package bench

import (
	"context"
	"errors"
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
// server can tell, and returns how many still do after judgeTime.
func (s *stage) judged(ctx context.Context) (int64, error) {
	limit := time.NewTimer(judgeTime)
	defer limit.Stop()
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for {
		stats, err := s.admin.Stats(ctx)
		if err != nil {
			return 0, err
		}
		queued, known := queuedIn(&stats, s.sale.ID)
		if known && queued == 0 {
			return 0, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-limit.C:
			if !known {
				err = errors.New("the server could not tell whether orders are still queued")
			}
			return queued, err
		case <-tick.C:
		}
	}
}

// queuedIn returns how many orders of a sale wait for their judgement. A server that
// counts them and cannot at the moment does not know.
func queuedIn(stats *client.Stats, sale string) (n int64, known bool) {
	for i := range stats.Sales {
		switch s := &stats.Sales[i]; {
		case s.ID != sale:
		case s.Queued != nil:
			return *s.Queued, true
		default:
			return 0, s.Path != "fast"
		}
	}
	return 0, true
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
