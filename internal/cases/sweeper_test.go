package cases_test

import (
	"database/sql"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// servers returns every server, also those that no buyer reaches.
func (s *site) servers() []*testenv.Server {
	if s.fleet == nil {
		return []*testenv.Server{s.Server}
	}
	return s.fleet.Servers
}

// metric returns the highest value that a metric has at any server.
func (s *site) metric(metric string) float64 {
	s.t.Helper()
	highest := 0.0
	for _, one := range s.servers() {
		r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, one.OpsURL+"/metrics", http.NoBody)
		require.NoError(s.t, err)
		page := s.do(r)
		found := regexp.MustCompile(`(?m)^` + metric + ` (\S+)$`).FindStringSubmatch(page.body)
		require.NotNil(s.t, found, "no metric %s", metric)
		value, err := strconv.ParseFloat(found[1], 64)
		require.NoError(s.t, err)
		highest = max(highest, value)
	}
	return highest
}

// logs returns the end of what the servers have written.
func (s *site) logs() string {
	var out strings.Builder
	for _, one := range s.servers() {
		out.WriteString(one.Log())
	}
	return out.String()
}

// The accident: one order that cannot be released stops the expiry of all others
// for ever.
// The right outcome: the others end in the same pass; the bad ones are tried again
// with longer pauses, and can be seen; once repaired they end too.
func TestC24SweeperPassesABadOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, aBadOrder)
}

func aBadOrder(s *site) {
	t := s.t
	const n = 100
	drop := s.named(drop)
	number := s.open(drop, n, 1, hold(2)).Number
	orders := make([]sale.OrderID, n)
	for i, o := range s.takeAll(drop, n) {
		id, err := sale.ParseOrderID(o.ID)
		require.NoError(t, err)
		orders[i] = id
	}
	db := s.sql()
	const ofU73 = " WHERE user_id = 'u73' AND sale = ?"
	alter(t, db, "UPDATE orders SET sku = 'gone' WHERE id = ?", orders[37][:]) // its item is unknown
	alter(t, db, "UPDATE holders SET live = 0"+ofU73, number)                  // its count would go below zero

	until(t, "the others are released", func() bool { return s.left(drop) == n-2 })
	until(t, "the bad ones are set aside", func() bool { return s.metric("doorbuster_holds_set_aside") == 2 })
	until(t, "the log names them", func() bool {
		return strings.Contains(s.logs(), orders[37].String()) && strings.Contains(s.logs(), orders[73].String())
	})
	alter(t, db, "UPDATE orders SET sku = 'unit' WHERE id = ?", orders[37][:])
	alter(t, db, "UPDATE holders SET live = 1"+ofU73, number)
	until(t, "repaired, they are released", func() bool { return s.left(drop) == n })
	require.Equal(t, int64(n), s.settled(drop).Expired)
}

// ledgerOf makes a ledger in which n holds of the sale were taken by a process
// that is gone, at an instant by the clock of then.
func ledgerOf(t *testing.T, dir string, n int, at time.Time) {
	t.Helper()
	then := &clock{}
	then.set(at)
	store, err := sqliteledger.Open(t.Context(), sqliteledger.Options{
		Path: filepath.Join(dir, "doorbuster.db"), Clock: then.now, Migrate: true,
	})
	require.NoError(t, err)
	holdsOfThen(t, ledger.New(store), sale.Sale{Slug: drop, Rules: sale.Rules{StartsAt: at}}, n)
}

// holdsOfThen publishes a sale of n units and takes them all, by the ledger's clock,
// and closes the ledger.
func holdsOfThen(t *testing.T, book *ledger.Book, s sale.Sale, n int) {
	t.Helper()
	s.EndsAt, s.PerUserLimit, s.LimitRule = s.StartsAt.Add(24*time.Hour), 1, sale.LimitLive
	s.Hold, s.Currency, s.Items = time.Second, "EUR", []sale.Item{{SKU: "unit", Stock: int64(n), Price: price}}
	_, err := book.CreateSale(t.Context(), s)
	require.NoError(t, err)
	published, err := book.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(t, err)
	for from := 0; from < n; from += 500 {
		batch := ledger.Batch{Sale: published.Number, Epoch: published.Epoch}
		for i := from; i < min(n, from+500); i++ {
			user := name("u", i)
			batch.Attempts = append(batch.Attempts, ledger.Attempt{ID: published.OrderID(user, "k"), User: user, Quantity: 1})
		}
		_, err := book.Reserve(t.Context(), batch)
		require.NoError(t, err)
	}
	require.NoError(t, book.Close())
}

