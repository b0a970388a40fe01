package redisstock

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// sound is the meta of a lane that has moved units.
func sound() map[string]string {
	return map[string]string{
		"epoch": "3", "state": "published", "starts": "0", "ends": "9", "limit": "2", "terms": "1", "version": "4",
		"applied": "5", "seq": "6", "gen": "7", "queued": "0", "cap": "9", "taken": "3", "returned": "1", "offset": "-20",
		"items": "2", "s0": "10", "l0": "-2", "s1": "5", "l1": "5",
		"x0": "-7", "o2": "4 1 6", "o11": "1 0 2", "i2": "18446744073709551615", "w": "12345",
	}
}

func TestReadMeta(t *testing.T) {
	t.Parallel()
	s, err := readMeta(sound())
	require.NoError(t, err)
	require.Equal(t, []int64{-7, 0}, s.Moved)
	require.Equal(t, map[int]stock.Transfer{2: {Epoch: 3, To: 2, Number: 4, Item: 1, Units: 6}, 11: {Epoch: 3, To: 11, Number: 1, Units: 2}}, s.Given)
	require.Equal(t, map[int]uint64{2: 1<<64 - 1}, s.Received)
	frozen := sound()
	frozen["frozen"] = "9"
	for steps, want := range map[string]int64{"": 0, "12": 12} { // a builder of an older version counts none
		if steps != "" {
			frozen["steps"] = steps
		}
		at, err := readMeta(frozen)
		require.NoError(t, err)
		require.Equal(t, []int64{9, want}, []int64{at.FrozenBy, at.Steps})
		delete(frozen, "steps")
	}
	for _, bad := range []struct{ field, value string }{
		{"x0", ""},
		{"x0", "1.5"},
		{"x7", "many"},
		{"x99999999999999999999", "1"},
		{"i2", ""},
		{"i2", "-1"},
		{"i2", "1 "},
		{"i99999999999999999999", "1"},
		{"o2", ""},
		{"o2", "1 2"},
		{"o2", "1 2 3 4"},
		{"o2", "1  2 3"},
		{"o2", "1 2 3x"},
		{"o2", "-1 2 3"},
		{"o2", "1 -2 3"},
		{"o2", "1 2 0"},
		{"o2", "1 2 -3"},
		{"o99999999999999999999", "1 1 1"},
		{"l1", ""},
		{"seq", "x"},
	} {
		fields := sound()
		fields[bad.field] = bad.value
		_, err := readMeta(fields)
		require.Error(t, err, "%s %q", bad.field, bad.value)
	}
	for _, other := range []string{"o", "i", "x", "ox", "i2x", "oi2", "", "O2", "o-2", "o2\n"} {
		fields := sound()
		fields[other] = "garbage"
		got, err := readMeta(fields)
		require.NoError(t, err, "%q is no field of a transfer", other)
		require.Equal(t, s, got)
	}
}

// FuzzReadMeta: whatever stands in meta, reading it ends in a standing that can be
// looked at, or in an error.
func FuzzReadMeta(f *testing.F) {
	f.Add("o2", "4 1 6", "x0", "-7")
	f.Add("o2", "4 1 6 7", "i0", "-1")
	f.Add("items", "-5", "items", "99999999999")
	f.Add("o184467440737095516150", "1 1 1", "", "")
	f.Add("epoch", "", "frozen", "x")
	f.Fuzz(func(t *testing.T, name, value, other, text string) {
		fields := sound()
		fields[name], fields[other] = value, text
		s, err := readMeta(maps.Clone(fields))
		if err != nil {
			return
		}
		require.Len(t, s.Moved, len(s.Left))
		require.Len(t, s.Stock, len(s.Left))
		at := []stock.Standing{s, s, s}
		for _, x := range stock.Underway(at) {
			require.Positive(t, x.Units)
			words := strings.Split(fields["o"+decimal(int64(x.To))], " ")
			require.Len(t, words, 3)
		}
		for item := range len(s.Left) + 1 {
			stock.Left(at, item)
		}
	})
}
