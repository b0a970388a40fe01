package sqliteledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// tx is a write transaction. SQLite has one writer at a time, so the sale is
// locked, with everything else, before the transaction's first statement.
type tx struct {
	*pinned
	reader
	now time.Time
	// newest holds the row of each user's newest order as far as it is known: 0
	// for none. It makes the list that orders_of_user walks.
	newest map[buyer]int64
}

// buyer is a user in one sale.
type buyer struct {
	sale sale.Number
	user string
}

var _ ledger.Tx = (*tx)(nil)

func newTx(s *Store, c *conn) *tx {
	p := &pinned{c: c}
	return &tx{pinned: p, reader: reader{source: p, onCorrupt: s.opts.OnCorrupt}, now: s.now(), newest: make(map[buyer]int64)}
}

// Now implements ledger.Tx.
func (t *tx) Now() time.Time { return t.now }

// LockSale implements ledger.Tx.
func (t *tx) LockSale(ctx context.Context, n sale.Number) (ledger.Record, error) {
	return t.SaleByNumber(ctx, n)
}

// LockSlug implements ledger.Tx.
func (t *tx) LockSlug(ctx context.Context, slug string) (ledger.Record, error) {
	return t.SaleBySlug(ctx, slug)
}

// Holders implements ledger.Reader, and remembers each user's newest order for
// the write that follows.
func (t *tx) Holders(ctx context.Context, n sale.Number, users []string) (map[string]ledger.Holder, error) {
	out := make(map[string]ledger.Holder)
	if err := t.learn(ctx, n, users, func(h holder) { out[h.User] = h.Holder }); err != nil {
		return nil, err
	}
	return out, nil
}

func (t *tx) learn(ctx context.Context, n sale.Number, users []string, found func(holder)) error {
	rows := make(map[string]int64, len(users))
	err := t.holders(ctx, n, users, func(h holder) {
		rows[h.User] = h.newest
		found(h)
	})
	if err != nil {
		return err
	}
	for _, user := range users {
		t.newest[buyer{n, user}] = rows[user]
	}
	return nil
}

// exec runs a statement on the transaction's connection; see conn.exec.
func (t *tx) exec(ctx context.Context, name string, bind func(*args)) (changed, row int64, err error) {
	if t.over.Load() {
		return 0, 0, errOver
	}
	return t.c.exec(ctx, name, bind)
}

// must runs a statement that has to change exactly one row.
func (t *tx) must(ctx context.Context, name string, bind func(*args)) error {
	changed, _, err := t.exec(ctx, name, bind)
	if err == nil && changed != 1 {
		return fmt.Errorf("%w: %s changed %d rows", ledger.ErrConstraint, name, changed)
	}
	return err
}

// InsertSale implements ledger.Tx.
func (t *tx) InsertSale(ctx context.Context, r ledger.Record) (sale.Number, error) {
	entered, row, err := t.exec(ctx, "sale_insert", func(a *args) {
		a.text(r.Slug)
		a.blob(r.Key[:])
		bindRules(a, &r.Rules)
		bindStanding(a, &r.Sale)
		a.time(r.CreatedAt)
		a.time(r.UpdatedAt)
		a.int(int64(r.Seq)) //nolint:gosec // a journal does not reach 2^63 rows
		a.blob(r.Head[:])
	})
	if err != nil {
		return 0, err
	}
	if entered == 0 {
		return 0, &sale.Error{
			Code: sale.CodeSaleExists, Field: "sale", Message: "there is a sale with this id already",
			Hint: "choose another id, or delete the old sale first",
		}
	}
	n := sale.Number(row) //nolint:gosec // the table holds it in range
	for i := range r.Items {
		it := &r.Items[i]
		err := t.must(ctx, "item_insert", func(a *args) {
			a.int(row)
			a.int(int64(i))
			a.text(it.SKU)
			a.text(it.Title)
			a.int(it.Stock)
			a.int(it.Sold)
			a.int(it.Price)
		})
		if err != nil {
			return 0, err
		}
	}
	terms := ledger.Terms{Number: r.Terms, Currency: r.Currency, Hold: r.Hold}
	for i := range r.Items {
		terms.Prices = append(terms.Prices, r.Items[i].Price)
	}
	return n, t.insertTerms(ctx, n, &terms)
}

// bindRules gives title, window, limits, hold, currency and preferred path.
func bindRules(a *args, r *sale.Rules) {
	a.text(r.Title)
	a.time(r.StartsAt)
	a.time(r.EndsAt)
	a.int(r.PerUserLimit)
	a.text(string(r.LimitRule))
	a.int(r.Hold.Milliseconds())
	a.int(r.MaxUnpaidHolds)
	a.int(r.CoolDown.Milliseconds())
	a.text(r.Currency)
	a.text(string(cmp.Or(r.Preferred, sale.PathDirect)))
}

// bindStanding gives state, terms, version, path, epoch, build and salts.
func bindStanding(a *args, s *sale.Sale) {
	a.text(string(s.State))
	a.int(s.Terms)
	a.int(s.Version)
	a.text(string(s.Path))
	a.int(s.Epoch)
	a.int(s.BuildToken)
	a.time(s.BuildAt)
	a.blob(encodeSalts(s.Salts))
}

func (t *tx) insertTerms(ctx context.Context, n sale.Number, terms *ledger.Terms) error {
	err := t.must(ctx, "terms_insert", func(a *args) {
		a.int(int64(n))
		a.int(terms.Number)
		a.text(terms.Currency)
		a.int(terms.Hold.Milliseconds())
	})
	for i := 0; err == nil && i < len(terms.Prices); i++ {
		err = t.must(ctx, "price_insert", func(a *args) {
			a.int(int64(n))
			a.int(terms.Number)
			a.int(int64(i))
			a.int(terms.Prices[i])
		})
	}
	return err
}

// PutAPIKey implements ledger.Tx; a key with the same id is replaced.
func (t *tx) PutAPIKey(ctx context.Context, k ledger.APIKey) error {
	if k.Scopes == nil {
		k.Scopes = []string{}
	}
	scopes, err := json.Marshal(k.Scopes)
	if err != nil {
		return err
	}
	return t.must(ctx, "key_put", func(a *args) {
		a.text(k.ID)
		a.blob(k.Hash[:])
		a.text(string(scopes))
		a.text(k.Label)
		a.time(k.CreatedAt)
		a.time(k.RevokedAt)
	})
}

// RevokeAPIKey implements ledger.Tx.
func (t *tx) RevokeAPIKey(ctx context.Context, id string, at time.Time) error {
	changed, _, err := t.exec(ctx, "key_revoke", func(a *args) {
		a.time(at)
		a.text(id)
	})
	if err == nil && changed == 0 {
		return keyNotFound()
	}
	return err
}
