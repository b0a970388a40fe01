package pgledger

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// tx is a write transaction.
//
// Its isolation is READ COMMITTED, and it is serializable all the same with
// respect to every sale that it has locked. All that belongs to a sale — its
// items, terms, orders, holders, journal, and the payments and refunds of its
// orders — is written by transactions that hold the lock of the sale's row until
// they end. The lock comes first, and each statement after it sees what was
// committed before that statement began: so it sees everything that earlier holders
// of the lock wrote, and nobody writes to it meanwhile. A single snapshot
// (REPEATABLE READ) would be worse: taken before the wait for the lock, it would
// miss what the one waited for has written, and every second writer of a hot sale
// would have to begin anew.
//
// The gate has a row of its own, which is locked likewise by whoever writes to it, and
// never together with a sale. Three things belong to neither and are held by unique
// indexes: slugs, API keys, and the ids of payments. A payment that was entered for
// another sale at the same time fails the guard of payments_put, and its repetition is
// told the truth.
type tx struct {
	*session
	reader
	store   *Store
	now     time.Time
	settled bool // now is the time at which the first sale, or the gate, was locked
	spans   []ledger.Span
	locked  map[sale.Number]bool
	// unknown are users who were looked up, of a sale that is locked, and have no row.
	unknown map[holding]bool
}

// holding names a row of holders.
type holding struct {
	sale sale.Number
	user string
}

var _ ledger.Tx = (*tx)(nil)

func newTx(s *Store, c *pgx.Conn) *tx {
	at := &session{conn: c, statements: s.statements, before: s.opts.BeforeStatement}
	return &tx{session: at, store: s, reader: reader{source: at, due: "orders_due_free", byID: "orders_lock", onCorrupt: s.opts.OnCorrupt}}
}

func (t *tx) begin(ctx context.Context) error {
	return t.timed(ctx, step{name: "begin", want: anyRows})
}

// timed runs steps and then looks at the clock.
func (t *tx) timed(ctx context.Context, steps ...step) error {
	if t.store.opts.Clock != nil {
		err := t.run(ctx, steps...)
		t.now = t.store.clock()
		return err
	}
	return t.run(ctx, append(steps, step{name: "clock", want: 1, each: func(row *row) error {
		t.now = row.time()
		return row.done()
	}})...)
}

// Holders implements ledger.Reader, and takes note of who has no row.
func (t *tx) Holders(ctx context.Context, n sale.Number, users []string) (map[string]ledger.Holder, error) {
	found, err := t.reader.Holders(ctx, n, users)
	if err != nil || !t.locked[n] {
		return found, err
	}
	for _, user := range users {
		if _, known := found[user]; !known {
			if t.unknown == nil {
				t.unknown = make(map[holding]bool, len(users))
			}
			t.unknown[holding{n, user}] = true
		}
	}
	return found, nil
}

// Now implements ledger.Tx. The time at which a transaction judges is that at which
// it locked its first sale, not that at which it began to wait; it does not move
// afterwards.
func (t *tx) Now() time.Time { return t.now }

// LockSale implements ledger.Tx.
func (t *tx) LockSale(ctx context.Context, n sale.Number) (ledger.Record, error) {
	_, rec, err := t.lock(ctx, step{name: "sale_lock", args: []any{int64(n)}}, step{name: "sale_by_number", args: []any{int64(n)}})
	return rec, err
}

// LockSlug implements ledger.Tx. While it waited the slug may have passed to
// another sale; then it begins anew.
func (t *tx) LockSlug(ctx context.Context, slug string) (ledger.Record, error) {
	if !storable(slug) {
		return ledger.Record{}, sale.SaleNotFound()
	}
	for {
		locked, rec, err := t.lock(ctx, step{name: "slug_lock", args: []any{slug}}, step{name: "sale_by_slug", args: []any{slug}})
		if err != nil || locked == rec.Number {
			return rec, err
		}
	}
}

