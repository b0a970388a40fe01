package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// breach breaks one promise in the data of a story that keeps them all.
type breach struct {
	name string
	rule rule
	do   func(w *world)
}

func breaches() []breach {
	return slices.Concat(unitBreaches(), orderBreaches(), moneyBreaches(), journalBreaches(), fastBreaches())
}

func unitBreaches() []breach {
	return []breach{
		{"oversold once, restocked later", stockJournal, func(w *world) {
			w.editSale(func(b *ledger.SaleBody) {
				if b.Items[0].Stock < w.facts.body.Items[0].Stock {
					b.Items[0].Stock = 1
				}
			})
		}},
		{"stock raised behind the journal's back", stockRows, func(w *world) { w.facts.body.Items[0].Stock += 5 }},
		{"stock cut below what is live", stockRows, func(w *world) { w.facts.body.Items[0].Stock = 1 }},
		{"a unit lost in the counter", soldCounter, func(w *world) { w.facts.sold[0]++ }},
		{"a unit too many to sell", soldCounter, func(w *world) { w.facts.sold[1]-- }},
		{"a hold nobody ended", overdueHold, func(w *world) {
			w.facts.body.Version++
			w.add("sale.updated", sale.OrderID{}, bodyOfSale(w))
			last := &w.entries[len(w.entries)-1]
			last.At = last.At.Add(time.Hour) // somebody was at work, but no sweeper
			w.rechain()
		}},
		{"over the limit", limitReplay, func(w *world) {
			w.editSale(func(b *ledger.SaleBody) { b.PerUserLimit = 1 })
			w.facts.body.PerUserLimit = 1
		}},
		{"the limit of a refunded buyer, counted for ever", limitReplay, func(w *world) {
			// erin was refunded one of two; now frank's order is hers and of two.
			w.editSale(func(b *ledger.SaleBody) { b.LimitRule = sale.LimitEverPaid })
			w.facts.body.LimitRule = sale.LimitEverPaid
			o := w.of("frank")
			w.editRows(o.ID, 0, func(b *ledger.OrderBody) { b.User, b.Quantity = "erin", 2 })
			o.User, o.Quantity = "erin", 2
			w.facts.sold[1]++
			w.holders = slices.DeleteFunc(w.holders, func(h ledger.Holder) bool { return h.User == "frank" })
			for i := range w.holders {
				if w.holders[i].User == "erin" {
					w.holders[i].Live = 2
				}
			}
		}},
		{"a buyer who counts for too much", holderCounter, func(w *world) { w.holders[0].Live++ }},
		{"a refund forgotten", holderCounter, func(w *world) {
			for i := range w.holders {
				w.holders[i].Refunded = 0
			}
		}},
		{"a buyer who counts for nothing", holderCounter, func(w *world) {
			w.holders = slices.DeleteFunc(w.holders, func(h ledger.Holder) bool { return h.User == "bob" })
		}},
	}
}