// The accident: the job that should release holds ends without having done so,
// skips some since its pages move below it, or stops when it is killed.
// The right outcome: ten thousand holds that are due at once all end, over two
// kills, while new ones fall due; how far it is behind can be seen.
func TestC26SweeperFinishesTenThousand(t *testing.T) {
	t.Parallel()
	const n = 10_000
	dir := t.TempDir()
	ledgerOf(t, dir, n, time.Now().Add(-time.Hour))
	s := siteOn(t, testenv.ServeIn(t, dir, "--set", "holds.sweep_batch=100"))
	for kill := range 2 {
		before := s.left(drop)
		until(t, "the sweeper is in the middle", func() bool { return s.left(drop) > before })
		_, err := s.buy(name("young", kill), drop, 1) // falls due while the others end
		require.NoError(t, err)
		s.crash()
	}
	until(t, "all are released", func() bool { return s.left(drop) == n })
	until(t, "nothing is overdue", func() bool { return s.metric("doorbuster_hold_overdue_seconds") < 2 })
	require.Zero(t, s.metric("doorbuster_holds_set_aside"))
	figures := s.settled(drop)
	require.Equal(t, int64(n+2), figures.Expired)
}

// C26 on a fleet, whose only sweeper is killed twice, and whose counter has to hear of
// every end; how far the sweeper is behind can be seen where it runs.
func TestC26FleetSweeperFinishesTenThousand(t *testing.T) {
	t.Parallel()
	const n = 10_000
	s := halves.site(t)
	drop := s.named(drop)
	require.Zero(t, s.worker().Stop())
	then := &clock{}
	then.set(time.Now().Add(-time.Hour))
	store, err := pgledger.Open(t.Context(), pgledger.Options{URL: s.fleet.Postgres.URL, Clock: then.now})
	require.NoError(t, err)
	holdsOfThen(t, ledger.New(store), sale.Sale{Slug: drop, Rules: sale.Rules{StartsAt: then.now()}}, n)
	require.Zero(t, s.left(drop))
	_, err = s.admin().SetPath(t.Context(), drop, 0, "fast")
	require.NoError(t, err)
	s.fleet.fast(drop) // loaded while everything is overdue
	s.worker().Start()
	for range 2 {
		before := s.left(drop)
		until(t, "the sweeper is in the middle", func() bool { return s.left(drop) > before })
		require.Greater(t, s.metric("doorbuster_hold_overdue_seconds"), 2.0, "it can be seen how far it is behind")
		s.worker().Kill()
		s.worker().Start()
	}
	for i := range 2 {
		s.take(name("young", i), drop, 1)
	}
	until(t, "all are released", func() bool { return s.left(drop) == n })
	until(t, "nothing is overdue", func() bool { return s.metric("doorbuster_hold_overdue_seconds") < 2 })
	require.Zero(t, s.metric("doorbuster_holds_set_aside"))
	require.Equal(t, int64(n+2), s.settled(drop).Expired)
}

// The accident: expiry hangs on a signal or on a timer in a process, which is
// gone when it should come.
// The right outcome: due times are durable. Holds end soon after a start, whether
// the server was away for their whole life or they were made by one long gone.
func TestC27HoldsEndWithoutAnySignal(t *testing.T) {
	t.Parallel()
	const n = 50
	t.Run("away", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.open(drop, n, 1, hold(1))
		var last time.Time
		for _, o := range s.takeAll(drop, n) {
			if o.ExpiresAt.After(last) {
				last = *o.ExpiresAt
			}
		}
		s.Kill()
		over := time.NewTimer(time.Until(last))
		defer over.Stop()
		<-over.C
		s.crash()
		until(t, "all are released", func() bool { return s.left(drop) == n })
		require.Equal(t, int64(n), s.settled(drop).Expired)
	})
	t.Run("long gone", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		ledgerOf(t, dir, n, time.Now().Add(-time.Hour))
		s := siteOn(t, testenv.ServeIn(t, dir))
		until(t, "all are released", func() bool { return s.left(drop) == n })
		require.Equal(t, "paid", s.pay(s.take("next", drop, 1)).Outcome)
		s.settled(drop)
	})
}

// The accident: a sale with damaged or impossible rows takes others down with it:
// lists, reports, sweeper, the start of the server.
// The right outcome: every other sale lives as if it were not there.
func TestC62OneBadSaleLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		oneBadSale(t, newSite(t), func(s *site) *sql.DB { return s.sql("ignore_check_constraints(1)", "foreign_keys(0)") })
	})
	t.Run("fleet", func(t *testing.T) {
		t.Parallel()
		oneBadSale(t, siteOf(t, newFleet(t, testenv.FleetOptions{})), func(s *site) *sql.DB {
			db := s.sql()
			_, err := db.ExecContext(t.Context(), `DO $$ DECLARE c record; BEGIN
				FOR c IN SELECT conrelid::regclass AS tab, conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace
				LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.tab, c.conname); END LOOP; END $$`)
			require.NoError(t, err)
			return db
		})
	})
}

