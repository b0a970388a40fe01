package locks_test

import (
	"testing"
	"time"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

// sideBySide lets two libraries take turns and returns the median of their rates
// and of the ratio of each round.
func sideBySide(rounds int, ours, theirs func() float64) (fast, slow, factor float64) {
	ours()
	theirs()
	var a, z, f []float64
	for range rounds {
		z = append(z, theirs())
		a = append(a, ours())
		f = append(f, a[len(a)-1]/max(z[len(z)-1], 1))
	}
	return median(a), median(z), median(f)
}

const turn = 400 * time.Millisecond

// BenchmarkLockFree: 64 goroutines, each with a name of its own, lock and unlock.
func BenchmarkLockFree(b *testing.B) {
	for b.Loop() {
		s := testenv.Redis(b, "appendonly no")
		ours := doorbuster(b, s.Addr)
		for _, them := range []struct {
			name string
			peer peer
			goal float64
		}{{"redsync", redsyncOf(b, s.Addr), 1.7}, {"redislock", redislockOf(b, s.Addr), 1.15}} {
			fast, slow, factor := sideBySide(9,
				func() float64 { return free(b, ours, turn) }, func() float64 { return free(b, them.peer, turn) })
			note("pairs/s: doorbuster %.0f, %s %.0f", fast, them.name, slow)
			ratio(b, "lock_free_vs_"+them.name, factor, them.goal)
		}
	}
}

// BenchmarkLockChanges: 64 goroutines fight for one name with an empty section.
func BenchmarkLockChanges(b *testing.B) {
	for b.Loop() {
		s := testenv.Redis(b, "appendonly no")
		ours := doorbuster(b, s.Addr)
		for _, them := range []struct {
			name string
			peer peer
		}{{"redsync", redsyncOf(b, s.Addr)}, {"redislock", redislockOf(b, s.Addr)}} {
			fast, slow, factor := sideBySide(3,
				func() float64 { return contended(b, ours, 0, 2*time.Second).changes },
				func() float64 { return contended(b, them.peer, 0, 2*time.Second).changes })
			note("owner changes/s: doorbuster %.0f, %s %.0f", fast, them.name, slow)
			ratio(b, "lock_changes_vs_"+them.name, factor, 10)
		}
	}
}

// BenchmarkLockFight: 64 goroutines fight for one name with a section of 2 ms. The
// ideal rate is that of the sections alone, one after the other, on this machine.
func BenchmarkLockFight(b *testing.B) {
	for b.Loop() {
		s := testenv.Redis(b, "appendonly no")
		ours := doorbuster(b, s.Addr)
		const section, long = 2 * time.Millisecond, 2 * time.Second
		var share, changes, jain, longest []float64
		for range 5 {
			n, start := 0.0, time.Now()
			for time.Since(start) < long/4 {
				rest(section)
				n++
			}
			ideal := n / time.Since(start).Seconds()
			f := contended(b, ours, section, long)
			share = append(share, f.sections/ideal)
			changes = append(changes, f.changes/f.sections)
			jain = append(jain, f.jain)
			longest = append(longest, f.longest.Seconds())
			note("sections/s %.0f of %.0f, changes/s %.0f, Jain %.3f, longest wait %s", f.sections, ideal, f.changes, f.jain, f.longest.Round(time.Millisecond))
		}
		them := contended(b, redsyncOf(b, s.Addr), section, long)
		note("redsync: sections/s %.0f, changes/s %.0f, Jain %.3f, longest wait %s", them.sections, them.changes, them.jain, them.longest.Round(time.Millisecond))
		them = contended(b, redislockOf(b, s.Addr), section, long)
		note("redislock: sections/s %.0f, changes/s %.0f, Jain %.3f, longest wait %s", them.sections, them.changes, them.jain, them.longest.Round(time.Millisecond))
		ratio(b, "lock_fight_share_of_ideal", median(share), 0.85)
		ratio(b, "lock_fight_changes_per_section", median(changes), 0.99)
		ratio(b, "lock_fight_jain", median(jain), 0.99)
		ratio(b, "lock_fight_longest_wait_s_below", median(longest), -0.25)
	}
}

// BenchmarkLockQuorum: the same as BenchmarkLockFree over five servers.
func BenchmarkLockQuorum(b *testing.B) {
	for b.Loop() {
		var addrs []string
		for range 5 {
			addrs = append(addrs, testenv.Redis(b, "appendonly no").Addr)
		}
		ours, theirs := doorbusterQuorum(b, addrs), redsyncOf(b, addrs...)
		fast, slow, factor := sideBySide(7,
			func() float64 { return free(b, ours, turn) }, func() float64 { return free(b, theirs, turn) })
		note("pairs/s on five servers: doorbuster %.0f, redsync %.0f", fast, slow)
		ratio(b, "lock_quorum_vs_redsync", factor, 1)
	}
}
