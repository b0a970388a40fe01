package obs

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Metrics is every metric of the product, by the room that counts it.
type Metrics struct {
	HTTP    HTTP
	Engine  Engine
	Sweeper Sweeper
	Feed    Feed
	Lanes   Lanes
	Keeper  Keeper
	Gate    Gate
	Sales   *Sales

	cards []card
}

// New makes the metrics and registers them, with those of the Go runtime and of
// the process. It panics if the registry has them already.
func New(to prometheus.Registerer, version string) *Metrics {
	m := &maker{to: to}
	to.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.gauges("build_info", "Always 1; the label names the version that runs.", "version").WithLabelValues(version).Set(1)
	all := &Metrics{HTTP: newHTTP(m), Engine: newEngine(m), Sweeper: newSweeper(m), Feed: newFeed(m), Lanes: newLanes(m), Keeper: newKeeper(m), Gate: newGate(m), Sales: newSales(m)}
	all.cards = m.cards
	return all
}

func latencyBuckets() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// HTTP counts what httpapi does.
type HTTP struct {
	Panics         prometheus.Counter
	Unauthorized   prometheus.Counter
	Streams        prometheus.Gauge
	StreamMessages prometheus.Counter
	StreamsRefused prometheus.Counter
	StreamsCut     prometheus.Counter
	Waiters        prometheus.Gauge

	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	waiting  *prometheus.GaugeVec
	turned   *prometheus.CounterVec
}

func newHTTP(m *maker) HTTP {
	return HTTP{
		Panics:         m.counter("http_panics_total", "Requests whose handler panicked; each was answered with 503."),
		Unauthorized:   m.counter("http_unauthenticated_total", "Requests that needed credentials and had none or wrong ones."),
		Streams:        m.gauge("http_streams", "Event streams that are open."),
		StreamMessages: m.counter("http_stream_messages_total", "Messages written to event streams, heartbeats not counted."),
		StreamsRefused: m.counter("http_streams_refused_total", "Event streams refused because of a cap."),
		StreamsCut:     m.counter("http_streams_cut_total", "Event streams ended because the reader was too slow or had gone."),
		Waiters:        m.gauge("http_waiters", "Requests that wait for a queued order to be judged; they take no place among those being worked on."),

		requests: m.counters("http_requests_total", "Requests answered, by operation and HTTP status.", "operation", "status"),
		seconds:  m.histograms("http_request_seconds", "Time from the end of a request's header to the end of its handler, by class (buy, read, pay, admin); streams are not counted.", latencyBuckets(), "class"),
		inFlight: m.gauges("http_in_flight", "Requests being worked on, by class.", "class"),
		waiting:  m.gauges("http_waiting", "Requests waiting for a place among those being worked on, by class.", "class"),
		turned:   m.counters("http_turned_away_total", "Requests answered with 503 busy because their class was full.", "class"),
	}
}

// Class counts the requests of one class.
type Class struct {
	Seconds    prometheus.Observer
	InFlight   prometheus.Gauge
	Waiting    prometheus.Gauge
	TurnedAway prometheus.Counter
}

// Class returns the counters of a class, to be held.
func (h *HTTP) Class(name string) Class {
	return Class{
		Seconds: h.seconds.WithLabelValues(name), InFlight: h.inFlight.WithLabelValues(name),
		Waiting: h.waiting.WithLabelValues(name), TurnedAway: h.turned.WithLabelValues(name),
	}
}

const (
	lowestStatus = 100
	statuses     = 500
)

// Operation counts the answers of one operation, to be held.
type Operation struct {
	requests *prometheus.CounterVec
	name     string
	byStatus [statuses]atomic.Pointer[prometheus.Counter]
}

// Operation returns the counters of an operation, to be held.
func (h *HTTP) Operation(name string) *Operation { return &Operation{requests: h.requests, name: name} }

