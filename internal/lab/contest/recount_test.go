package contest

import (
	"strconv"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

func TestRecount(t *testing.T) {
	t.Parallel()
	live := func(id, buyer string) entry { return entry{id: id, buyer: buyer, units: 1, live: true} }
	ended := func(id, buyer string) entry { return entry{id: id, buyer: buyer, units: 1} }
	told := func(id string, seen buyers.States) buyers.Order { return buyers.Order{ID: id, Seen: seen} }
	for name, c := range map[string]struct {
		books  []entry
		told   []buyers.Order
		demand int64
		want   Row
	}{
		"nothing sold, nobody came":      {want: Row{}},
		"nothing sold, one came":         {demand: 1, want: Row{Undersold: 1}},
		"sold to the last unit":          {books: []entry{live("a", "u"), live("b", "v")}, demand: 9, want: Row{Sold: 2}},
		"one too many":                   {books: []entry{live("a", "u"), live("b", "v"), live("c", "w")}, demand: 9, want: Row{Sold: 3, Oversold: 1}},
		"given back and never sold":      {books: []entry{live("a", "u"), ended("b", "v")}, demand: 9, want: Row{Sold: 1, Undersold: 1}},
		"given back and sold again":      {books: []entry{live("a", "u"), ended("b", "v"), live("c", "v")}, demand: 9, want: Row{Sold: 2}},
		"bought three times":             {books: []entry{live("a", "u"), live("b", "u"), live("c", "u")}, demand: 9, want: Row{Sold: 3, Oversold: 1, Duplicates: 2}},
		"told and held":                  {books: []entry{live("a", "u"), live("b", "v")}, told: []buyers.Order{told("a", buyers.Reserved)}, want: Row{Sold: 2}},
		"told and not held":              {told: []buyers.Order{told("a", buyers.Reserved), told("b", buyers.Queued|buyers.Reserved)}, want: Row{Lost: 2}},
		"queued, and never heard of":     {told: []buyers.Order{told("a", buyers.Queued)}, want: Row{Lost: 1}},
		"queued, and told it was no use": {told: []buyers.Order{told("a", buyers.Queued|buyers.Rejected)}, want: Row{}},
		"told, given back, and held":     {books: []entry{ended("a", "u")}, told: []buyers.Order{told("a", buyers.Reserved|buyers.Cancelled)}, want: Row{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got Row
			got.recount(c.books, c.told, 2, c.demand)
			require.Equal(t, c.want, got)
		})
	}
}

// Whatever the books hold, the columns add up.
func TestRecountAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stock, demand := rapid.Int64Range(0, 20).Draw(t, "stock"), rapid.Int64Range(0, 40).Draw(t, "demand")
		books := make([]entry, rapid.IntRange(0, 40).Draw(t, "orders"))
		holders := make(map[string]bool)
		var live int64
		for i := range books {
			buyer := strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "buyer"))
			books[i] = entry{id: strconv.Itoa(i), buyer: buyer, units: 1, live: rapid.Bool().Draw(t, "live")}
			if books[i].live {
				live++
				holders[buyer] = true
			}
		}
		told := make([]buyers.Order, rapid.IntRange(0, 60).Draw(t, "told"))
		for i := range told {
			told[i] = buyers.Order{ID: strconv.Itoa(i), Seen: buyers.Reserved}
		}
		var r Row
		r.recount(books, told, stock, demand)
		require.Equal(t, live, r.Sold)
		require.Equal(t, r.Sold-r.Oversold, min(live, stock))
		require.Equal(t, int64(len(holders)), r.Sold-r.Duplicates)
		require.Equal(t, int64(max(0, len(told)-len(books))), r.Lost)
		require.True(t, r.Oversold == 0 || r.Undersold == 0, "never both")
		if demand >= stock {
			require.Equal(t, stock-r.Undersold+r.Oversold, r.Sold)
		}
	})
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	seen := &traffic.Record{Slot: 10 * time.Millisecond, First: -10 * time.Millisecond, Abandoned: 2, Slots: []traffic.Slot{
		{},
		{Answers: [traffic.Classes]int64{traffic.Accepted: 3}},
		{Answers: [traffic.Classes]int64{traffic.Accepted: 1, traffic.Refused: 1}},
		{Answers: [traffic.Classes]int64{traffic.Accepted: 1}},
		{},
	}}
	for class := range seen.Waited {
		seen.Waited[class] = hdrhistogram.New(1, 1e8, 3)
	}
	for _, us := range []int64{1000, 2000, 3000, 4000, 9000} {
		require.NoError(t, seen.Waited[traffic.Accepted].RecordValue(us))
	}
	require.NoError(t, seen.Waited[traffic.TurnedOff].RecordValue(1))
	require.NoError(t, seen.Waited[traffic.Failed].RecordValue(1))
	require.NoError(t, seen.Waited[traffic.Refused].RecordValue(5000))
	var r Row
	r.measure(seen, 1500*time.Millisecond)
	require.Equal(t, int64(5), r.Accepted.Answers)
	require.InDelta(t, 5/0.03, r.Accepted.PerSecond, 0.01, "from the start to the last of them")
	require.InDelta(t, 3, r.Accepted.P50, 0.01)
	require.InDelta(t, 9, r.Accepted.P99, 0.01)
	require.InDelta(t, 1/0.02, r.Refused.PerSecond, 0.01)
	require.Equal(t, int64(4), r.Failed, "turned off, no answer, and two that never left")
	require.InDelta(t, 1.5, r.Seconds, 1e-9)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	fails := func(n int64) Row { return Row{Name: "none", Expect: Fails, Accident: "oversold", Oversold: n} }
	holds := func(n int64) Row { return Row{Name: "lua", Expect: Holds, Duplicates: n} }
	must := func(n int64) Row { return Row{Name: "for_update", Expect: Must, Oversold: n} }
	lock := func(n int64) Row { return Row{Name: "fair_lock", Expect: Must, Ours: true, Duplicates: n} }
	clean := func(n int64) Row { return Row{Name: "ours", Expect: Clean, Ours: true, Lost: n} }
	for name, c := range map[string]struct {
		rows            []Row
		pass            bool
		missing, broken []string
	}{
		"all as it should be":               {rows: []Row{fails(1), holds(0), clean(0)}, pass: true},
		"the accident did not come":         {rows: []Row{fails(0), clean(0)}, missing: []string{"none"}},
		"another accident came":             {rows: []Row{{Name: "none", Expect: Fails, Accident: "lost", Oversold: 1}}, missing: []string{"none"}},
		"what must hold did":                {rows: []Row{must(0), lock(0)}, pass: true},
		"what must hold did not":            {rows: []Row{must(1), clean(0)}, missing: []string{"for_update"}},
		"our lock did not hold":             {rows: []Row{lock(1), clean(0)}, broken: []string{"fair_lock"}},
		"our lock did not run":              {rows: []Row{{Name: "fair_lock", Expect: Must, Ours: true, Trouble: "no disk"}}, missing: []string{"fair_lock"}},
		"luck has run out":                  {rows: []Row{holds(1), clean(0)}, pass: true},
		"ours is not clean":                 {rows: []Row{fails(1), clean(1)}, broken: []string{"ours"}},
		"the audit found something":         {rows: []Row{{Name: "ours", Expect: Clean, Ours: true, Broken: 1}}, broken: []string{"ours"}},
		"ours did not run":                  {rows: []Row{{Name: "ours", Expect: Clean, Ours: true, Trouble: "no disk"}}, missing: []string{"ours"}},
		"the fault did not happen":          {rows: []Row{{Name: "lua", Expect: Holds, Fault: "a pause"}, clean(0)}, missing: []string{"lua"}},
		"the fault happened":                {rows: []Row{{Name: "lua", Expect: Holds, Fault: "a pause", Struck: 1}, clean(0)}, pass: true},
		"an accident of another making":     {rows: []Row{{Name: "none", Expect: Fails, Accident: "lost", Lost: 1, Fault: "a crash"}}, missing: []string{"none"}},
		"nobody of ours was killed":         {rows: []Row{{Name: "ours", Expect: Clean, Ours: true, Fault: "a crash"}}, missing: []string{"ours"}},
		"nobody was killed, and not clean":  {rows: []Row{{Name: "ours", Expect: Clean, Ours: true, Fault: "a crash", Lost: 1}}, broken: []string{"ours"}},
		"the fault did not happen, by luck": {rows: []Row{{Name: "lua", Expect: Holds, Fault: "a pause", Lost: 1}}, pass: true},
		"one that holds did not run": {
			rows: []Row{{Name: "lua", Expect: Holds, Trouble: "no disk"}, clean(0)}, missing: []string{"lua"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Report{Rows: c.rows}
			r.judge()
			require.Equal(t, c.pass, r.Pass)
			require.Equal(t, c.missing, r.Missing)
			require.Equal(t, c.broken, r.Broken())
		})
	}
}

// Every column that a strategy may name is one that the row has.
func TestAccidentsAreColumns(t *testing.T) {
	t.Parallel()
	full := Row{Oversold: 1, Undersold: 1, Duplicates: 1, Lost: 1}
	for _, c := range contenders() {
		row := full
		row.Accident = c.Accident
		require.Equal(t, c.Expect == Fails, row.accident() > 0, c.Name)
	}
}