func orderBreaches() []breach {
	return []breach{
		{"an order of another sale", onceID, func(w *world) {
			o := *w.of("carol")
			o.ID[3]++ // the sale's number
			o.State, o.Reason, o.Version, o.ExpiresAt = sale.Rejected, sale.RejectedLimit, 1, time.Time{}
			o.ReservedAt = w.entries[len(w.entries)-1].At
			o.EndedAt = o.ReservedAt
			w.orders = append(w.orders, o)
			w.add(ledger.OrderKind(sale.Rejected), o.ID, bodyOf(sale.Queued, &o))
		}},
		{"an order row twice", onceID, func(w *world) {
			i := slices.IndexFunc(w.orders, func(o sale.Order) bool { return o.User == "carol" })
			w.orders = slices.Insert(w.orders, i, *w.of("carol"))
		}},
		{"a second birth", onceID, func(w *world) {
			o := w.of("carol")
			o.Version, o.EndedAt = 1, w.entries[len(w.entries)-1].At
			o.State, o.Reason = sale.Rejected, sale.RejectedLimit
			w.add(ledger.OrderKind(sale.Rejected), o.ID, bodyOf(sale.Queued, o))
		}},
		{"a replacement for a stranger's order", onceReplaced, func(w *world) {
			heir, carol := w.heir("dave"), w.of("carol").ID
			i := slices.IndexFunc(w.entries, func(e ledger.Entry) bool { return e.Order == heir.ID })
			e := w.entries[i]
			w.entries = slices.Delete(w.entries, i, i+1)
			i = slices.IndexFunc(w.entries, func(e ledger.Entry) bool { return e.Order == carol && e.Kind == ledger.OrderKind(sale.Cancelled) })
			w.entries = slices.Insert(w.entries, i+1, e) // after carol's order has ended
			w.editRows(heir.ID, 0, func(b *ledger.OrderBody) { b.Replaces = carol })
			heir.Replaces = carol
			w.charge("ch-dave").Order = carol
		}},
		{"an order deleted", phantom, func(w *world) {
			w.orders = slices.DeleteFunc(w.orders, func(o sale.Order) bool { return o.User == "carol" })
		}},
		{"an order in another state", phantom, func(w *world) { w.of("carol").State = sale.Expired }},
		{"an order never born", phantom, func(w *world) {
			id, first := w.of("carol").ID, true
			w.entries = slices.DeleteFunc(w.entries, func(e ledger.Entry) bool {
				birth := first && e.Order == id
				first = first && !birth
				return birth
			})
			w.rechain()
		}},
		{"an order without a journal", phantom, func(w *world) {
			id := w.of("carol").ID
			w.entries = slices.DeleteFunc(w.entries, func(e ledger.Entry) bool { return e.Order == id })
			w.rechain()
		}},
		{"an end after the end", legalMove, func(w *world) {
			o := w.of("carol")
			o.State, o.Version, o.EndedAt = sale.Expired, 3, w.entries[len(w.entries)-1].At
			w.add(ledger.OrderKind(sale.Expired), o.ID, bodyOf(sale.Cancelled, o))
		}},
		{"units back twice", legalMove, func(w *world) {
			o := w.of("carol")
			o.Version, o.EndedAt = 3, w.entries[len(w.entries)-1].At
			w.add(ledger.OrderKind(sale.Cancelled), o.ID, bodyOf(sale.Reserved, o))
		}},
		{"paid without paying", legalMove, func(w *world) {
			// dave's heir was born paid because it replaces an order; now it does not.
			heir := w.heir("dave")
			w.editRows(heir.ID, 0, func(b *ledger.OrderBody) { b.Replaces = sale.OrderID{} })
			heir.Replaces = sale.OrderID{}
			w.charge("ch-dave").Order = heir.ID
		}},
		{"a version left out", versionStep, func(w *world) {
			o := w.of("carol")
			w.editRows(o.ID, 1, func(b *ledger.OrderBody) { b.Version = 3 })
			o.Version = 3
		}},
		{"less comes back than was taken", fixedOrder, func(w *world) {
			o := w.of("carol")
			w.editRows(o.ID, 1, func(b *ledger.OrderBody) { b.Quantity, b.Amount = 1, 1000 })
			o.Quantity, o.Amount = 1, 1000
		}},
	}
}

func moneyBreaches() []breach {
	return []breach{
		{"money for nothing", chargeHome, func(w *world) {
			p := *w.charge("ch-bob-2")
			p.ID = "ch-lost"
			w.payments = append(w.payments, p)
		}},
		{"a charge twice", chargeHome, func(w *world) { w.payments = append(w.payments, *w.charge("ch-bob")) }},
		{"a charge changed", chargeAmount, func(w *world) { w.charge("ch-bob").Amount++ }},
		{"a charge in another currency", chargeAmount, func(w *world) { w.charge("ch-bob-2").Currency = "USD" }},
		{"paid by a charge that never was", chargeFound, func(w *world) {
			w.payments = slices.DeleteFunc(w.payments, func(p ledger.PaymentRow) bool { return p.ID == "ch-bob" })
		}},
		{"a refund of a charge that never was", chargeFound, func(w *world) {
			w.payments = slices.DeleteFunc(w.payments, func(p ledger.PaymentRow) bool { return p.ID == "ch-bob-2" })
		}},
		{"an outcome that hides the payment", chargeOutcome, func(w *world) {
			p := w.charge("ch-bob")
			p.Outcome, p.PaidOrder = sale.OutcomeRecorded, sale.OrderID{}
		}},
		{"another price than promised", orderTerms, func(w *world) {
			o := w.of("bob")
			w.editRows(o.ID, 0, func(b *ledger.OrderBody) { b.Amount++ })
			o.Amount++
			w.charge("ch-bob").Amount++
		}},
		{"a shorter hold than promised", orderTerms, func(w *world) {
			o := w.of("alice")
			o.ExpiresAt = o.ExpiresAt.Add(-time.Second)
			w.editRows(o.ID, 0, func(b *ledger.OrderBody) { b.ExpiresAt -= 1000 })
		}},
	}
}

