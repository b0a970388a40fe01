package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// live lets random things happen to a sale: a life of n steps.
func (s *shop) live(tb testing.TB, random *rand.Rand, n int) {
	tb.Helper()
	ctx := tb.Context()
	var orders []sale.Order
	var slips []ledger.Attempt
	some := func() *sale.Order { return &orders[random.IntN(len(orders))] }
	for i := range n {
		switch what := random.IntN(30); {
		case what >= 20:
			s.rideFast(tb, random, &slips)
		case what < 8 || len(orders) == 0:
			user, sku := fmt.Sprintf("user %d", random.IntN(12)), []string{priced, free}[random.IntN(2)]
			if r := s.try(tb, user, fmt.Sprintf("click-%d", random.IntN(40)), sku, 1+random.Int64N(3)); r.Verdict == sale.Taken {
				orders = append(orders, r.Order)
			}
		case what < 12:
			o := *some()
			o.Amount += random.Int64N(2) * random.Int64N(2) // now and then a wrong amount
			if random.IntN(8) == 0 {
				o.Currency = "USD"
			}
			status := sale.PaymentSucceeded
			if random.IntN(4) == 0 {
				status = sale.PaymentFailed
			}
			_, err := s.book.Pay(ctx, sale.Payment{
				ID: fmt.Sprintf("ch-%d", random.IntN(3*n)), Order: o.ID, Status: status, Amount: o.Amount, Currency: o.Currency,
			})
			require.True(tb, err == nil || sale.CodeOf(err) == sale.CodePaymentMismatch, err)
		case what < 14:
			_, err := s.book.Cancel(ctx, some().ID, "")
			require.True(tb, err == nil || sale.CodeOf(err) == sale.CodeIllegalState, err)
		case what < 16:
			s.advance(time.Duration(random.IntN(40)) * time.Second)
			due, err := s.book.Due(ctx, time.Time{}, 100)
			require.NoError(tb, err)
			_, err = s.book.Expire(ctx, due.IDs)
			require.NoError(tb, err)
		case what < 17:
			after, err := s.book.Refund(ctx, some().ID, ledger.Refunding{Restock: random.IntN(2) == 0})
			require.True(tb, err == nil || sale.CodeOf(err) == sale.CodeIllegalState, err)
			if err == nil && after.PaymentID != "" && random.IntN(2) == 0 {
				_, err = s.book.RefundDone(ctx, sale.DeriveRefundID(after.PaymentID))
				require.NoError(tb, err)
			}
		default:
			s.operate(tb, random, i)
		}
	}
}

// operate changes the sale in some way that its state may refuse.
func (s *shop) operate(tb testing.TB, random *rand.Rand, step int) {
	tb.Helper()
	price, hold, limit := int64(900+step), time.Duration(30+random.IntN(60))*time.Second, 1+random.Int64N(4)
	rule := []sale.LimitRule{sale.LimitLive, sale.LimitEverPaid}[random.IntN(2)]
	changes := []sale.Change{
		{Action: sale.ActionRestock, Restock: sale.Restock{SKU: priced, Add: random.Int64N(5) - 2}},
		{Action: sale.ActionUpdate, Patch: sale.Patch{Items: []sale.ItemPatch{{SKU: priced, Price: &price}}}},
		{Action: sale.ActionUpdate, Patch: sale.Patch{Hold: &hold}},
		{Action: sale.ActionUpdate, Patch: sale.Patch{PerUserLimit: &limit, LimitRule: &rule}},
		{Action: sale.ActionPause},
		{Action: sale.ActionResume},
		{Action: sale.ActionResume},
	}
	_, err := s.book.ChangeSale(tb.Context(), s.sale.Slug, 0, changes[random.IntN(len(changes))])
	code := sale.CodeOf(err)
	require.True(tb, err == nil || code == sale.CodeIllegalState || code == sale.CodeStockBelowSold, err)
}

