package pgledger_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

const childURL = "DOORBUSTER_TEST_KILLED_LEDGER"

// TestKilledChild is a process that is killed: it sells for ever, and says what it
// has sold once that is durable.
func TestKilledChild(t *testing.T) { //nolint:paralleltest // it is a process of its own, or nothing
	url := os.Getenv(childURL)
	if url == "" {
		return
	}
	s, err := pgledger.Open(t.Context(), pgledger.Options{URL: url})
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

// endless is a sale that is open now, by the server's clock, and never sells out.
func (w *world) endless(t *testing.T, book *ledger.Book) sale.Sale {
	t.Helper()
	far := w.sale("drop", sale.MaxInteger)
	far.StartsAt, far.EndsAt = far.StartsAt.AddDate(-50, 0, 0), far.EndsAt.AddDate(50, 0, 0)
	far.Hold = 24 * time.Hour
	return open(t, book, far)
}

// TestKill kills a selling process again and again: what it has answered is there,
// what is there is whole, and the next one sells on at once.
func TestKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.openWith(t, pgledger.Options{URL: w.url})
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	drop := w.endless(t, book)
	answered := make(map[string]bool)
	for round := range 4 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledChild$", "-test.v") //nolint:gosec // ourselves
		child.Env = append(os.Environ(), childURL+"="+w.url)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		sold := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "SOLD "); ok {
				answered[id] = true
				sold++
			}
			if sold == 200+round*137 { // in the middle of an answer, while the next batch is written
				require.NoError(t, child.Process.Kill())
				break
			}
		}
		require.Error(t, child.Wait(), "it was killed")
		out2, err := book.Reserve(t.Context(), clicks(drop, "k", fmt.Sprint("survivor-", round)))
		require.NoError(t, err, "its locks are gone with it")
		require.Equal(t, sale.Taken, out2.Results[0].Verdict)
		recount(t, store, drop.Number)
		present(t, store, drop.Number, answered)
	}
}

// present looks for orders that somebody was told of.
func present(t *testing.T, s ledger.Store, n sale.Number, answered map[string]bool) {
	t.Helper()
	missing := len(answered)
	require.NoError(t, s.Snapshot(t.Context(), func(r ledger.Reader) error {
		return r.EachOrder(t.Context(), n, func(o sale.Order) error {
			if answered[o.ID.String()] {
				missing--
			}
			return nil
		})
	}))
	require.Zero(t, missing, "orders that were answered are gone")
}

// TestServerDies kills the server under two instances that sell: they end with
// errors that promise nothing or wait for its return, and go on when it is back.
// What was answered is there.
func TestServerDies(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t, "fsync=on")
	w := worldAt(server.URL)
	store := w.openWith(t, pgledger.Options{URL: w.url, Migrate: true})
	books := []*ledger.Book{ledger.New(store), w.book(t, pgledger.Options{URL: w.url})}
	t.Cleanup(func() { require.NoError(t, books[0].Close()) })
	drop := w.endless(t, books[0])
	answers := make(chan []string, 10_000)
	selling, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, len(books))
	for i, book := range books {
		go func() {
			ended <- func() error {
				for round := 0; selling.Err() == nil; round++ {
					batch := clicks(drop, "k", fmt.Sprintf("%d-%d-a", i, round), fmt.Sprintf("%d-%d-b", i, round))
					out, err := book.Reserve(selling, batch)
					if err != nil {
						if sale.CodeOf(err) != sale.CodeUnavailable {
							return err
						}
						round-- // again, with the same keys
						continue
					}
					answers <- []string{out.Results[0].Order.ID.String(), out.Results[1].Order.ID.String()}
				}
				return nil
			}()
		}()
	}
	answered := make(map[string]bool)
	more := func(n int) {
		t.Helper()
		limit := time.NewTimer(60 * time.Second)
		defer limit.Stop()
		for range n {
			select {
			case ids := <-answers:
				answered[ids[0]], answered[ids[1]] = true, true
			case <-limit.C:
				require.FailNow(t, "nobody sells")
			}
		}
	}
	for _, end := range []func(){server.Kill, server.Stop, server.Kill} {
		more(40)
		end()
		server.Start()
	}
	more(len(answers) + 40)
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	for len(answers) > 0 {
		more(1)
	}
	recount(t, store, drop.Number)
	present(t, store, drop.Number, answered)
}
