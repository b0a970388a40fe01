package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Engine counts what the engine does; it is an engine.Observer.
type Engine struct {
	batches  calls // of the ledger
	takes    calls // of the fast counter
	verdicts map[engine.Source]map[sale.Verdict]prometheus.Counter
	unlisted prometheus.Counter
	gathered gathers
	mirrored prometheus.Counter
	missed   prometheus.Counter
}

// calls counts the calls that decide attempts.
type calls struct {
	attempts prometheus.Histogram
	seconds  prometheus.Histogram
	errors   prometheus.Counter
}

// gathers counts the searches for units in other lanes.
type gathers struct {
	seconds prometheus.Histogram
	errors  prometheus.Counter
}

var _ engine.Observer = (*Engine)(nil)

func newEngine(m *maker) Engine {
	verdicts := m.counters("buy_verdicts_total", "Attempts decided, by verdict and by who gave it (memory, counter, ledger).", "verdict", "source")
	sizes := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	e := Engine{
		batches: calls{
			attempts: m.histogram("batch_attempts", "Attempts decided by one ledger transaction.", sizes),
			seconds:  m.histogram("batch_seconds", "Time of one ledger transaction that decided attempts.", latencyBuckets()),
			errors:   m.counter("batch_errors_total", "Ledger transactions that decided nothing because they failed."),
		},
		takes: calls{
			attempts: m.histogram("take_attempts", "Attempts decided by one call of the fast counter.", sizes),
			seconds:  m.histogram("take_seconds", "Time of one call of the fast counter that decided attempts.", latencyBuckets()),
			errors:   m.counter("take_errors_total", "Calls of the fast counter that failed; what they took is told by a repetition."),
		},
		gathered: gathers{
			seconds: m.histogram("gather_seconds", "Time in which a lane that was short gathered units from the others of its sale, or found that they have none.", latencyBuckets()),
			errors:  m.counter("gather_errors_total", "Gatherings that came to nothing: a lane did not answer or was out of order, or others were faster."),
		},
		mirrored: m.counter("mirror_calls_total", "Changes of the ledger's brought to the fast counter at once, and messages to other instances."),
		missed:   m.counter("mirror_errors_total", "Those of them that failed; the journal brings them later."),
		verdicts: make(map[engine.Source]map[sale.Verdict]prometheus.Counter),
		unlisted: verdicts.WithLabelValues("other", string(engine.FromLedger)),
	}
	for _, source := range []engine.Source{engine.FromMemory, engine.FromCounter, engine.FromLedger} {
		e.verdicts[source] = make(map[sale.Verdict]prometheus.Counter)
		for _, v := range verdictNames() {
			e.verdicts[source][v] = verdicts.WithLabelValues(string(v), string(source))
		}
	}
	return e
}

func verdictNames() []sale.Verdict {
	return []sale.Verdict{
		sale.Taken, sale.Replayed, sale.SoldOut, sale.Insufficient, sale.LimitReached, sale.CoolDown, sale.NotStarted, sale.Ended,
		sale.PausedNow, sale.ClosedNow, sale.TermsChanged, sale.KeyMismatch, sale.NoSuchSale, sale.NoSuchItem, sale.BadQuantity,
	}
}

// Batched implements engine.Observer.
func (e *Engine) Batched(by engine.Source, attempts int, took time.Duration, err error) {
	c := &e.batches
	if by == engine.FromCounter {
		c = &e.takes
	}
	c.attempts.Observe(float64(attempts))
	c.seconds.Observe(took.Seconds())
	if err != nil {
		c.errors.Inc()
	}
}

// Decided implements engine.Observer.
func (e *Engine) Decided(v sale.Verdict, by engine.Source) {
	held := e.verdicts[by][v]
	if held == nil {
		held = e.unlisted
	}
	held.Inc()
}

// Gathered implements engine.Observer.
func (e *Engine) Gathered(took time.Duration, err error) {
	e.gathered.seconds.Observe(took.Seconds())
	if err != nil {
		e.gathered.errors.Inc()
	}
}

// Mirrored implements engine.Observer.
func (e *Engine) Mirrored(err error) {
	e.mirrored.Inc()
	if err != nil {
		e.missed.Inc()
	}
}