// lock locks a sale and reads it: by a statement of its own, since one that has
// waited for a lock sees the locked row anew but all others as they were before.
func (t *tx) lock(ctx context.Context, lock, read step) (locked sale.Number, rec ledger.Record, err error) {
	lock.want, read.want = anyRows, anyRows
	lock.each = func(row *row) error {
		locked = sale.Number(row.int()) //nolint:gosec // the table holds it in range
		return row.done()
	}
	var found sales
	read.each = found.add
	run := t.run
	if !t.settled {
		run = t.timed
	}
	if err = run(ctx, lock, read); err != nil {
		return 0, ledger.Record{}, err
	}
	t.settled = true
	if t.locked == nil {
		t.locked = make(map[sale.Number]bool)
	}
	t.locked[locked] = true
	rec, err = found.one()
	return locked, rec, err
}

// Keys of the locks under which numbers are given in order; see order_of_birth.sql.
// Who takes several takes them in this order.
const (
	migrationLock int64 = 0x646f6f72_00000000 + iota
	saleNumbers
	refundPlaces
	letterPlaces
)

func inOrder(key int64) step { return step{name: "order_of_birth", args: []any{key}, want: 1} }

// InsertSale implements ledger.Tx.
func (t *tx) InsertSale(ctx context.Context, r ledger.Record) (sale.Number, error) {
	args := append([]any{r.Slug, r.Key[:]}, standing(&r.Sale)...)
	args = append(args, ledger.Millis(r.CreatedAt), ledger.Millis(r.UpdatedAt), int64(r.Seq), r.Head[:]) //nolint:gosec // a journal does not reach 2^63 rows
	var n sale.Number
	err := t.run(ctx, inOrder(saleNumbers), step{name: "sale_insert", args: args, want: anyRows, each: func(row *row) error {
		n = sale.Number(row.int()) //nolint:gosec // the table holds it in range
		return row.done()
	}})
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, &sale.Error{
			Code: sale.CodeSaleExists, Field: "sale", Message: "there is a sale with this id already",
			Hint: "choose another id, or delete the old sale first",
		}
	}
	terms := ledger.Terms{
		Number: r.Terms, Currency: r.Currency, Hold: r.Hold,
		Prices: column(r.Items, func(it *sale.Item) int64 { return it.Price }),
	}
	return n, t.run(ctx, append([]step{insertItems(n, r.Items)}, insertTerms(n, &terms)...)...)
}

// standing gives title, window, limits, hold, currency, preferred path, state,
// terms, version, path, epoch, build and salts of a sale.
func standing(s *sale.Sale) []any {
	return []any{
		s.Title, ledger.Millis(s.StartsAt), ledger.Millis(s.EndsAt), s.PerUserLimit, string(s.LimitRule), s.Hold.Milliseconds(),
		s.MaxUnpaidHolds, s.CoolDown.Milliseconds(), s.Currency, string(cmp.Or(s.Preferred, sale.PathDirect)), string(s.State),
		s.Terms, s.Version, string(s.Path), s.Epoch, s.BuildToken, ledger.Millis(s.BuildAt), encodeSalts(s.Salts),
	}
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
	return t.run(ctx, step{name: "key_put", want: 1, args: []any{
		k.ID, k.Hash[:], string(scopes), k.Label, ledger.Millis(k.CreatedAt), ledger.Millis(k.RevokedAt),
	}})
}

// RevokeAPIKey implements ledger.Tx.
func (t *tx) RevokeAPIKey(ctx context.Context, id string, at time.Time) error {
	if !storable(id) {
		return keyNotFound()
	}
	found := false
	err := t.run(ctx, step{name: "key_revoke", want: anyRows, args: []any{id, ledger.Millis(at)}, each: func(*row) error {
		found = true
		return nil
	}})
	if err == nil && !found {
		return keyNotFound()
	}
	return err
}

// finish tells the others what was written, in the transaction itself, so that they
// hear of it if and when it is committed; and commits.
func (t *tx) finish(ctx context.Context) error {
	if len(t.spans) == 0 {
		return t.commit(ctx)
	}
	return t.commit(ctx, step{name: "notify", want: anyRows, args: []any{t.store.channel, payloads(t.spans, t.store.origin)}})
}
