package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

func TestPaceOfTheFirstSale(t *testing.T) {
	t.Parallel()
	orders := []client.Order{
		order("late", "dan", statePaid, 3*time.Second, 4*time.Second), // a unit that came back
		order("b", "bob", statePaid, 20*ms, 90*ms),
		order("a", "ann", stateCancelled, 10*ms, 80*ms),
	}
	orders[1].Quantity = 2
	answers := []answer{
		{verdict: gaveUp, heard: 5 * ms},
		{verdict: replayed, heard: 70 * ms, order: &orders[2]},
		{verdict: replayed, heard: 90 * ms, order: &orders[2]},
		{verdict: taken, heard: 30 * ms, order: &orders[1]},
		{verdict: taken, heard: 3 * time.Second, order: &orders[0]},
	}
	p := firstSold(orders, answers, 3, opening)
	require.Equal(t, int64(2), p.Answers)
	require.InDelta(t, 0.020, p.Seconds, 1e-9)
	require.InDelta(t, 100, p.PerSecond, 1e-6)
	require.InDelta(t, 30, p.P50, 0.05)
	require.InDelta(t, 70, p.P99, 0.05, "who hung up waited until he clicked again")
	require.Equal(t, "late", orders[0].ID, "the account is not sorted anew")

	require.Equal(t, int64(3), firstSold(orders, answers, 9, opening).Answers, "a stock that was not sold out counts what was sold")
	require.InDelta(t, 1000, firstSold(orders[2:], answers, 1, opening.Add(10*ms)).PerSecond, 1e-6, "the ledger tells milliseconds")
	require.Equal(t, Pace{}, firstSold(nil, nil, 3, opening))
}

func TestPaceOfRefusalsLeavesOutWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	answers := []answer{
		{verdict: "sold_out", due: 10 * ms, heard: 30 * ms},
		{verdict: "insufficient", heard: 40 * ms},
		{verdict: "sold_out", heard: time.Second, phase: later},
		{verdict: "busy", heard: time.Second},
		{verdict: gaveUp, heard: time.Second},
		{verdict: taken, heard: time.Second, order: &client.Order{}},
		{verdict: replayed, heard: time.Second, order: &client.Order{}},
	}
	p := refusedAtDoor(answers)
	require.Equal(t, int64(2), p.Answers)
	require.InDelta(t, 20, p.P50, 0.02, "waiting counts from the instant it was due")
	require.InDelta(t, 50, p.PerSecond, 1e-6)
	require.Equal(t, Pace{}, refusedAtDoor(nil))
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
