package obs_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
)

func TestMetricsDocIsFresh(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	require.NoError(t, obs.New(prometheus.NewRegistry(), "").WriteDoc(&want))
	got, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got), "run: make generate")
}

func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := obs.New(reg, "v1")
	m.HTTP.Operation("buy").Answered(201)
	m.HTTP.Class("buy").Seconds.Observe(0.1)
	m.HTTP.Class("buy").TurnedAway.Inc()
	m.HTTP.Class("buy").InFlight.Inc()
	m.HTTP.Class("buy").Waiting.Inc()
	m.Lanes.Failed("judge")
	m.Lanes.Settled(&sale.Order{State: sale.Reserved}, time.Millisecond)
	m.Lanes.Queued("1", "0", 3)
	m.Lanes.Behind("1", "0", 3)
	m.Lanes.Offset("1", "0", time.Millisecond)
	m.Keeper.Built("preheat", time.Second)
	m.Keeper.Left("trouble")
	m.Keeper.Failed("preheat")
	m.Gate.Refused("user", "rate_limited")
	m.Gate.Shadowed("user")
	m.Gate.Degraded("user")
	m.Gate.Solved("sound")
	m.Gate.Struck("forged", 10)
	m.Gate.Banned("deny")
	m.Sales.Source(func() []sale.Sale {
		return []sale.Sale{{Slug: "s", Items: []sale.Item{{SKU: "a", Stock: 3, Sold: 5}}}}
	})
	var page bytes.Buffer
	require.NoError(t, m.WriteDoc(&page))
	families, err := reg.Gather()
	require.NoError(t, err)
	ours := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "doorbuster_") {
			continue
		}
		ours++
		require.Contains(t, page.String(), "`"+f.GetName()+"` | "+strings.ToLower(f.GetType().String())+" |")
		require.Contains(t, page.String(), f.GetHelp())
	}
	require.Equal(t, strings.Count(page.String(), "| `doorbuster_"), ours, "a metric on the page is never served")
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`# HELP doorbuster_item_left Units of an item that nobody holds.
# TYPE doorbuster_item_left gauge
doorbuster_item_left{item="a",sale="s"} 0
`), "doorbuster_item_left"))
	m.Lanes.Released("1", "0")
	left, err := testutil.GatherAndCount(reg, "doorbuster_lane_queued_slips", "doorbuster_lane_behind_rows", "doorbuster_lane_clock_offset_seconds")
	require.NoError(t, err)
	require.Zero(t, left, "a lane that is not served any more")
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	for _, p := range problems {
		require.NotContains(t, p.Metric, "doorbuster_", p.Text)
	}
}

func TestObserversCount(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := obs.New(reg, "v1")
	var seller engine.Observer = &m.Engine
	var sweeper settle.Observer = &m.Sweeper
	var feed event.Observer = &m.Feed
	feed.Failed(1, errors.New("no"))
	feed.CutOff(1)
	seller.Decided(sale.Taken, engine.FromLedger)
	seller.Decided(sale.SoldOut, engine.FromMemory)
	seller.Decided(sale.SoldOut, engine.FromMemory)
	seller.Decided("new", engine.FromMemory)
	seller.Batched(engine.FromLedger, 3, time.Second, errors.New("no"))
	seller.Decided(sale.Taken, engine.FromCounter)
	seller.Batched(engine.FromCounter, 5, time.Second, nil)
	seller.Mirrored(errors.New("no"))
	seller.Gathered(time.Second, errors.New("no"))
	sweeper.Behind(1500 * time.Millisecond)
	sweeper.Swept(7, 2)
	sweeper.Refused(sale.OrderID{}, errors.New("no"))
	op := m.HTTP.Operation("buy")
	for range 3 {
		op.Answered(409)
	}
	op.Answered(999)

	text := gather(t, reg)
	for _, line := range []string{
		`doorbuster_buy_verdicts_total{source="ledger",verdict="taken"} 1`,
		`doorbuster_buy_verdicts_total{source="memory",verdict="sold_out"} 2`,
		`doorbuster_buy_verdicts_total{source="ledger",verdict="other"} 1`,
		`doorbuster_buy_verdicts_total{source="counter",verdict="taken"} 1`, `doorbuster_take_attempts_sum 5`, `doorbuster_take_errors_total 0`,
		`doorbuster_gather_seconds_count 1`, `doorbuster_gather_errors_total 1`,
		`doorbuster_mirror_calls_total 1`, `doorbuster_mirror_errors_total 1`,
		`doorbuster_batch_errors_total 1`, `doorbuster_batch_attempts_sum 3`,
		`doorbuster_holds_ended_total 7`, `doorbuster_hold_overdue_seconds 1.5`, `doorbuster_holds_set_aside 2`,
		`doorbuster_feed_failures_total 1`, `doorbuster_feed_cut_off_total 1`,
		`doorbuster_hold_refusals_total 1`, `doorbuster_http_requests_total{operation="buy",status="409"} 3`,
	} {
		require.Contains(t, text, line+"\n")
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := obs.NewLogger(&out, "json", "warn")
	require.NoError(t, err)
	log.Info("quiet")
	log.Warn("loud")
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), `"msg":"loud"`)
	_, err = obs.NewLogger(&out, "xml", "info")
	require.Error(t, err)
	_, err = obs.NewLogger(&out, "text", "loudest")
	require.Error(t, err)
	for _, f := range obs.LogFormats() {
		_, err = obs.NewLogger(&out, f, "info")
		require.NoError(t, err)
	}
}
