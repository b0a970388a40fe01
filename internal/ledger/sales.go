package ledger

import (
	"cmp"
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// CreateSale implements Sales.
func (b *Book) CreateSale(ctx context.Context, s sale.Sale) (sale.Sale, error) {
	s.State, s.Version, s.Terms, s.Epoch, s.Path = sale.Draft, 1, 1, 1, sale.PathDirect
	s.BuildToken, s.BuildAt, s.Salts = 0, time.Time{}, nil
	s.Preferred = preferred(s.Preferred)
	s.Key = sale.NewKey()
	s.StartsAt, s.EndsAt = instant(s.StartsAt), instant(s.EndsAt)
	s.Hold, s.CoolDown = span(s.Hold), span(s.CoolDown)
	s.Items = append([]sale.Item(nil), s.Items...)
	for i := range s.Items {
		s.Items[i].Sold = 0
	}
	if err := s.Check(); err != nil {
		return sale.Sale{}, err
	}
	var rows []Entry
	err := b.store.Update(ctx, func(tx Tx) error {
		s.CreatedAt, s.UpdatedAt = tx.Now(), tx.Now()
		n, err := tx.InsertSale(ctx, Record{Sale: s})
		if err != nil {
			return err
		}
		s.Number = n
		d := newDesk(Record{Sale: s}, tx.Now())
		d.record(SaleKind(sale.ActionCreate), sale.OrderID{}, saleBody(&s))
		c, err := d.changes()
		if err != nil {
			return err
		}
		rows = c.Entries
		return tx.Write(ctx, c)
	})
	if err != nil {
		return sale.Sale{}, err
	}
	b.watchers.tell(rows)
	return s, nil
}

// instant drops what the ledger does not keep: zone and fractions of a millisecond.
func instant(t time.Time) time.Time { return FromMillis(Millis(t)) }

// span drops fractions of a millisecond.
func span(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }

func preferred(p sale.Path) sale.Path { return cmp.Or(p, sale.PathDirect) }

// kept returns a patch as the ledger can keep it, so that it is judged by what
// will be written.
func kept(p sale.Patch) sale.Patch {
	p.StartsAt, p.EndsAt = through(instant, p.StartsAt), through(instant, p.EndsAt)
	p.Hold, p.CoolDown = through(span, p.Hold), through(span, p.CoolDown)
	p.Preferred = through(preferred, p.Preferred)
	return p
}

func through[T any](f func(T) T, v *T) *T {
	if v == nil {
		return nil
	}
	return new(f(*v))
}

// ChangeSale implements Sales.
func (b *Book) ChangeSale(ctx context.Context, slug string, version int64, c sale.Change) (sale.Sale, error) {
	c.Patch = kept(c.Patch)
	var after sale.Sale
	lock := func(tx Tx) (Record, error) { return tx.LockSlug(ctx, slug) }
	err := b.onSale(ctx, lock, func(tx Tx, d *desk) error {
		if version != 0 && version != d.rec.Version {
			return &sale.Error{
				Code: sale.CodeVersionMismatch, Message: "the sale has changed since you read it",
				Hint: "read it again, look at the difference, and repeat with its new ETag in If-Match",
			}
		}
		if c.Path != "" && c.Path != d.rec.Path {
			return ErrWrongEpoch
		}
		next, err := d.rec.Apply(c, d.now)
		if err != nil {
			return err
		}
		if c.Action == sale.ActionDelete {
			if err := d.unneeded(ctx, tx); err != nil {
				return err
			}
		}
		d.revise(&next, c.Action)
		after = next
		return nil
	})
	if err != nil {
		return sale.Sale{}, err
	}
	return after, nil
}

// unneeded returns why a sale cannot be put away yet: its orders that have not ended.
func (d *desk) unneeded(ctx context.Context, tx Tx) error {
	if d.rec.Path == sale.PathFast {
		return sale.IllegalState("orders of the sale may still be queued", "wait some seconds: they are judged, and its fast counter is cleared")
	}
	waiting, err := tx.AnyReserved(ctx, d.rec.Number)
	if err != nil {
		return err
	}
	if waiting {
		return sale.IllegalState("reserved orders are waiting for payment", "wait until their holds end, or cancel them")
	}
	return nil
}

// Sale implements Sales.
func (b *Book) Sale(ctx context.Context, slug string) (sale.Sale, error) {
	rec, err := b.store.Read().SaleBySlug(ctx, slug)
	return rec.Sale, err
}

// SaleByNumber implements Sales.
func (b *Book) SaleByNumber(ctx context.Context, n sale.Number) (sale.Sale, error) {
	rec, err := b.store.Read().SaleByNumber(ctx, n)
	return rec.Sale, err
}

// ListSales implements Sales.
func (b *Book) ListSales(ctx context.Context, after sale.Number, limit int) ([]sale.Sale, error) {
	recs, err := b.store.Read().ListSales(ctx, after, page(limit))
	if err != nil {
		return nil, err
	}
	out := make([]sale.Sale, len(recs))
	for i := range recs {
		out[i] = recs[i].Sale
	}
	return out, nil
}

// Order implements Orders.
func (b *Book) Order(ctx context.Context, id sale.OrderID) (sale.Order, error) {
	r := b.store.Read()
	found, err := r.OrdersByID(ctx, []sale.OrderID{id})
	if err != nil {
		return sale.Order{}, err
	}
	o, ok := found[id]
	if !ok {
		return b.parked(ctx, r, id)
	}
	if o.State != sale.Cancelled && o.State != sale.Expired {
		return o, nil
	}
	rec, err := r.SaleByNumber(ctx, id.Sale())
	if err != nil {
		return sale.Order{}, orderError(err)
	}
	heir := sale.ReplacementID(rec.Key, o.User, id)
	found, err = r.OrdersByID(ctx, []sale.OrderID{heir})
	if err != nil {
		return sale.Order{}, err
	}
	if _, ok := found[heir]; ok {
		o.ReplacedBy = heir
	}
	return o, nil
}

// parked returns the order of a dead letter whose row the database refused.
func (b *Book) parked(ctx context.Context, r Reader, id sale.OrderID) (sale.Order, error) {
	l, found, err := r.LetterOf(ctx, id)
	if err != nil {
		return sale.Order{}, err
	}
	if !found {
		return sale.Order{}, sale.OrderNotFound()
	}
	rec, err := r.SaleByNumber(ctx, id.Sale())
	if err != nil {
		return sale.Order{}, orderError(err)
	}
	a := l.Attempt
	return sale.Order{
		ID: id, Slug: rec.Slug, User: a.User, SKU: a.SKU, Quantity: a.Quantity, Terms: a.Slip.Terms, Currency: rec.Currency,
		State: sale.Rejected, Reason: sale.RejectedSlip, Epoch: a.Slip.Epoch, Version: 1, ReservedAt: l.ParkedAt, EndedAt: l.ParkedAt,
	}, nil
}

// OrdersByID implements Orders.
func (b *Book) OrdersByID(ctx context.Context, ids []sale.OrderID) (map[sale.OrderID]sale.Order, error) {
	return b.store.Read().OrdersByID(ctx, ids)
}

// ListOrders implements Orders.
func (b *Book) ListOrders(ctx context.Context, f OrderFilter) ([]sale.Order, error) {
	f.Limit = page(f.Limit)
	return b.store.Read().ListOrders(ctx, f)
}

// AnyReserved implements Orders.
func (b *Book) AnyReserved(ctx context.Context, n sale.Number) (bool, error) {
	return b.store.Read().AnyReserved(ctx, n)
}

// Due implements Orders.
func (b *Book) Due(ctx context.Context, from time.Time, limit int) (DueOrders, error) {
	now, err := b.store.Now(ctx)
	if err != nil {
		return DueOrders{}, err
	}
	due, err := b.store.Read().Due(ctx, from, now, limit)
	if err != nil || len(due.IDs) == 0 {
		return DueOrders{}, err
	}
	return DueOrders{IDs: due.IDs, Overdue: now.Sub(due.First), Upto: due.Last}, nil
}

// Buyers implements Orders.
func (b *Book) Buyers(ctx context.Context, n sale.Number) ([]uint64, error) {
	return b.store.Read().Buyers(ctx, n)
}

// ListRefunds implements Payments.
func (b *Book) ListRefunds(ctx context.Context, f RefundFilter) ([]sale.Refund, error) {
	f.Limit = page(f.Limit)
	return b.store.Read().ListRefunds(ctx, f)
}

// Rows implements Journal.
func (b *Book) Rows(ctx context.Context, n sale.Number, after uint64, limit int) ([]Entry, error) {
	return b.store.Read().Rows(ctx, n, after, page(limit))
}

// End implements Journal.
func (b *Book) End(ctx context.Context, n sale.Number) (uint64, error) {
	rec, err := b.store.Read().SaleByNumber(ctx, n)
	return rec.Seq, err
}

// Snapshot implements Journal.
func (b *Book) Snapshot(ctx context.Context, fn func(Reader) error) error {
	return b.store.Snapshot(ctx, fn)
}

// PutAPIKey implements Keys.
func (b *Book) PutAPIKey(ctx context.Context, k APIKey) error {
	return b.store.Update(ctx, func(tx Tx) error {
		if k.CreatedAt.IsZero() {
			k.CreatedAt = tx.Now()
		}
		return tx.PutAPIKey(ctx, k)
	})
}

// APIKey implements Keys.
func (b *Book) APIKey(ctx context.Context, id string) (APIKey, error) {
	return b.store.Read().APIKey(ctx, id)
}

// ListAPIKeys implements Keys.
func (b *Book) ListAPIKeys(ctx context.Context) ([]APIKey, error) {
	return b.store.Read().ListAPIKeys(ctx)
}

// RevokeAPIKey implements Keys.
func (b *Book) RevokeAPIKey(ctx context.Context, id string) error {
	return b.store.Update(ctx, func(tx Tx) error { return tx.RevokeAPIKey(ctx, id, tx.Now()) })
}

func page(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}