func journalBreaches() []breach {
	return []breach{
		{"a gap in the numbers", rowNumbers, func(w *world) {
			var head [32]byte
			for i := range w.entries {
				e := &w.entries[i]
				if i > 4 {
					e.Seq++
				}
				e.Hash = e.ChainHash(head)
				head = e.Hash
			}
			w.facts.seq, w.facts.head = uint64(len(w.entries))+1, head
		}},
		{"a body changed", rowChain, func(w *world) {
			e := &w.entries[5]
			e.Body = append(bytes.Clone(e.Body), ' ')
		}},
		{"a time changed", rowChain, func(w *world) {
			for i := range w.entries {
				if e := &w.entries[i]; e.Kind == ledger.SaleKind(sale.ActionPublish) {
					e.At = e.At.Add(time.Millisecond)
				}
			}
		}},
		{"another end", rowHead, func(w *world) { w.facts.head[31] ^= 1 }},
		{"rows cut off", rowHead, func(w *world) {
			w.add("sale.updated", sale.OrderID{}, bodyOfSale(w))
			w.entries = w.entries[:len(w.entries)-1]
		}},
		{"a row of no known kind", rowBody, func(w *world) { w.add("note", sale.OrderID{}, struct{}{}) }},
		{"a row that is no JSON", rowBody, func(w *world) {
			last := w.entries[len(w.entries)-1]
			last.Kind, last.Body = ledger.KindRefundDone, []byte("\xff")
			w.entries = append(w.entries, last)
			w.rechain()
		}},
		{"an order changed", orderTrace, func(w *world) { w.of("bob").Epoch++ }},
		{"an order's time changed", orderTrace, func(w *world) {
			o := w.of("bob")
			o.EndedAt = o.EndedAt.Add(time.Millisecond)
		}},
		{"a rule changed", saleTrace, func(w *world) { w.facts.body.Title = "Winter drop" }},
		{"a version of the sale left out", saleTrace, func(w *world) {
			b := bodyOfSale(w)
			b.Version += 2
			w.facts.body.Version = b.Version
			w.add("sale.updated", sale.OrderID{}, b)
		}},
		{"terms that nobody announced", termsTrace, func(w *world) {
			t := w.termsRows[0]
			t.Number = 9
			w.termsRows = append(w.termsRows, t)
		}},
		{"a refund done that is not", refundTrace, func(w *world) {
			for i := range w.refunds {
				w.refunds[i].State = sale.RefundDone
			}
		}},
		{"a charge and its refund forgotten", refundTrace, func(w *world) {
			w.refunds = slices.DeleteFunc(w.refunds, func(f sale.Refund) bool { return f.PaymentID == "ch-bob-2" })
			w.payments = slices.DeleteFunc(w.payments, func(p ledger.PaymentRow) bool { return p.ID == "ch-bob-2" })
		}},
	}
}

func bodyOf(from sale.OrderState, o *sale.Order) ledger.OrderBody {
	return ledger.OrderBody{
		From: from, State: o.State, Version: o.Version, User: o.User, SKU: o.SKU, Quantity: o.Quantity, Terms: o.Terms,
		Amount: o.Amount, Currency: o.Currency, Epoch: o.Epoch, ExpiresAt: ledger.Millis(o.ExpiresAt), PaymentID: o.PaymentID,
		Reason: o.Reason,
	}
}

func bodyOfSale(w *world) ledger.SaleBody {
	b := w.facts.body
	b.Items = slices.Clone(b.Items)
	return b
}

func TestStoryKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	report := story(t).recount()
	require.Empty(t, brokenRules(&report))
	for i := range report.Rules {
		require.Positivef(t, report.Rules[i].Checked, "%s looks at nothing", report.Rules[i].Rule)
	}
	require.Equal(t, Figures{
		Orders: 13, Buyers: 12, Stock: 15, Sold: 7, Reserved: 1, Paid: 6, Cancelled: 4, Expired: 1, Rejected: 4, Refunded: 1, Charges: 4,
		Money: []Money{{Currency: "EUR", Paid: 3000, ToReturn: 2000, Returned: 1000}},
		Rows:  report.Figures.Rows, Head: report.Figures.Head,
	}, report.Figures)
}

// Each breach is reported by its rule and by no other, on the ledger's facts
// and in an exported file alike.
func TestEachRuleIsBrokenOnPurpose(t *testing.T) {
	t.Parallel()
	covered := make(map[rule]bool)
	for _, b := range breaches() {
		covered[b.rule] = true
		t.Run(b.rule.String()+" "+b.name, func(t *testing.T) {
			t.Parallel()
			w := story(t)
			b.do(w)
			report := w.recount()
			require.Equal(t, []string{b.rule.String()}, brokenRules(&report), "%s", text(t, &Report{Sales: []SaleReport{report}}))

			offline, err := Verify(t.Context(), bytes.NewReader(w.export()), VerifyOptions{})
			require.NoError(t, err)
			require.Equal(t, []string{b.rule.String()}, brokenRules(&offline.Sales[0]))
			require.True(t, offline.Broken())
		})
	}
	for _, c := range ledgerRules() {
		require.Truef(t, covered[c], "no test breaks %s", c)
	}
}

func TestDetailsAreBounded(t *testing.T) {
	t.Parallel()
	w := story(t)
	for i := range w.orders {
		w.orders[i].Epoch++
	}
	c := newRecount(Options{Details: 2})
	w.pour(c)
	c.finish()
	tally := c.tallies[orderTrace]
	require.EqualValues(t, len(w.orders), tally.broken)
	require.Len(t, tally.details, 2)
	require.Equal(t, w.orders[0].ID, tally.details[0].Order)
}

func TestReportIsJSON(t *testing.T) {
	t.Parallel()
	w := story(t)
	w.facts.sold[0]++
	report := Report{Sales: []SaleReport{w.recount()}}
	raw, err := json.Marshal(&report)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, report, back)
	require.True(t, back.Broken())
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, r.WriteText(&out))
	return out.String()
}
