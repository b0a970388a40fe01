package sqliteledger_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// leave copies what a process that dies now leaves on the disk: the file and its
// log, but not the shared index of the log.
func leave(tb testing.TB, path string) (copied string) {
	tb.Helper()
	copied = filepath.Join(tb.TempDir(), "left.db")
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(tb, err)
		require.NoError(tb, os.WriteFile(copied+suffix, raw, 0o600))
	}
	return copied
}

// acts is one write transaction of each kind.
func acts(t *testing.T, w *world, s sale.Sale, held sale.Order) map[string]func(*ledger.Book) error {
	t.Helper()
	drop := func(_ any, err error) error { return err }
	pay := func(b *ledger.Book, o sale.Order, id string, amount int64) error {
		return drop(b.Pay(t.Context(), sale.Payment{ID: id, Order: o.ID, Status: sale.PaymentSucceeded, Amount: amount, Currency: "EUR"}))
	}
	price := int64(1)
	return map[string]func(*ledger.Book) error{
		"reserve":      func(b *ledger.Book) error { return drop(b.Reserve(t.Context(), clicks(s, "k", "x", "y", "z", "x"))) },
		"cancel":       func(b *ledger.Book) error { return drop(b.Cancel(t.Context(), held.ID, "")) },
		"pay":          func(b *ledger.Book) error { return pay(b, held, "p", held.Amount) },
		"pay too much": func(b *ledger.Book) error { return pay(b, held, "q", held.Amount+1) },
		"expire": func(b *ledger.Book) error {
			w.clock.Add(61_000)
			return drop(b.Expire(t.Context(), []sale.OrderID{held.ID}))
		},
		"create a sale": func(b *ledger.Book) error { return drop(b.CreateSale(t.Context(), w.sale("second", 5))) },
		"change a sale": func(b *ledger.Book) error {
			return drop(b.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Items: []sale.ItemPatch{{Price: &price}}}}))
		},
		"put a key": func(b *ledger.Book) error {
			return b.PutAPIKey(t.Context(), ledger.APIKey{ID: "k", Scopes: []string{"shop"}})
		},
	}
}

// TestDiesAtEveryStatement keeps what a kill would leave before each statement
// of each kind of transaction, the commit included: the state before, whole. What
// it leaves after the commit is the state after.
func TestDiesAtEveryStatement(t *testing.T) {
	t.Parallel()
	names := acts(t, newWorld(t), sale.Sale{}, sale.Order{})
	for name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			o := w.options()
			var left []string
			var at []string
			watching := false
			o.BeforeStatement = func(statement string) error {
				if watching {
					left, at = append(left, leave(t, w.path)), append(at, statement)
				}
				return nil
			}
			book := ledger.New(w.openWith(t, o))
			t.Cleanup(func() { require.NoError(t, book.Close()) })
			s := w.publish(t, book, "drop", 100)
			held := take(t, book, s, "ann", "bob")[0]
			before := dump(t, w.path)
			watching = true
			require.NoError(t, acts(t, w, s, held)[name](book))
			watching = false
			after := dump(t, w.path)
			require.NotEqual(t, before, after)
			require.Greater(t, len(left), 3)
			for i, path := range left {
				want := before
				if at[i] == "committed" {
					want = after
				}
				require.Equal(t, want, dump(t, path), "before %s", at[i])
			}
		})
	}
}

// TestTornLog cuts the log at every length that a power cut could leave: each
// file opens, is sound, and is in the state before or after.
func TestTornLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	book := ledger.New(w.open(t))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.publish(t, book, "drop", 100)
	var states [4]string
	var sizes [4]int64
	for i := range states {
		states[i], sizes[i] = dump(t, w.path), size(t, w.path+"-wal")
		if i < len(states)-1 {
			take(t, book, s, fmt.Sprint("ann", i), fmt.Sprint("bob", i))
		}
	}
	left := leave(t, w.path)
	log, err := os.ReadFile(left + "-wal")
	require.NoError(t, err)
	seen := make(map[int]bool)
	cuts := []int64{sizes[3]}
	for cut := sizes[0]; cut < sizes[3]; cut += 2039 { // a prime, so that cuts fall everywhere in frames
		cuts = append(cuts, cut)
	}
	for _, cut := range cuts {
		for _, tail := range []byte{0x00, 0xa5} { // sectors that were never written, or hold something old
			torn := slices.Concat(log[:cut], bytes.Repeat([]byte{tail}, len(log)-int(cut)))
			path := leave(t, left)
			require.NoError(t, os.WriteFile(path+"-wal", torn, 0o600))
			whole := 0
			for i := range sizes {
				if sizes[i] <= cut {
					whole = i
				}
			}
			require.Equal(t, states[whole], dump(t, path), "cut at %d", cut)
			seen[whole] = true
			o := w.options()
			o.Path = path
			again := ledger.New(w.openWith(t, o))
			take(t, again, s, "dan")
			require.NoError(t, again.Close())
		}
	}
	require.Len(t, seen, len(states), "every state was left by some cut")
}

