package cases_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// The accident: an entry of the queue comes twice and is sold twice, an entry
// that nobody of the house has written mints an order, or one that cannot be read
// blocks everything behind it.
// The right outcome: each good slip is one order, however often and among whatever
// it lies; the others become dead letters with a cause.
func TestC37FleetDuplicateForgedAndPoisonousEntries(t *testing.T) {
	t.Parallel()
	house := halves.site(t)
	f, drop := house.fleet, house.named(drop)
	const stockOf, waiting = 40, 30
	s := f.open(drop, stockOf, 1, 600)
	worker := f.Servers[0]
	require.Zero(t, worker.Stop())
	buyers := f.lineUp(s, waiting)

	tray := f.lane(s, "tray")
	entries, err := f.Redis.Do(t.Context(), "XRANGE", tray, "-", "+").AsXRange()
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	add := func(fields map[string]string, parked int) {
		words := append(make([]string, 0, 3+2*len(fields)), "XADD", tray, "*")
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			words = append(words, name, fields[name])
		}
		f.Redis.Must(words...)
		f.parked += parked
	}
	for i, poison := range poisons() {
		add(poison, 1)
		add(entries[i%len(entries)].FieldValues, 0) // once more, behind it
	}
	for _, e := range entries {
		slips := int(stock.CountSlips(&stock.Entry{Fields: e.FieldValues}))
		every, first := forgeries(e)
		for _, forged := range every {
			add(forged, slips)
		}
		for _, forged := range first {
			add(forged, 1)
		}
	}
	add(minted(s), 1)
	worker.Start()
	all := buyers()
	until(t, "all that cannot be judged is parked", func() bool { return len(f.letters(drop)) >= f.parked })
	for _, l := range f.letters(drop) {
		require.NotEmpty(t, l.Cause)
		require.Nil(t, l.Attempt, "nobody of the house has made it")
	}
	require.Len(t, f.orders(drop), waiting)
	f.serve(drop, all)
}

// poisons are entries that cannot be read.
func poisons() []map[string]string {
	good := map[string]string{
		stock.FieldVersion: stock.EntryVersion, stock.FieldEpoch: "1", stock.FieldTerms: "1", stock.FieldAsked: "1", stock.FieldTaken: "1",
	}
	with := func(name, value string) map[string]string {
		out := maps.Clone(good)
		out[name] = value
		return out
	}
	return []map[string]string{
		{"not": "ours"},
		with(stock.FieldVersion, "99"), with(stock.FieldEpoch, "many"), with(stock.FieldTaken, ""),
		good, with(stock.FieldSlips, "short"), with(stock.FieldSlips, string(make([]byte, 1<<20))),
	}
}

// forgeries are copies of a good entry in which something else stands, in every
// slip of it or in the first one alone.
func forgeries(e rueidis.XRangeEntry) (every, first []map[string]string) {
	change := func(name, value string) map[string]string {
		out := maps.Clone(e.FieldValues)
		out[name] = value
		return out
	}
	const quantity = 15 // the last of its three bytes
	more := []byte(e.FieldValues[stock.FieldSlips])
	more[quantity]++
	yesterday := time.Now().AddDate(0, 0, -1).UnixMilli() // and asked for today
	every = []map[string]string{change(stock.FieldTerms, "7"), change(stock.FieldEpoch, "7"), change(stock.FieldTaken, name("", int(yesterday)))}
	return every, []map[string]string{change(stock.FieldSlips, string(more))}
}

// minted is an entry for an order that nobody has bought.
func minted(s client.AdminSale) map[string]string {
	now := name("", int(time.Now().UnixMilli()))
	slip := stock.Slip{ID: sale.OrderID{1, 2, 3, 4, 5}, User: "thief", Quantity: 1}
	return map[string]string{
		stock.FieldVersion: stock.EntryVersion, stock.FieldEpoch: name("", int(s.Epoch)), stock.FieldTerms: name("", int(s.Terms)),
		stock.FieldAsked: now, stock.FieldTaken: now, stock.FieldSlips: string(stock.AppendSlip(nil, &slip)),
	}
}

// letters returns the dead letters of a sale.
func (f *fleet) letters(slug string) []client.DeadLetter {
	f.t.Helper()
	page, err := f.office().DeadLetters(f.t.Context(), client.LetterQuery{Sale: slug, Limit: 500})
	require.NoError(f.t, err)
	return page.Data
}
