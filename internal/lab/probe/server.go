package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// told is a figure that is made of a family of metrics.
type told struct {
	name, unit string
	kind       kind
	family     string
	// label and value choose the metrics of the family that count. Without them all do.
	label, value string
}

// ofProcess is what every process in Go tells.
func ofProcess() []told {
	return []told{
		{name: "cpu", unit: "cores", kind: rate, family: "process_cpu_seconds_total"},
		{name: "memory", unit: "bytes", family: "process_resident_memory_bytes"},
		{name: "heap", unit: "bytes", family: "go_memstats_heap_alloc_bytes"},
		{name: "collections/s", unit: "1/s", kind: rate, family: "go_gc_duration_seconds"},
		{name: "goroutines", unit: "1", family: "go_goroutines"},
	}
}

// ofServer is what a server tells of its work; docs/metrics.md says what it means.
func ofServer(name string) []told {
	out := append(ofProcess(),
		told{name: "requests/s", unit: "1/s", kind: rate, family: "doorbuster_http_requests_total"},
		told{name: "buys/s", unit: "1/s", kind: rate, family: "doorbuster_http_request_seconds", label: "class", value: "buy"},
		told{name: "buy time", unit: "s", kind: mean, family: "doorbuster_http_request_seconds", label: "class", value: "buy"},
		told{name: "in flight", unit: "1", family: "doorbuster_http_in_flight"},
		told{name: "waiting", unit: "1", family: "doorbuster_http_waiting"},
		told{name: "waiting for the judge", unit: "1", family: "doorbuster_http_waiters"},
		told{name: "turned away/s", unit: "1/s", kind: rate, family: "doorbuster_http_turned_away_total"},
		told{name: "refused by the gate/s", unit: "1/s", kind: rate, family: "doorbuster_gate_refused_total"},
		told{name: "decided from memory/s", unit: "1/s", kind: rate, family: "doorbuster_buy_verdicts_total", label: "source", value: "memory"},
		// The direct path.
		told{name: "transactions/s", unit: "1/s", kind: rate, family: "doorbuster_batch_attempts"},
		told{name: "transaction size", unit: "1", kind: mean, family: "doorbuster_batch_attempts"},
		told{name: "transaction time", unit: "s", kind: mean, family: "doorbuster_batch_seconds"},
		told{name: "failed transactions/s", unit: "1/s", kind: rate, family: "doorbuster_batch_errors_total"},
		// The fast path.
		told{name: "calls/s", unit: "1/s", kind: rate, family: "doorbuster_take_attempts"},
		told{name: "call size", unit: "1", kind: mean, family: "doorbuster_take_attempts"},
		told{name: "call time", unit: "s", kind: mean, family: "doorbuster_take_seconds"},
		told{name: "failed calls/s", unit: "1/s", kind: rate, family: "doorbuster_take_errors_total"},
		told{name: "judged/s", unit: "1/s", kind: rate, family: "doorbuster_judge_delay_seconds"},
		told{name: "judge delay", unit: "s", kind: mean, family: "doorbuster_judge_delay_seconds"},
		told{name: "judge size", unit: "1", kind: mean, family: "doorbuster_judge_batch_slips"},
		told{name: "judge time", unit: "s", kind: mean, family: "doorbuster_judge_seconds"},
		told{name: "queued slips", unit: "1", family: "doorbuster_lane_queued_slips"},
	)
	if name == "" {
		return out
	}
	return append(out,
		told{name: "sold", unit: "1", family: "doorbuster_item_sold", label: "sale", value: name},
		told{name: "left", unit: "1", family: "doorbuster_item_left", label: "sale", value: name},
	)
}

// figures makes figures of metrics. A family that is not there gives none: an older
// server does not have it, or no metric of it counts yet.
func figures(all []told, families map[string]*dto.MetricFamily) []figure {
	out := make([]figure, 0, len(all))
	for i := range all {
		t := &all[i]
		f := figure{name: t.name, unit: t.unit, kind: t.kind}
		found := false
		for _, m := range families[t.family].GetMetric() {
			if t.label != "" && !labelled(m, t.label, t.value) {
				continue
			}
			found = true
			sum, count := amount(m)
			switch {
			case t.kind == mean:
				f.value, f.count = f.value+sum, f.count+count
			case count > 0: // how often something happened
				f.value += count
			default:
				f.value += sum
			}
		}
		if found {
			out = append(out, f)
		}
	}
	return out
}

func labelled(m *dto.Metric, name, value string) bool {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue() == value
		}
	}
	return false
}

// amount returns the value of a metric; of one that counts events, their sum and number.
func amount(m *dto.Metric) (value, events float64) {
	switch {
	case m.GetHistogram() != nil:
		return m.GetHistogram().GetSampleSum(), float64(m.GetHistogram().GetSampleCount())
	case m.GetSummary() != nil:
		return m.GetSummary().GetSampleSum(), float64(m.GetSummary().GetSampleCount())
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue(), 0
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue(), 0
	}
	return m.GetUntyped().GetValue(), 0
}

// page is what is read over HTTP, at one address.
type page struct {
	url    *url.URL
	key    string // sent as a bearer token, if there is one
	client http.Client
}

// longestPage bounds what is read of a page.
const longestPage = 8 << 20

func newPage(option, text, key string) (page, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return page{}, sale.Invalid(option, "this is not the URL of a page", "write http://HOST:PORT")
	}
	// One connection of its own; compressing would be work for what is watched.
	return page{url: u, key: key, client: http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 1, DisableCompression: true,
	}}}, nil
}

var errDenied = errors.New("it asks for an API key")

// get returns the body.
func (p *page) get(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url.String(), http.NoBody)
	if err != nil {
		return nil, errors.New("the request cannot be made")
	}
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // without the address
		}
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, longestPage))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, errDenied
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	return body, nil
}

func (p *page) close() { p.client.CloseIdleConnections() }

// server is a Doorbuster, seen through its metrics.
type server struct {
	page
	figures []told
}

func newServer(ops, key, name string) (*server, error) {
	p, err := newPage("ops", ops, key)
	if err != nil {
		return nil, err
	}
	p.url = p.url.JoinPath("metrics")
	return &server{page: p, figures: ofServer(name)}, nil
}

func (s *server) read(ctx context.Context) (reading, error) {
	body, err := s.get(ctx)
	if err != nil {
		return reading{}, err
	}
	families, err := parse(body)
	if err != nil {
		return reading{}, err
	}
	now := reading{figures: figures(s.figures, families)}
	if born := families["process_start_time_seconds"].GetMetric(); len(born) == 1 {
		started, _ := amount(born[0])
		now.life = fmt.Sprint(started)
	}
	return now, nil
}

// parse reads the text format of Prometheus.
func parse(body []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("what it says are no metrics: %s", strings.TrimPrefix(err.Error(), "text format parsing error "))
	}
	return families, nil
}

func (s *server) refusal(err error) *sale.Error {
	hint := "check that the server runs, and that this is the address of its ops listener (ops.listen)"
	if errors.Is(err, errDenied) {
		hint = "off loopback, metrics are for holders of an API key with the scope ops: doorbuster key create --scope ops"
	}
	return unreachable("the server's metrics cannot be read at "+s.url.Redacted(), hint, err)
}

// unreachable is the error for a source whose first reading failed. The cause names no
// password.
func unreachable(message, hint string, err error) *sale.Error {
	return &sale.Error{Code: sale.CodeUnavailable, Message: message + ": " + err.Error(), Hint: hint, Retry: true, Err: err}
}
