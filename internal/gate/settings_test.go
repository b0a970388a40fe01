package gate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestDefaultSettingsAreSettings(t *testing.T) {
	t.Parallel()
	want := gate.DefaultSettings()
	require.NoError(t, want.Validate())
	text, err := json.Marshal(want)
	require.NoError(t, err)
	got, err := gate.ParseSettings(text)
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = gate.ParseSettings([]byte(`{"pass": {"per_second": 5}}`))
	require.NoError(t, err)
	want.Pass.PerSecond = 5
	require.Equal(t, want, got, "what is absent keeps its default")
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	limit := func(members string) string {
		return `{"limits": [{"name": "a", "by": "user", "quota": 1, "window": "1s"` + members + `}]}`
	}
	for text, field := range map[string]string{
		`{`: "", `{"limitz": []}`: "", `{} {}`: "", `[]`: "",
		limit(`, "by": "planet"`):                       "limits[0]",
		limit(`, "name": "ä"`):                          "limits[0]",
		limit(`, "quota": 0`):                           "limits[0]",
		limit(`, "window": "soon"`):                     "",
		limit(`, "then": "explode"`):                    "limits[0]",
		limit(`, "algorithm": "magic"`):                 "limits[0]",
		limit(`, "on_error": "panic"`):                  "limits[0]",
		limit(`, "on": ["read"]`):                       "limits[0]",
		limit(`, "on": ["nap"]`):                        "limits[0]",
		limit(`, "by": "service", "shared": true`):      "limits[0]",
		limit(`, "each": "user"`):                       "limits[0]",
		limit(`, "of_stock": 0.5`):                      "limits[0]",
		limit(`, "harder": 2`):                          "limits[0]",
		limit(`, "strikes": -1`):                        "limits[0]",
		`{"challenge": {"mode": "maybe"}}`:              "challenge.mode",
		`{"challenge": {"life": "1ms"}}`:                "challenge.life",
		`{"pass": {"life": "1000h"}}`:                   "pass.life",
		`{"pass": {"per_second": -1}}`:                  "pass.per_second",
		`{"bans": {"decay": "10m0.000000001s"}}`:        "bans",
		`{"bans": {"prove_at": 0}}`:                     "bans",
		`{"bans": {"base": "2h", "max": "1h"}}`:         "bans.max",
		`{"sales": {"drop": {"challenge": "perhaps"}}}`: "sales.drop.challenge",
		strings.Replace(limit(``), "]", `, {"name": "a", "by": "sale", "quota": 1, "window": "1s"}]`, 1): "limits[1].name",
	} {
		_, err := gate.ParseSettings([]byte(text))
		require.Equal(t, sale.CodeInvalid, sale.CodeOf(err), text)
		e := &sale.Error{}
		require.ErrorAs(t, err, &e)
		require.Equal(t, field, e.Field, text)
		require.NotEmpty(t, e.Hint)
	}
}

// FuzzParseSettings looks for texts that are accepted and do not survive a round
// trip.
func FuzzParseSettings(f *testing.F) {
	text, err := json.Marshal(gate.DefaultSettings())
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"limits": [], "sales": {"x": {"pass": true}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := gate.ParseSettings(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		require.NoError(t, err)
		back, err := gate.ParseSettings(again)
		require.NoError(t, err)
		require.Equal(t, s, back)
	})
}