func size(tb testing.TB, path string) int64 {
	tb.Helper()
	info, err := os.Stat(path)
	require.NoError(tb, err)
	return info.Size()
}

const childPath = "DOORBUSTER_TEST_KILLED_LEDGER"

// TestKilledChild is the process that TestKill kills: it sells for ever, and says
// what it has sold once that is durable.
func TestKilledChild(t *testing.T) { //nolint:paralleltest // it is a process of its own, or nothing
	path := os.Getenv(childPath)
	if path == "" {
		return
	}
	lock, err := sqliteledger.Lock(path)
	require.NoError(t, err)
	defer func() { _ = lock.Unlock() }()
	s, err := sqliteledger.Open(t.Context(), sqliteledger.Options{Path: path})
	require.NoError(t, err)
	book := ledger.New(s)
	drop, err := book.Sale(t.Context(), "drop")
	require.NoError(t, err)
	for i := 0; ; i++ {
		users := make([]string, 50)
		for j := range users {
			users[j] = fmt.Sprintf("%d-%d-%d", os.Getpid(), i, j)
		}
		for _, o := range take(t, book, drop, users...) {
			fmt.Println("SOLD", o.ID) //nolint:forbidigo // this is how the parent hears of it
		}
	}
}

// TestKill kills a selling process again and again: what it has answered is
// there, what is there is whole, the lock is free, and the next one sells on.
func TestKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Clock = nil
	s := w.openWith(t, o)
	book := ledger.New(s)
	far := w.sale("drop", sale.MaxInteger)
	far.StartsAt, far.EndsAt = far.StartsAt.AddDate(-50, 0, 0), far.EndsAt.AddDate(50, 0, 0)
	drop, err := book.CreateSale(t.Context(), far)
	require.NoError(t, err)
	_, err = book.ChangeSale(t.Context(), drop.Slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(t, err)
	require.NoError(t, book.Close())

	answered := make(map[string]bool)
	for round := range 5 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledChild$", "-test.v") //nolint:gosec // ourselves
		child.Env = append(os.Environ(), childPath+"="+w.path)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		sold := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "SOLD "); ok {
				answered[id] = true
				sold++
			}
			if sold == 400+round*137 { // in the middle of an answer, while the next batch is written
				require.NoError(t, child.Process.Kill())
				break
			}
		}
		require.Error(t, child.Wait(), "it was killed")

		lock, err := sqliteledger.Lock(w.path)
		require.NoError(t, err, "the lock ends with its process")
		s, err := sqliteledger.Open(t.Context(), sqliteledger.Options{Path: w.path, ReadOnly: true})
		require.NoError(t, err, "an audit needs no server to have tidied up")
		recount(t, s, drop.Number, answered)
		require.NoError(t, errors.Join(s.Close(), lock.Unlock()))
	}
	dump(t, w.path) // checks that the file is sound
}

// recount compares orders, counters and journal of a sale in one snapshot.
func recount(t *testing.T, s *sqliteledger.Store, n sale.Number, answered map[string]bool) {
	t.Helper()
	require.NoError(t, s.Snapshot(t.Context(), func(r ledger.Reader) error {
		rec, err := r.SaleByNumber(t.Context(), n)
		require.NoError(t, err)
		var held, counted int64
		missing := len(answered)
		require.NoError(t, r.EachOrder(t.Context(), n, func(o sale.Order) error {
			held += o.Quantity
			if answered[o.ID.String()] {
				missing--
			}
			return nil
		}))
		require.NoError(t, r.EachHolder(t.Context(), n, func(h ledger.Holder) error {
			counted += h.Live
			return nil
		}))
		require.Zero(t, missing, "orders that were answered are gone")
		require.Equal(t, held, rec.Items[0].Sold)
		require.Equal(t, held, counted)
		var head [32]byte
		var seq uint64
		for {
			rows, err := r.Rows(t.Context(), n, seq, 500)
			require.NoError(t, err)
			if len(rows) == 0 {
				break
			}
			for i := range rows {
				require.Equal(t, seq+1, rows[i].Seq)
				require.Equal(t, rows[i].ChainHash(head), rows[i].Hash)
				seq, head = rows[i].Seq, rows[i].Hash
			}
		}
		require.Equal(t, rec.Seq, seq)
		require.Equal(t, rec.Head, head)
		require.Equal(t, held+2, int64(seq), "created, published, and a row for each order")
		return nil
	}))
}
