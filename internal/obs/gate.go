package obs

import "github.com/prometheus/client_golang/prometheus"

// Gate counts what happens at the gate; with a log it is a gate.Observer.
type Gate struct {
	refused   *prometheus.CounterVec
	shadowed  *prometheus.CounterVec
	degraded  *prometheus.CounterVec
	passes    prometheus.Counter
	solutions *prometheus.CounterVec
	strikes   *prometheus.CounterVec
	dropped   prometheus.Counter
	bans      *prometheus.CounterVec
	listings  prometheus.Gauge
	version   prometheus.Gauge
	failures  prometheus.Counter
	trouble   prometheus.Counter
}

func newGate(m *maker) Gate {
	return Gate{
		refused:   m.counters("gate_refused_total", "Attempts that the gate refused, by layer (the name of the limit, or list, pass, challenge, always) and code.", "layer", "code"),
		shadowed:  m.counters("gate_shadowed_total", "Attempts that a limit in shadow mode would have refused.", "layer"),
		degraded:  m.counters("gate_degraded_total", "Decisions that a shared limit made without its store.", "layer"),
		passes:    m.counter("gate_passes_total", "Passes given out, repeated ones included."),
		solutions: m.counters("gate_solutions_total", "Solutions of challenges and captchas that were presented, by outcome: sound, or what was wrong.", "outcome"),
		strikes:   m.counters("gate_strikes_total", "Strikes given for signs of a machine, by sign.", "why"),
		dropped:   m.counter("gate_strikes_dropped_total", "Signs that found no room among those that wait to be counted."),
		bans:      m.counters("gate_bans_total", "Listings that the gate made by itself, by effect (deny, challenge).", "effect"),
		listings:  m.gauge("gate_listings", "Listings that this instance has in force."),
		version:   m.gauge("gate_version", "Version of lists, settings and keys that this instance knows; the same on all instances within two seconds."),
		failures:  m.counter("gate_failures_total", "Times that the gate could not read or write what it needs; it tries again."),
		trouble:   m.counter("gate_store_errors_total", "Calls of the store of shared limits that failed."),
	}
}

// Refused is told of each refusal.
func (g *Gate) Refused(layer, code string) { g.refused.WithLabelValues(layer, code).Inc() }

// Shadowed is told of what a limit in shadow mode would have refused.
func (g *Gate) Shadowed(layer string) { g.shadowed.WithLabelValues(layer).Inc() }

// Degraded is told of decisions that a limit made without its store.
func (g *Gate) Degraded(layer string) { g.degraded.WithLabelValues(layer).Inc() }

// Passed is told of each pass given out.
func (g *Gate) Passed() { g.passes.Inc() }

// Solved is told of each solution.
func (g *Gate) Solved(outcome string) { g.solutions.WithLabelValues(outcome).Inc() }

// Struck is told of strikes.
func (g *Gate) Struck(why string, strikes int64) {
	g.strikes.WithLabelValues(why).Add(float64(strikes))
}

// Dropped is told of strikes that found no room.
func (g *Gate) Dropped() { g.dropped.Inc() }

// Banned is told of each listing that the gate made.
func (g *Gate) Banned(effect string) { g.bans.WithLabelValues(effect).Inc() }

// Known is told of what is in force.
func (g *Gate) Known(version int64, listings int) {
	g.version.Set(float64(version))
	g.listings.Set(float64(listings))
}

// Failed is told of what could not be read or written.
func (g *Gate) Failed(string, error) { g.failures.Inc() }

// StoreFailed is told of each call of the limits' store that failed.
func (g *Gate) StoreFailed() { g.trouble.Inc() }
