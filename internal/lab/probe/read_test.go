package probe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const metrics = `# HELP process_cpu_seconds_total Time.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79603080239e+09
# TYPE doorbuster_http_in_flight gauge
doorbuster_http_in_flight{class="buy"} 3
doorbuster_http_in_flight{class="read"} 4
# TYPE doorbuster_http_request_seconds histogram
doorbuster_http_request_seconds_bucket{class="buy",le="0.1"} 8
doorbuster_http_request_seconds_bucket{class="buy",le="+Inf"} 10
doorbuster_http_request_seconds_sum{class="buy"} 2.5
doorbuster_http_request_seconds_count{class="buy"} 10
doorbuster_http_request_seconds_sum{class="read"} 100
doorbuster_http_request_seconds_count{class="read"} 7
# TYPE doorbuster_http_turned_away_total counter
doorbuster_http_turned_away_total{class="buy"} 0
# TYPE doorbuster_item_left gauge
doorbuster_item_left{item="s",sale="drop"} 5
doorbuster_item_left{item="m",sale="drop"} 6
doorbuster_item_left{item="m",sale="other"} 70
# TYPE go_gc_duration_seconds summary
go_gc_duration_seconds{quantile="1"} 0.5
go_gc_duration_seconds_sum 0.9
go_gc_duration_seconds_count 21
# TYPE something_else untyped
something_else 8
`

func TestFiguresOfMetrics(t *testing.T) {
	t.Parallel()
	families, err := parse([]byte(metrics))
	require.NoError(t, err)
	require.ElementsMatch(t, []figure{
		{name: "cpu", unit: "cores", kind: rate, value: 12.5},
		{name: "collections/s", unit: "1/s", kind: rate, value: 21},
		{name: "buys/s", unit: "1/s", kind: rate, value: 10},
		{name: "buy time", unit: "s", kind: mean, value: 2.5, count: 10},
		{name: "in flight", unit: "1", value: 7},
		{name: "turned away/s", unit: "1/s", kind: rate, value: 0},
		{name: "left", unit: "1", value: 11},
	}, figures(ofServer("drop"), families))

	_, err = parse([]byte("<html>hello</html>"))
	require.ErrorContains(t, err, "no metrics")
}

func TestStatusOfNginx(t *testing.T) {
	t.Parallel()
	got, err := readStatus("Active connections: 291 \nserver accepts handled requests\n 16630948 16630940 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n")
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range got.figures {
		values[f.name] = f.value
	}
	require.Equal(t, map[string]float64{
		"active": 291, "accepts/s": 16630948, "dropped/s": 8, "requests/s": 31070465, "reading": 6, "writing": 179, "waiting": 106,
	}, values)
	for _, text := range []string{"", "<html>1 2 3 4 5 6 7</html>", "Active connections: 291"} {
		_, err = readStatus(text)
		require.ErrorIs(t, err, errNoStatus, text)
	}
}

func FuzzStatusOfNginx(f *testing.F) {
	f.Add("Active connections: 1 \nserver accepts handled requests\n 1 1 1 \nReading: 0 Writing: 1 Waiting: 0 \n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readStatus(text)
		if err == nil {
			require.Len(t, got.figures, 7)
		}
	})
}
