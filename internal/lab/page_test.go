package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/audit"
)

func sample() DemoReport {
	return DemoReport{
		Buyers: 10_000, Latecomers: 100, Stock: 100, Seed: 7, Connections: 2000, Seconds: 6.24,
		Attempts: []Tally{{Verdict: "sold_out", AtDoor: 10_950, Later: 880, Meaning: meaning("sold_out")}, {Verdict: "taken", AtDoor: 98, Later: 40}},
		Accepted: Pace{Answers: 98, Seconds: 0.0123, PerSecond: 7967.4, P50: 4.5, P99: 11.25, P999: 12.3, Max: 12.3},
		Refused:  Pace{Answers: 10_950, Seconds: 1.2, PerSecond: 9125, P50: 610, P99: 1190, P999: 1199, Max: 1200},
		Units:    Units{Paid: 100, Cancelled: 15, Expired: 26, SlowestMS: 431, LatePaid: 3, LateRefunded: 8},
		Promises: []Promise{{Name: soldOnce, Checked: 143}},
		Audit:    audit.Report{Sales: []audit.SaleReport{{Slug: "demo"}}},
	}
}

func TestReportIsReadable(t *testing.T) {
	t.Parallel()
	r := sample()
	var out bytes.Buffer
	require.NoError(t, r.WriteText(&out))
	text := out.String()
	for _, line := range []string{
		"10,000 buyers at the door in one instant, 100 units, 100 latecomers (seed 7)",
		"  sold_out       10,950    880  no unit is free\n",
		"  all            11,048    920\n",
		"  accepted (the stock, sold once)       98   12.3 ms       7,967  4.50 ms   11.2 ms   12.3 ms   12.3 ms\n",
		"  refused                           10,950  1,200 ms       9,125   610 ms  1,190 ms  1,199 ms  1,200 ms\n",
		"  100  of 100 units paid, 0 oversold, 0 left over\n",
		"  kept       143  " + soldOnce + "\n",
		"ALL KEPT after 6.2 s: 100 of 100 units paid, 0 oversold, 0 left over; the buyers' books and the ledger agree.\n",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "goes on serving")
}

func TestReportOfABrokenPromiseSaysSo(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Promises[0].Broken, r.Promises[0].Details = 12, []string{"101 units are paid of a stock of 100"}
	require.True(t, r.Broken())
	var out bytes.Buffer
	require.NoError(t, r.WriteText(&out))
	for _, line := range []string{"  BROKEN  ", "    101 units are paid of a stock of 100\n", "    and 11 more\n", "BROKEN after 6.2 s"} {
		require.Contains(t, out.String(), line)
	}
	require.NotContains(t, out.String(), "ALL KEPT")

	r = sample()
	r.Audit.Sales[0].Rules = []audit.RuleReport{{Rule: "P1", Broken: 1}}
	require.True(t, r.Broken(), "the audit counts too")
}

func TestReportIsOneJSONObject(t *testing.T) {
	t.Parallel()
	r := sample()
	var out bytes.Buffer
	require.NoError(t, r.writeJSON(&out))
	var back DemoReport
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&back))
	require.Equal(t, r, back)
	require.False(t, decoder.More())
}

func TestReportTellsThatItCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	r := sample()
	require.ErrorIs(t, r.WriteText(fullDisk{}), errFull)
	require.ErrorIs(t, r.writeJSON(fullDisk{}), errFull)
}

var errFull = errors.New("the disk is full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestProgressIsDrawnStepByStepAndCleared(t *testing.T) {
	t.Parallel()
	s := &screen{seen: make(chan string, 1000)}
	o := DemoOptions{Buyers: 2, Stock: 1, Progress: s}
	c := &crowd{books: newBooks(1)}
	stop := o.watch(&stage{door: newPool(3)}, c)
	s.until("connections")
	c.answered.Add(1)
	s.until("at the door")
	c.answered.Add(1)
	s.until("units paid")
	stop()
	stop()
	require.True(t, strings.HasSuffix(s.text.String(), "\r"), "%q", s.text.String())
}

// screen is a terminal of which a test sees what is drawn.
type screen struct {
	text strings.Builder // to be read when drawing is over
	seen chan string
}

func (s *screen) Write(p []byte) (int, error) {
	s.seen <- string(p)
	return s.text.Write(p)
}

func (s *screen) until(words string) {
	for !strings.Contains(<-s.seen, words) {
	}
}