// oneBadSale damages sales of every kind in a ledger that guard opens without guards,
// and some in the counter.
func oneBadSale(t *testing.T, s *site, unguarded func(*site) *sql.DB) {
	t.Helper()
	damages := map[string][]string{
		"oversold":      {"UPDATE items SET sold = 99 WHERE sale = ?"},
		"negative":      {"UPDATE items SET stock = -5, sold = -7 WHERE sale = ?"},
		"no-items":      {"DELETE FROM items WHERE sale = ?"},
		"odd-state":     {"UPDATE sales SET state = 'odd' WHERE number = ?"},
		"cut-journal":   {"UPDATE sales SET seq = 77 WHERE number = ?", "DELETE FROM journal WHERE seq = 1 AND sale = ?"},
		"no-terms":      {"DELETE FROM prices WHERE sale = ?", "DELETE FROM terms WHERE sale = ?"},
		"short-key":     {"UPDATE sales SET key = x'00' WHERE number = ?"},
		"odd-order":     {"UPDATE orders SET state = 'odd' WHERE sale = ?"},
		"lost-holder":   {"DELETE FROM holders WHERE sale = ?"},
		"negative-time": {"UPDATE sales SET starts_at = -1, ends_at = -2 WHERE number = ?"},
	}
	s.open("y", 5, 1, hold(1))
	wholeLife(t, s, "y") // its first orders are older than the damaged ones
	numbers := make(map[string]uint32)
	for slug := range damages {
		numbers[slug] = s.open(slug, 5, 1, hold(1)).Number
		s.take("due", slug, 1) // falls due in the damaged sale
	}
	s.open("z", 5, 1, hold(1)) // behind all the damage in every list
	if s.fleet != nil {
		maps.Copy(damages, s.spoilt(numbers))
	}
	db := unguarded(s)
	for slug, statements := range damages {
		for _, statement := range statements {
			alter(t, db, statement, numbers[slug])
		}
	}
	for round := range 2 {
		wholeLife(t, s, "y")
		wholeLife(t, s, "z")
		for slug := range damages { // what is asked there is answered too, by trouble at worst
			a := s.call(s.token("curious"), http.MethodPost, "/v1/sales/"+slug+"/orders", `{"quantity":1}`, "Idempotency-Key", name("k", round))
			require.True(t, a.status < http.StatusInternalServerError || a.status == http.StatusServiceUnavailable, "%s: %d %s", slug, a.status, a.body)
		}
		s.crash() // a start meets the damage too
	}
	require.Equal(t, int64(3), s.settled("y").Expired)
	figures := s.settled("z")
	require.Equal(t, int64(2), figures.Expired)
	require.Equal(t, int64(2), figures.Cancelled)
	require.Equal(t, int64(2), figures.Refunded)
}

// spoilt damages the counters of some more sales, and notes their numbers.
func (s *site) spoilt(numbers map[string]uint32) map[string][]string {
	s.t.Helper()
	out := make(map[string][]string)
	for slug, damage := range map[string][]string{
		"counter-gone": {"DEL", "meta"}, "counter-odd": {"SET", "meta", "odd"}, "counter-negative": {"HSET", "meta", "l0", "-5"},
		"counter-words": {"HSET", "meta", "l0", "many", "taken", "few"}, "tray-odd": {"SET", "tray", "odd"},
	} {
		found := s.open(slug, 5, 1, hold(1))
		numbers[slug], out[slug] = found.Number, nil
		s.take("due", slug, 1)
		damage[1] = s.fleet.lane(found, damage[1])
		s.fleet.Redis.Must(damage...)
	}
	return out
}

// wholeLife takes a sale of five units and holds of a second through all that
// can happen to it, and leaves it as it was.
func wholeLife(t *testing.T, s *site, slug string) {
	t.Helper()
	user := func(what string) string { return name(what, int(s.keys.Add(1))) }
	s.take(user("expires"), slug, 1)
	cancels := user("cancels")
	_, err := s.as(cancels).Cancel(t.Context(), s.take(cancels, slug, 1).ID)
	require.NoError(t, err)
	bought := s.take(user("pays"), slug, 1)
	require.Equal(t, "paid", s.pay(bought).Outcome)
	_, err = s.admin().Refund(t.Context(), bought.ID, refundToStock())
	require.NoError(t, err)
	until(t, "the hold ends", func() bool { return s.left(slug) == 5 })
	shown, err := s.as("anybody").Sale(t.Context(), slug, "")
	require.NoError(t, err)
	require.Equal(t, "live", shown.Sale.Status)
	require.Contains(t, s.call("", http.MethodGet, "/v1/sales", "").body, `"`+slug+`"`)
	require.Contains(t, s.call(s.AdminKey(), http.MethodGet, "/v1/admin/sales", "").body, `"`+slug+`"`)
	require.Contains(t, s.call(s.AdminKey(), http.MethodGet, "/v1/admin/stats", "").body, `"`+slug+`"`)
	found := false
	for one, err := range client.All(func(after string) (client.Page[client.AdminSale], error) {
		return s.admin().AdminSales(t.Context(), client.SaleQuery{After: after, Limit: 2})
	}) {
		require.NoError(t, err)
		found = found || one.ID == slug
	}
	require.True(t, found, "small pages lead to it too")
	for _, q := range []client.OrderQuery{{Sale: slug, Limit: 1}, {Limit: 1}} {
		mine := make(map[string]bool)
		for o, err := range client.All(func(after string) (client.Page[client.Order], error) {
			q.After = after
			return s.admin().AdminOrders(t.Context(), q)
		}) {
			require.NoError(t, err)
			if o.Sale == slug {
				mine[o.ID] = true
			}
		}
		require.Contains(t, mine, bought.ID)
		require.GreaterOrEqual(t, len(mine), 3)
	}
	s.settled(slug)
}
