package audit

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// crowd returns the facts of a sale that sold n units to n buyers, each paid:
// two journal rows an order.
func crowd(b *testing.B, n int64) *world {
	b.Helper()
	w := story(b)
	create := w.entries[0]
	w.entries, w.orders, w.payments, w.refunds, w.holders = nil, nil, nil, nil, nil
	w.termsRows = w.termsRows[:1]
	body := bodyOfSale(w)
	body.Version, body.Terms = 1, 1
	body.Items = []ledger.ItemBody{{SKU: priced, Stock: n, Price: 1000}}
	w.termsRows[0].Prices = []int64{1000}
	w.facts.body, w.facts.sold = body, []int64{n}
	create.Body = encode(b, body)
	w.entries = append(w.entries, create)
	key, at := sale.NewKey(), create.At
	for i := range n {
		user, charge := fmt.Sprintf("buyer-%08d", i), fmt.Sprintf("charge-%08d", i)
		o := sale.Order{
			ID: sale.DeriveOrderID(key, w.facts.number, user, "click"), User: user, SKU: priced, Quantity: 1, Terms: 1, Amount: 1000,
			Currency: "EUR", State: sale.Reserved, Epoch: 1, Version: 1, ReservedAt: at, ExpiresAt: at.Add(time.Minute),
		}
		w.entries = append(w.entries, ledger.Entry{Sale: w.facts.number, At: at, Kind: ledger.OrderKind(o.State), Order: o.ID, Body: encode(b, bodyOf(sale.Queued, &o))})
		o.State, o.Version, o.PaymentID, o.EndedAt = sale.Paid, 2, charge, at
		w.entries = append(w.entries, ledger.Entry{Sale: w.facts.number, At: at, Kind: ledger.OrderKind(o.State), Order: o.ID, Body: encode(b, bodyOf(sale.Reserved, &o))})
		w.orders = append(w.orders, o)
		w.payments = append(w.payments, ledger.PaymentRow{
			Payment: sale.Payment{ID: charge, Order: o.ID, Status: sale.PaymentSucceeded, Amount: 1000, Currency: "EUR"},
			Outcome: sale.OutcomePaid, PaidOrder: o.ID, At: at,
		})
		w.holders = append(w.holders, ledger.Holder{User: user, Live: 1, Cap: 2})
	}
	slices.SortFunc(w.orders, func(a, b sale.Order) int { return slices.Compare(a.ID[:], b.ID[:]) })
	w.rechain()
	return w
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkRecount tells what an order costs an audit, in time and in memory.
func BenchmarkRecount(b *testing.B) {
	const orders = 100_000
	w := crowd(b, orders)
	before := heap()
	for b.Loop() {
		c := newRecount(Options{})
		w.pour(c)
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/orders, "B/order")
		b.StartTimer()
		c.finish()
		report := c.report(ledgerRules())
		require.Empty(b, brokenRules(&report))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/orders, "ns/order")
}
