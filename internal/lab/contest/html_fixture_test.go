package contest_test

import (
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/contest"
)

// rich is a report of a lab in which everything came as it must.
func rich() *contest.Report {
	r := &contest.Report{
		Version: "v0.9.0-12-gfcbfda8", StartedAt: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), Seconds: 48, Seed: 42,
		Buyers: 5_000, Clicks: 5_470, Stock: 100, Redis: "7.0.15 (/usr/bin/redis-server)", Postgres: "15.18 (/usr/lib/postgresql/15)", Pass: true,
	}
	add := func(row contest.Row, accepted, refused, p99 float64) {
		row.As = true
		if row.Fault != "" {
			row.Struck = 3
		}
		row.Accepted = contest.Speed{Answers: row.Sold, PerSecond: accepted, P50: 40, P99: 90}
		row.Refused = contest.Speed{Answers: 5_470 - row.Sold, PerSecond: refused, P50: p99 / 3, P99: p99}
		row.Seconds = float64(row.Sold) / accepted
		r.Rows = append(r.Rows, row)
	}
	add(contest.Row{Name: "none", Title: "Read, check, write", Expect: "fails", Sold: 812, Oversold: 712, Duplicates: 96, Why: "Everybody who reads before the first has written sees the same stock and takes the same last unit; the longer the reading takes, the more of them there are."}, 1_410, 2_100, 980)
	add(contest.Row{Name: "mutex", Title: "A mutex in each process", Expect: "fails", Sold: 199, Oversold: 99, Duplicates: 31, Why: "A mutex guards the memory of one process. Two processes have two of them, and each sells the stock as if it were alone."}, 640, 900, 4_100)
	add(contest.Row{Name: "unique_index", Title: "A unique index on the buyer", Expect: "fails", Sold: 655, Oversold: 555, Why: "No buyer gets two, that is what the index is for. It knows nothing of the stock."}, 1_200, 1_900, 1_050)
	add(contest.Row{Name: "conditional_update", Title: "UPDATE … WHERE units > 0", Expect: "fails", Sold: 100, Duplicates: 14, Why: "Check and write are one statement, so the stock is right. A double click is two statements and buys twice."}, 1_150, 3_800, 620)
	add(contest.Row{Name: "for_update", Title: "SELECT … FOR UPDATE", Expect: "must", Sold: 100, Why: "The database lets one buyer at a time look at the stock, so nothing is sold twice. The whole crowd stands in one line for it, those who get nothing too."}, 410, 760, 6_900)
	add(contest.Row{Name: "setnx_expire", Title: "SETNX, then EXPIRE", Fault: "one of the two processes is killed between the two commands, at its 20th lock", Expect: "fails", Sold: 39, Undersold: 61, Failed: 212, Why: "The lock of the process that was killed has no end. Everybody else is told busy for ever, and the units stay."}, 350, 0, 0)
	add(contest.Row{Name: "plain_del", Title: "SET NX PX, then DEL", Fault: "some holders pause for longer than the lease, between their work and the DEL", Expect: "fails", Sold: 107, Oversold: 7, Why: "Whoever comes late deletes a lock that is another's by now, and lets a third one in. From then on each of the two inside deletes the other's, until the sale is over."}, 290, 510, 7_400)
	add(contest.Row{Name: "compare_delete", Title: "SET NX PX, deleted by its owner only", Fault: "some holders pause for longer than the lease, between their work and the release", Expect: "holds", Sold: 100, Why: "A late holder finds that the lock is not his and leaves it alone. It holds as long as all work ends within the lease, which nobody can promise."}, 280, 505, 7_600)
	add(contest.Row{Name: "fair_lock", Title: "Fair lock with watchdog and fence (package lock)", Fault: "some holders pause for longer than the lease", Expect: "must", Ours: true, Sold: 100, Why: "The lease is renewed while its holder works, and who has lost it is refused by the book, whose fence has gone on."}, 320, 540, 7_100)
	add(contest.Row{Name: "redis_decr", Title: "DECR, and INCR when a unit comes back", Expect: "fails", Sold: 100, Undersold: 3, Why: "Nothing is sold twice. But those who are refused have counted down too: a unit that comes back is counted into the debt, and nobody can buy it."}, 5_900, 14_200, 140)
	add(contest.Row{Name: "lua", Title: "A script, then INSERT", Expect: "holds", Sold: 100, Why: "Check, count and buyer are one script, which nothing comes between, and those who get nothing never reach the database."}, 6_100, 15_800, 120)
	add(contest.Row{Name: "lua_publish", Title: "A script, then a message to a stream", Fault: "one of the two processes is killed before it sends a batch, at its 20th sale", Expect: "fails", Sold: 81, Undersold: 19, Lost: 19, Why: "The script and the message are two steps. A process that dies between them takes sales with it: buyers hold a yes that no book knows."}, 6_000, 15_100, 130)
	add(contest.Row{Name: "doorbuster_embedded", Title: "Doorbuster, one machine", Expect: "clean", Ours: true, Sold: 100, Why: "One transaction checks stock, limit and identity for a whole batch of buyers; whoever is certainly too late is refused from memory."}, 7_900, 31_500, 88)
	add(contest.Row{Name: "doorbuster_fleet", Title: "Doorbuster, two servers, Redis and PostgreSQL", Fault: "one of the two servers is killed in the middle of the rush", Expect: "clean", Ours: true, Sold: 100, Why: "The counter in Redis and its queue are one atomic step, and only the ledger makes an order: what the dead server left is judged by the other."}, 6_700, 24_800, 104)
	return r
}

// broken is a report in which Doorbuster failed, with hostile names.
func broken() *contest.Report {
	r := rich()
	r.Pass, r.Missing, r.CutOff, r.Kept = false, []string{"fair_lock", "lua"}, []string{"doorbuster_last"}, "/tmp/doorbuster-lab"
	r.Rows[8].Trouble, r.Rows[8].As = `<b>no luck</b>`, false
	row := &r.Rows[len(r.Rows)-1]
	row.Oversold, row.As, row.Sold, row.Note = 3, false, 103, `The log says <script>alert("note")</script>.`
	r.Rows[0].As = false
	r.Rows[5].Struck, r.Rows[5].As = 0, false
	r.Rows[1].Title = `<img src=x onerror=alert(1)> & "quotes"`
	return r
}
