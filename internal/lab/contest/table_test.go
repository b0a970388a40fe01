package contest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableIsNarrowAndTellsWhy(t *testing.T) {
	t.Parallel()
	most := Speed{Answers: 2400, PerSecond: 123456.7, P50: 9.96, P99: 12345.6}
	r := Report{Buyers: 2000, Clicks: 2400, Stock: 100, Seed: 7, Seconds: 61.2, Redis: "7.0.15, given", Postgres: "15.4, given"}
	for _, c := range contenders() {
		row := c.Row
		row.Sold, row.Accepted, row.Refused, row.Failed, row.Seconds = 100, most, most, 1234, 12.345
		if row.Fault != "" {
			row.Struck = 4
		}
		r.Rows = append(r.Rows, row)
	}
	r.Rows[0].Sold, r.Rows[0].Oversold, r.Rows[0].Duplicates = 10_100, 10_000, 1234
	r.Rows[1].Trouble = "the disk is full"
	r.Rows[2].Accepted = Speed{}
	r.Rows[6].Struck, r.Rows[6].Oversold = 0, 3
	r.Rows[7].Struck = 1
	r.Rows[len(r.Rows)-1].Struck, r.Rows[len(r.Rows)-1].ToldAtKill = 1, 53
	r.Rows[len(r.Rows)-1].Judged = &Speed{Answers: 100, P50: 12.3, P99: 45.6}
	r.judge()
	var b strings.Builder
	require.NoError(t, r.WriteText(&b))
	text := b.String()
	flat := strings.Join(strings.Fields(text), " ")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), width, line)
	}
	require.Contains(t, text, "2000 buyers in 200 ms, 2400 clicks, 100 units, one each (seed 7)\nPostgreSQL 15.4, given\nRedis 7.0.15, given\n")
	require.Regexp(t, `(?m)^none +FAILS +10100 10000 +- +1234 +- +123457 +10\.0 +12346 `, text)
	require.Regexp(t, `(?m)^`+r.Rows[1].Name+` +did not run$`, text)
	require.Regexp(t, `(?m)^`+r.Rows[2].Name+` +holds +100 +- +- +- +- +- +- +- +123457 `, text)
	require.Regexp(t, `(?m)^plain_del +void +100 +3 `, text)
	require.Contains(t, flat, "DEL; it did not happen.) Void: 100 sold, 3 oversold.")
	require.Contains(t, flat, "This time the fault did not happen, so it shows nothing.")
	require.Contains(t, flat, "as in plain_del; it happened once.) Holds")
	require.Contains(t, flat, "as in no_renewal; it happened 4 times.) Holds")
	require.Contains(t, flat, "(Here one of the two processes is killed when half of the stock is sold; killed when 53 orders had been told.) Clean")
	require.Equal(t, "void: the fault did not happen; 100 sold, 3 oversold", r.Rows[6].Summary())
	require.Contains(t, flat, "This time nothing happened.")
	require.Contains(t, text, "It did not run: the disk is full")
	require.Contains(t, text, "From click to judgement: p50 12 ms, p99 46 ms.")
	require.Contains(t, text, "\nNOT SHOWN                 Nothing was to be seen of "+r.Rows[1].Name+", ")
}

func TestTableNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	r := Report{Rows: []Row{{Name: "ours", Title: "Ours", Expect: Clean, Ours: true, Sold: 101, Oversold: 1, Note: "audit rule x (P1): 1 of 9 broken"}}}
	r.judge()
	var b strings.Builder
	require.NoError(t, r.WriteText(&b))
	require.Regexp(t, `THIS MUST NOT BE:\s+audit rule x \(P1\): 1 of 9 broken`, b.String())
	require.Contains(t, b.String(), "\nBROKEN                    Doorbuster is not clean in ours. ")
	require.Equal(t, "FAILS: 101 sold, 1 oversold", r.Rows[0].Summary())
}

// A row that never ended is not one of which nothing was to be seen.
func TestTableNamesWhatWasCutOff(t *testing.T) {
	t.Parallel()
	rows, err := choose([]string{"lua", "doorbuster_fast", "doorbuster_fast_crash"})
	require.NoError(t, err)
	r := Report{Rows: []Row{rows[0].Row}}
	r.judge()
	r.cutOff(rows[1:])
	require.False(t, r.Pass)
	var b strings.Builder
	require.NoError(t, r.WriteText(&b))
	text := strings.Join(strings.Fields(b.String()), " ")
	require.Contains(t, text, " NOT SHOWN The lab was ended before these came to their end: doorbuster_fast, doorbuster_fast_crash. (")
	require.NotContains(t, text, "Nothing was to be seen")
}

// Only those that hold by luck are excused by bad luck.
func TestBadLuckExcusesOnlyTheLucky(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ why, conclusion string }{
		"compare_delete": {"This time it did not hold, by bad luck.", "SHOWN Each row that ran"},
		"lua":            {"This time it did not hold, by bad luck.", "SHOWN Each row that ran"},
		"for_update":     {"THIS MUST NOT BE", "NOT SHOWN What must hold did not: for_update. ("},
		"fair_lock":      {"THIS MUST NOT BE", "BROKEN Doorbuster is not clean in fair_lock. ("},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := choose([]string{name})
			require.NoError(t, err)
			row := rows[0].Row
			row.Sold, row.Oversold, row.Struck = 101, 1, 1
			r := Report{Rows: []Row{row}}
			r.judge()
			require.False(t, r.Rows[0].As)
			var b strings.Builder
			require.NoError(t, r.WriteText(&b))
			text := strings.Join(strings.Fields(b.String()), " ")
			require.Contains(t, text, want.why)
			require.Contains(t, text, want.conclusion)
		})
	}
}
