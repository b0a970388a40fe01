package bench

import (
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/chart"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// saturated reports whether so many visits stood in line, since all connections were
// waiting for the server, that they are seen in the p99 of what left late. Then visits
// did so because of the server, which is what is measured, and not of the crowd.
func saturated(seen *traffic.Record) bool {
	var offered int64
	for i := range seen.Slots {
		offered += seen.Slots[i].Offered
	}
	return seen.Queued > 0 && 100*seen.Queued >= offered
}

// warn enters why the figures may not be what they seem.
func (b *bench) warn() {
	r := b.report
	if r.Late.P99 >= lateFrom && !r.Saturated {
		r.warn("the crowd itself was late, though it had connections to spare: 1 visit of 100 left %s or more after its instant. This machine is too slow for "+
			"the crowd; trust \"served\", which leaves that time out, more than \"waited\", and let fewer come, or from a machine of their own", chart.Millis.Text(r.Late.P99))
	}
	if r.Abandoned > 0 {
		r.warn("%s steps were never carried out: they were due when the run was over", chart.Grouped(r.Abandoned))
	}
	if n := b.books.Missed(); n > 0 {
		r.warn("%s orders are in nobody's books, which were full: the checks leave them out", chart.Grouped(n))
	}
	if failed := r.of("failed").Answers; failed > 0 {
		r.warn("%s steps failed; the table of answers says how", chart.Grouped(failed))
	}
	for _, code := range []string{"challenge_required", "pass_required", "banned", "rate_limited"} {
		if n := r.count("buy", code); n > 0 {
			r.warn("the gate answered %s buys with %s: these figures are the gate's too (docs/gate.md)", chart.Grouped(n), code)
		}
	}
	if n := r.count("buy", "not_started"); n > 0 && b.Profile.Bots == 0 {
		r.warn("%s buys came before the sale had started: the clocks differ by more than was measured (%v)", chart.Grouped(n), b.stage.ahead.Round(time.Millisecond))
	}
}
