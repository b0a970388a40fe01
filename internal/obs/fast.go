package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Lanes counts the work on the lanes of the fast counter.
type Lanes struct {
	slips    prometheus.Histogram
	seconds  prometheus.Histogram
	queued   prometheus.Histogram
	failures *prometheus.CounterVec
	settled  *prometheus.CounterVec
	parked   prometheus.Counter
	took     prometheus.Counter
	trimmed  prometheus.Counter
	waiting  *prometheus.GaugeVec
	behind   *prometheus.GaugeVec
	offset   *prometheus.GaugeVec
}

func newLanes(m *maker) Lanes {
	return Lanes{
		slips:   m.histogram("judge_batch_slips", "Slips judged in one transaction.", []float64{1, 4, 16, 64, 256, 512, 1024, 2048, 4096}),
		seconds: m.histogram("judge_seconds", "Time of one transaction of the judge.", latencyBuckets()),
		queued:  m.histogram("judge_delay_seconds", "Time from the taking of a unit to its judgement, in the ledger's time.", latencyBuckets()),
		failures: m.counters("lane_failures_total",
			"What did not succeed on a lane and is tried again, by what was being done.", "doing"),
		settled: m.counters("judge_orders_total", "Orders that slips have become, by state and, of rejected ones, reason.", "state", "reason"),
		parked:  m.counter("judge_parked_total", "Slips that could not be judged and are dead letters now."),
		took:    m.counter("judge_taken_over_total", "Entries taken over from workers that did not finish them."),
		trimmed: m.counter("judge_trimmed_total", "Entries that had been removed from a tray before they were judged."),
		waiting: m.gauges("lane_queued_slips", "Slips that wait in a tray.", "sale_number", "lane"),
		behind:  m.gauges("lane_behind_rows", "Rows of the journal that a lane does not know yet.", "sale_number", "lane"),
		offset:  m.gauges("lane_clock_offset_seconds", "How far a lane's clock is ahead of the ledger's.", "sale_number", "lane"),
	}
}

// Judged reports one transaction of the judge.
func (l *Lanes) Judged(slips int, took time.Duration) {
	l.slips.Observe(float64(slips))
	l.seconds.Observe(took.Seconds())
}

// Settled reports one slip that has become an order.
func (l *Lanes) Settled(o *sale.Order, after time.Duration) {
	l.queued.Observe(after.Seconds())
	l.settled.WithLabelValues(string(o.State), string(o.Reason)).Inc()
}

// Parked reports a dead letter.
func (l *Lanes) Parked() { l.parked.Inc() }

// TookOver reports entries taken over.
func (l *Lanes) TookOver(entries int) { l.took.Add(float64(entries)) }

// Trimmed reports entries that were gone.
func (l *Lanes) Trimmed(entries int) { l.trimmed.Add(float64(entries)) }

// Failed reports what is tried again.
func (l *Lanes) Failed(doing string) { l.failures.WithLabelValues(doing).Inc() }

// Queued reports how many slips wait in a lane.
func (l *Lanes) Queued(number, lane string, slips int64) {
	l.waiting.WithLabelValues(number, lane).Set(float64(slips))
}

// Behind reports how many rows of the journal a lane does not know.
func (l *Lanes) Behind(number, lane string, rows uint64) {
	l.behind.WithLabelValues(number, lane).Set(float64(rows))
}

// Offset reports how far a lane's clock is ahead of the ledger's.
func (l *Lanes) Offset(number, lane string, offset time.Duration) {
	l.offset.WithLabelValues(number, lane).Set(offset.Seconds())
}

// Released forgets what was said of a lane, which is not served here any more.
func (l *Lanes) Released(number, lane string) {
	l.waiting.DeleteLabelValues(number, lane)
	l.behind.DeleteLabelValues(number, lane)
	l.offset.DeleteLabelValues(number, lane)
}

// Keeper counts what the keeper of the fast counter does.
type Keeper struct {
	built   *prometheus.CounterVec
	seconds prometheus.Histogram
	left    *prometheus.CounterVec
	failed  *prometheus.CounterVec
}

func newKeeper(m *maker) Keeper {
	return Keeper{
		built:   m.counters("keeper_builds_total", "Sales loaded into the fast counter by this process, by reason.", "why"),
		seconds: m.histogram("keeper_build_seconds", "Time of loading one sale into the fast counter.", latencyBuckets()),
		left:    m.counters("keeper_left_total", "Sales that this process took off the fast path, by reason.", "why"),
		failed:  m.counters("keeper_failures_total", "Steps of looking after the fast counter that failed and are tried again, by reason.", "why"),
	}
}

// Built reports a sale that was loaded.
func (k *Keeper) Built(why string, took time.Duration) {
	k.built.WithLabelValues(why).Inc()
	k.seconds.Observe(took.Seconds())
}

// Left reports a sale that left the fast path.
func (k *Keeper) Left(why string) { k.left.WithLabelValues(why).Inc() }

// Failed reports a step that failed.
func (k *Keeper) Failed(why string) { k.failed.WithLabelValues(why).Inc() }