// Answered counts one answer with this HTTP status.
func (o *Operation) Answered(status int) {
	i := status - lowestStatus
	if i < 0 || i >= statuses {
		return
	}
	held := o.byStatus[i].Load()
	if held == nil {
		c := o.requests.WithLabelValues(o.name, strconv.Itoa(status))
		held = &c
		o.byStatus[i].Store(held)
	}
	(*held).Inc()
}

// Sweeper counts what the sweeper of holds does; it is a settle.Observer.
type Sweeper struct {
	ended   prometheus.Counter
	overdue prometheus.Gauge
	aside   prometheus.Gauge
	refused prometheus.Counter
}

func newSweeper(m *maker) Sweeper {
	return Sweeper{
		ended:   m.counter("holds_ended_total", "Holds that were over and were ended by this process."),
		overdue: m.gauge("hold_overdue_seconds", "How long overdue the oldest hold was that the sweeper found last. Above 2 s something is wrong."),
		aside:   m.gauge("holds_set_aside", "Overdue holds that the ledger refuses to end; they are tried again, ever more rarely."),
		refused: m.counter("hold_refusals_total", "Times that a hold or a whole sweep failed."),
	}
}

// Behind reports how long overdue the oldest hold of a page is.
func (s *Sweeper) Behind(overdue time.Duration) { s.overdue.Set(overdue.Seconds()) }

// Swept reports one sweep: holds ended, and how many are set aside.
func (s *Sweeper) Swept(ended, aside int) {
	s.ended.Add(float64(ended))
	s.aside.Set(float64(aside))
}

// Refused reports a hold that could not be ended, or a sweep that failed.
func (s *Sweeper) Refused(sale.OrderID, error) { s.refused.Inc() }

// Feed counts what goes wrong in the feed of events; it is an event.Observer.
type Feed struct {
	failed prometheus.Counter
	cutOff prometheus.Counter
}

func newFeed(m *maker) Feed {
	return Feed{
		failed: m.counter("feed_failures_total", "Reads of the journal for event streams that failed; they are tried again."),
		cutOff: m.counter("feed_cut_off_total", "Subscribers of the feed that did not keep up and were cut off."),
	}
}

// Failed reports a read that failed.
func (f *Feed) Failed(sale.Number, error) { f.failed.Inc() }

// CutOff reports a subscriber that did not keep up.
func (f *Feed) CutOff(sale.Number) { f.cutOff.Inc() }

// Sales tells the stock of every sale when it is asked.
type Sales struct {
	stock, sold, left *prometheus.Desc
	read              atomic.Pointer[func() []sale.Sale]
}

func newSales(m *maker) *Sales {
	s := &Sales{
		stock: m.desc("item_stock", "Units of an item put up for sale.", "sale", "item"),
		sold:  m.desc("item_sold", "Units of an item held by reserved and paid orders.", "sale", "item"),
		left:  m.desc("item_left", "Units of an item that nobody holds.", "sale", "item"),
	}
	m.to.MustRegister(s)
	return s
}

// Source names the function that returns the sales to tell of, at most a second
// or two old. Before it is called there are none.
func (s *Sales) Source(read func() []sale.Sale) { s.read.Store(&read) }

// Describe implements prometheus.Collector.
func (s *Sales) Describe(to chan<- *prometheus.Desc) {
	to <- s.stock
	to <- s.sold
	to <- s.left
}

// Collect implements prometheus.Collector.
func (s *Sales) Collect(to chan<- prometheus.Metric) {
	read := s.read.Load()
	if read == nil {
		return
	}
	for _, one := range (*read)() {
		for i := range one.Items {
			it := &one.Items[i]
			to <- prometheus.MustNewConstMetric(s.stock, prometheus.GaugeValue, float64(it.Stock), one.Slug, it.SKU)
			to <- prometheus.MustNewConstMetric(s.sold, prometheus.GaugeValue, float64(it.Sold), one.Slug, it.SKU)
			to <- prometheus.MustNewConstMetric(s.left, prometheus.GaugeValue, float64(it.Left()), one.Slug, it.SKU)
		}
	}
}
