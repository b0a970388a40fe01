package bench

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// TestVerdict: a run passes if nothing is broken and nothing was left out; what is
// broken is so even where something was left out.
func TestVerdict(t *testing.T) {
	t.Parallel()
	type run struct {
		*bench

		k       *reckoning
		missing error
	}
	for name, c := range map[string]struct {
		change func(*run)
		want   string // the reason
	}{
		"all is well":             {func(*run) {}, ""},
		"orders are queued":       {func(r *run) { r.queued = 1200 }, "1,200 orders were still queued 30s after the crowd"},
		"it never stood still":    {func(r *run) { r.k.account.steady, r.k.refused = false, 2 }, "orders moved while they were read, 3 times"},
		"nobody was told":         {func(r *run) { r.report.Pace[0].Class = "refused" }, "no buyer got an answer"},
		"no audit":                {func(r *run) { r.report.Audit = &client.AuditReport{} }, "the audit told nothing of the sale drop"},
		"an audit of another one": {func(r *run) { r.report.Audit.Sales[0].ID = "other" }, "the audit told nothing of the sale drop"},
		"no click came again":     {func(r *run) { r.missing = errors.New("busy"); r.report.Checks[1].Checked = 0 }, "no click could be repeated in the end: busy"},
		"some did":                {func(r *run) { r.missing = errors.New("busy") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := func() *run {
				r := &run{bench: &bench{report: reportOf(t)}, k: &reckoning{account: &account{steady: true}}}
				r.report.Pass = false
				r.report.Checks = []Check{{Promise: "P1", Checked: 3}, {Promise: "P4", Checked: 2}}
				r.report.Audit = &client.AuditReport{Sales: []client.AuditSale{{ID: "drop"}}}
				c.change(r)
				return r
			}
			r := made()
			err := r.judge(r.k, r.missing)
			assert.Equal(t, c.want == "", r.report.Pass)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			r = made()
			r.report.Checks[0].Broken = 1
			require.NoError(t, r.judge(r.k, r.missing))
			assert.False(t, r.report.Pass)
			assert.Contains(t, strings.Join(r.report.Warnings, "\n"), c.want)
		})
	}
	r := &bench{report: reportOf(t)}
	r.report.Audit = &client.AuditReport{Sales: []client.AuditSale{{ID: "drop"}}}
	require.NoError(t, r.judge(&reckoning{account: &account{}}, nil), "nobody was refused: the audit counts what is sold")
	assert.True(t, r.report.Pass)
	assert.Len(t, r.report.Warnings, 1)
}

func TestQueuedIn(t *testing.T) {
	t.Parallel()
	three := int64(3)
	stats := &client.Stats{Sales: []client.SaleStats{{ID: "a", Path: "fast", Queued: &three}, {ID: "b", Path: "fast"}, {ID: "c", Path: "direct"}}}
	for id, want := range map[string]struct {
		n     int64
		known bool
	}{"a": {3, true}, "b": {0, false}, "c": {0, true}, "d": {0, true}} {
		n, known := queuedIn(stats, id)
		assert.Equal(t, want.n, n, id)
		assert.Equal(t, want.known, known, id)
	}
}