// Whatever happens to a sale, the audit finds nothing, and finds the same in
// the exported file.
func TestRandomLivesKeepEveryPromise(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.live(t, rand.New(rand.NewPCG(seed, 7)), 300)
			report, err := Run(t.Context(), s.store, Options{})
			require.NoError(t, err)
			require.Len(t, report.Sales, 1)
			require.Empty(t, brokenRules(&report.Sales[0]), "%s", text(t, &report))

			var file bytes.Buffer
			_, err = Export(t.Context(), s.store, s.sale.Number, &file)
			require.NoError(t, err)
			offline, err := Verify(t.Context(), &file, VerifyOptions{})
			require.NoError(t, err)
			require.False(t, offline.Broken())
			require.Equal(t, report.Sales[0].Figures, offline.Sales[0].Figures)
			require.Equal(t, report.Sales[0].Rules, offline.Sales[0].Rules[:len(report.Sales[0].Rules)])
		})
	}
}

func TestRunChoosesSales(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	now, err := s.store.Now(t.Context())
	require.NoError(t, err)
	_, err = s.book.CreateSale(t.Context(), sale.Sale{
		Slug: "gone", Items: []sale.Item{{SKU: "x", Stock: 1}},
		Rules: sale.Rules{StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: 1, LimitRule: sale.LimitLive, Hold: time.Minute, Currency: "EUR"},
	})
	require.NoError(t, err)
	_, err = s.book.ChangeSale(t.Context(), "gone", 0, sale.Change{Action: sale.ActionDelete})
	require.NoError(t, err)

	report, err := Run(t.Context(), s.store, Options{})
	require.NoError(t, err)
	require.Len(t, report.Sales, 2, "a deleted sale is audited too")
	require.False(t, report.Broken(), "%s", text(t, &report))

	report, err = Run(t.Context(), s.store, Options{Sales: []sale.Number{2}})
	require.NoError(t, err)
	require.Len(t, report.Sales, 1)
	require.Equal(t, sale.Deleted, report.Sales[0].State)

	_, err = Run(t.Context(), s.store, Options{Sales: []sale.Number{3}})
	require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
}

// A hold that ended while nobody sold is no breach; under a running server it is.
func TestOverdueHoldNeedsAServer(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.tell(t)
	s.advance(time.Hour)
	for _, c := range []struct {
		options Options
		want    []string
	}{
		{Options{}, []string{}},
		{Options{Running: true}, []string{overdueHold.String()}},
		{Options{Running: true, Overdue: 2 * time.Hour}, []string{}},
		{Options{Running: true, Overdue: -1}, []string{}},
	} {
		report, err := Run(t.Context(), s.store, c.options)
		require.NoError(t, err)
		require.Equal(t, c.want, brokenRules(&report.Sales[0]))
	}
}

// brokenSource fails where it is told to.
type brokenSource struct {
	Source
	err error
}

func (b brokenSource) Snapshot(context.Context, func(ledger.Reader) error) error { return b.err }

func TestTroubleIsNoVerdict(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cable is cut")
	src := brokenSource{Source: newShop(t).store, err: cause}
	_, err := Run(t.Context(), src, Options{})
	require.ErrorIs(t, err, cause)
	var out bytes.Buffer
	_, err = Export(t.Context(), src, 1, &out)
	require.ErrorIs(t, err, cause)
	require.Empty(t, out.String())
}

func TestWriteText(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.tell(t)
	report, err := Run(t.Context(), s.store, Options{})
	require.NoError(t, err)
	table := text(t, &report)
	require.Contains(t, table, "sale summer-drop (number 1, published)\n")
	require.Regexp(t, `(?m)^  P1\.journal +\d+ +0 +live units of an item never exceed`, table)
	require.Regexp(t, `(?m)^  P9 +- +- +errors are honest: shown by tests$`, table)
	require.Regexp(t, `(?m)^  money +EUR in minor units: paid 3000, to return 2000, returned 1000$`, table)
	require.True(t, strings.HasSuffix(table, "\nKEPT: every promise that leaves a trace holds (1 sale, 13 orders, "+
		strconv.FormatUint(report.Sales[0].Figures.Rows, 10)+" journal rows).\n"), table)

	w := s.capture(t)
	w.facts.sold[0], w.facts.body.Slug = 9, "evil\x1b[2J"
	w.of("bob").Epoch++
	report = Report{Sales: []SaleReport{w.recount()}}
	table = text(t, &report)
	require.NotContains(t, table, "\x1b", "a report cannot steer a terminal")
	require.Contains(t, table, "P2.counter is broken: 1 violation\n    \"shoe\" counts 9 sold, 4 are live\n")
	require.Contains(t, table, w.of("bob").ID.String()+", row ")
	require.Contains(t, table, `BROKEN: "evil\x1b[2J" P2.counter, `)
}
