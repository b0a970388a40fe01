package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// announced is what the journal said terms are.
type announced struct {
	seq      uint64 // the first row that named them
	currency string
	holdMS   int64
	prices   []int64
}

func (a *announced) same(b *announced) bool {
	return a.currency == b.currency && a.holdMS == b.holdMS && slices.Equal(a.prices, b.prices)
}

// saleRow takes a row about the sale itself.
func (r *recount) saleRow(e *ledger.Entry) {
	var b ledger.SaleBody
	if fault := readSaleBody(e, &b); fault != "" {
		r.broke(rowBody, placeOf(e), "%s", fault)
		return
	}
	r.count(saleTrace)
	r.versioned(e, &b)
	r.rerouted(e, &b)
	r.announce(e, &b)
	for i := range b.Items {
		item := r.item(b.Items[i].SKU)
		a := &r.accounts[item]
		a.listed, a.stock = true, b.Items[i].Stock
		r.overStock(e, item)
	}
	r.lastSale = &b
}

// readSaleBody returns what is wrong with the body, or nothing.
func readSaleBody(e *ledger.Entry, b *ledger.SaleBody) string {
	if err := json.Unmarshal(e.Body, b); err != nil {
		return fmt.Sprintf("the body cannot be read: %v", err)
	}
	if !knownAction(e.Kind) {
		return fmt.Sprintf("the kind %q is unknown", e.Kind)
	}
	if len(b.Items) == 0 || len(b.Items) > sale.MaxItems {
		return fmt.Sprintf("the sale has %d items", len(b.Items))
	}
	for i := range b.Items {
		if it := &b.Items[i]; it.Stock < 0 || it.Stock > sale.MaxInteger || it.Price < 0 || it.Price > sale.MaxInteger {
			return fmt.Sprintf("item %q has stock %d at price %d", it.SKU, it.Stock, it.Price)
		}
	}
	return ""
}

func knownAction(k ledger.Kind) bool {
	for _, a := range []sale.Action{
		sale.ActionCreate, sale.ActionUpdate, sale.ActionPublish, sale.ActionPause,
		sale.ActionResume, sale.ActionClose, sale.ActionRestock, sale.ActionDelete,
		sale.ActionReroute,
	} {
		if k == ledger.SaleKind(a) {
			return true
		}
	}
	return false
}

func (r *recount) announce(e *ledger.Entry, b *ledger.SaleBody) {
	a := announced{seq: e.Seq, currency: b.Currency, holdMS: b.HoldMS}
	for i := range b.Items {
		a.prices = append(a.prices, b.Items[i].Price)
	}
	first, known := r.announced[b.Terms]
	if !known {
		r.announced[b.Terms] = a
		return
	}
	if !first.same(&a) {
		r.broke(termsTrace, placeOf(e), "terms %d are not what row %d said they are", b.Terms, first.seq)
	}
}

// finishSale compares the sale row with the journal, and the recount of the
// order rows with stock and counter.
func (r *recount) finishSale() {
	r.count(saleTrace)
	if r.lastSale == nil {
		r.broke(saleTrace, place{}, "the journal holds no row about the sale")
		return
	}
	if field := differingField(r.lastSale, &r.facts.body); field != "" {
		r.broke(saleTrace, place{}, "%s is not what the last row about the sale says", field)
	}
	for i := range r.facts.body.Items {
		it := &r.facts.body.Items[i]
		a := &r.accounts[r.item(it.SKU)]
		r.count(stockRows)
		switch {
		case a.rows > it.Stock:
			r.broke(stockRows, place{}, "%d units of %q are live, the stock is %d", a.rows, it.SKU, it.Stock)
		case a.stock != it.Stock:
			r.broke(stockRows, place{}, "the stock of %q is %d, the journal says %d", it.SKU, it.Stock, a.stock)
		}
		r.count(soldCounter)
		if r.facts.sold[i] != a.rows {
			r.broke(soldCounter, place{}, "%q counts %d sold, %d are live", it.SKU, r.facts.sold[i], a.rows)
		}
	}
	for i := range r.accounts {
		if a := &r.accounts[i]; !a.counted && a.rows > 0 {
			r.broke(stockRows, place{}, "%d units of %q are live, the sale has no such item", a.rows, a.sku)
		}
	}
}

// differingField returns the first field in which the sale row is not what the
// journal says. Stock is compared by P1.rows; a deleted sale has given its slug
// away; rows from before there was a choice of paths name none, which is direct.
func differingField(said, is *ledger.SaleBody) string {
	fields := []struct {
		name string
		same bool
	}{
		{"the slug", said.Slug == is.Slug || said.State == sale.Deleted},
		{"the state", said.State == is.State},
		{"the version", said.Version == is.Version},
		{"the terms", said.Terms == is.Terms},
		{"the path", said.Path == is.Path},
		{"the preferred path", cmp.Or(said.Preferred, sale.PathDirect) == cmp.Or(is.Preferred, sale.PathDirect)},
		{"the epoch", said.Epoch == is.Epoch},
		{"the title", said.Title == is.Title},
		{"the start", said.StartsAt == is.StartsAt},
		{"the end", said.EndsAt == is.EndsAt},
		{"the limit per buyer", said.PerUserLimit == is.PerUserLimit},
		{"the limit rule", said.LimitRule == is.LimitRule},
		{"the hold", said.HoldMS == is.HoldMS},
		{"the cap of unpaid holds", said.MaxUnpaidHolds == is.MaxUnpaidHolds},
		{"the cool-down", said.CoolDownMS == is.CoolDownMS},
		{"the currency", said.Currency == is.Currency},
		{"the list of items", slices.EqualFunc(said.Items, is.Items, func(a, b ledger.ItemBody) bool {
			return a.SKU == b.SKU && a.Title == b.Title && a.Price == b.Price
		})},
	}
	for _, f := range fields {
		if !f.same {
			return f.name
		}
	}
	return ""
}

// finishTerms compares the terms rows with what the journal announced.
func (r *recount) finishTerms() {
	for number, t := range r.termsRows {
		r.count(termsTrace)
		said, known := r.announced[number]
		is := announced{currency: t.Currency, holdMS: t.Hold.Milliseconds(), prices: t.Prices}
		switch {
		case !known:
			r.broke(termsTrace, place{}, "terms %d are in no row of the journal", number)
		case !said.same(&is):
			r.broke(termsTrace, place{seq: said.seq}, "terms %d are not what the journal announced", number)
		}
	}
	for number, said := range r.announced {
		if _, kept := r.termsRows[number]; !kept {
			r.count(termsTrace)
			r.broke(termsTrace, place{seq: said.seq}, "terms %d are not kept", number)
		}
	}
}
