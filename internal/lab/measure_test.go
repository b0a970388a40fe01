package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaceOfTheFirstSale(t *testing.T) {
	t.Parallel()
	answers := []answer{
		{verdict: taken, quantity: 1, heard: 20 * ms},
		{verdict: taken, quantity: 2, heard: 10 * ms},
		{verdict: taken, quantity: 1, heard: time.Second, phase: later},
		{verdict: taken, quantity: 1, heard: 3 * time.Second}, // a unit that came back
		{verdict: replayed, quantity: 1, heard: 5 * ms},
	}
	p := firstSold(answers, 3)
	require.Equal(t, int64(2), p.Answers)
	require.InDelta(t, 0.020, p.Seconds, 1e-9)
	require.InDelta(t, 100, p.PerSecond, 1e-6)
	require.InDelta(t, 10, p.P50, 0.01)
	require.InDelta(t, 20, p.P99, 0.02)
	require.InDelta(t, 20, p.Max, 0.02)

	require.Equal(t, int64(3), firstSold(answers, 9).Answers, "a stock that was not sold out counts what was sold")
	require.Equal(t, Pace{}, firstSold(nil, 3))
}

func TestPaceOfRefusalsLeavesOutWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	answers := []answer{
		{verdict: "sold_out", due: 10 * ms, heard: 30 * ms},
		{verdict: "insufficient", heard: 40 * ms},
		{verdict: "sold_out", heard: time.Second, phase: later},
		{verdict: "busy", heard: time.Second},
		{verdict: gaveUp, heard: time.Second},
		{verdict: taken, heard: time.Second},
		{verdict: replayed, heard: time.Second},
	}
	p := refusedAtDoor(answers)
	require.Equal(t, int64(2), p.Answers)
	require.InDelta(t, 20, p.P50, 0.02, "waiting counts from the instant it was due")
	require.InDelta(t, 50, p.PerSecond, 1e-6)
}

func TestTalliesCountByPhaseMostFrequentFirst(t *testing.T) {
	t.Parallel()
	got := tallies([]answer{
		{verdict: taken}, {verdict: "sold_out"}, {verdict: "sold_out", phase: later}, {verdict: "sold_out"}, {verdict: "closed"}, {verdict: "busy"},
	})
	require.Equal(t, []Tally{
		{Verdict: "sold_out", AtDoor: 2, Later: 1, Meaning: meaning("sold_out")},
		{Verdict: "busy", AtDoor: 1, Meaning: meaning("busy")},
		{Verdict: "closed", AtDoor: 1},
		{Verdict: "taken", AtDoor: 1, Meaning: meaning(taken)},
	}, got)
}
