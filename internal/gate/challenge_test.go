package gate_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
)

func bound() gate.Bound { return gate.Bound{User: "alice", Sale: 7} }

func challenge(tb testing.TB, k gate.Keys, most int) gate.Challenge {
	tb.Helper()
	c, err := k.NewChallenge(bound(), most, noon.Add(5*time.Minute), noon)
	require.NoError(tb, err)
	return c
}

// The widget reads the salt's parameters as a query, searches for the number, and
// sends everything back with the time it took.
func TestChallengeAsTheWidgetSeesIt(t *testing.T) {
	t.Parallel()
	k := oneKey()
	text, err := json.Marshal(challenge(t, k, 2000))
	require.NoError(t, err)
	var seen map[string]any
	require.NoError(t, json.Unmarshal(text, &seen))
	require.Len(t, seen, 5)
	require.Equal(t, "SHA-256", seen["algorithm"])
	require.InDelta(t, 2000, seen["maxnumber"], 0)
	salt, ok := seen["salt"].(string)
	require.True(t, ok)
	_, query, _ := strings.Cut(salt, "?")
	values, err := url.ParseQuery(query)
	require.NoError(t, err)
	require.Equal(t, strconv.FormatInt(noon.Add(5*time.Minute).Unix(), 10), values.Get("expires"))
	require.NotContains(t, salt, "alice")

	number := -1
	for n := range 2001 {
		sum := sha256.Sum256(fmt.Append(nil, salt, n))
		if hex.EncodeToString(sum[:]) == seen["challenge"] {
			number = n
			break
		}
	}
	require.GreaterOrEqual(t, number, 0)
	payload, err := json.Marshal(map[string]any{
		"algorithm": seen["algorithm"], "challenge": seen["challenge"], "number": number, "salt": salt, "signature": seen["signature"], "took": 12.5,
	})
	require.NoError(t, err)
	solved, flaw := k.VerifyChallenge(base64.StdEncoding.EncodeToString(payload), bound(), noon)
	require.Equal(t, gate.Sound, flaw)
	require.Equal(t, gate.Solved{ID: salt[:24], MaxNumber: 2000, Expires: noon.Add(5 * time.Minute)}, solved)
}

func TestSolve(t *testing.T) {
	t.Parallel()
	k := oneKey()
	for range 5 {
		c := challenge(t, k, 3000)
		found, err := gate.Solve(t.Context(), c)
		require.NoError(t, err)
		known, err := k.Answer(c, noon)
		require.NoError(t, err)
		require.Equal(t, known, found)
	}
	c := challenge(t, k, gate.HardestChallenge)
	ended, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	_, err := gate.Solve(ended, c)
	require.ErrorIs(t, err, gone)
	c.MaxNumber, c.Challenge = 100, strings.Repeat("0", 64)
	_, err = gate.Solve(t.Context(), c)
	require.ErrorIs(t, err, gate.ErrNoSolution)
	for _, bad := range []string{"", "zz", strings.Repeat("0", 66), strings.Repeat("z", 64)} {
		c.Challenge = bad
		_, err = gate.Solve(t.Context(), c)
		require.ErrorIs(t, err, gate.ErrNoSolution)
	}
	_, err = k.Answer(c, noon)
	require.NoError(t, err)
	c.Salt = "x"
	_, err = k.Answer(c, noon)
	require.Error(t, err)
}

// change decodes a payload, changes a member and encodes it again.
func change(t *testing.T, payload, member string, value any) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(payload)
	require.NoError(t, err)
	members := map[string]any{}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	require.NoError(t, d.Decode(&members))
	members[member] = value
	text, err = json.Marshal(members)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(text)
}

func TestChallengeRefused(t *testing.T) {
	t.Parallel()
	k := oneKey()
	c := challenge(t, k, 1000)
	payload, err := k.Answer(c, noon)
	require.NoError(t, err)
	number := func() int64 {
		var a struct{ Number int64 }
		text, err := base64.StdEncoding.DecodeString(payload)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &a))
		return a.Number
	}()
	other := challenge(t, k, 1000)
	unknown := gate.NewKeys([]ledger.GateKey{secretKey(2, noon, time.Time{})}, life, noon)
	spoilt := gate.NewKeys([]ledger.GateKey{{ID: 1, CreatedAt: noon}}, life, noon)
	for name, x := range map[string]struct {
		keys    gate.Keys
		payload string
		bound   gate.Bound
		after   time.Duration
		want    gate.Flaw
	}{
		"sound":             {k, payload, bound(), 0, gate.Sound},
		"another user":      {k, payload, gate.Bound{User: "bob", Sale: 7}, 0, gate.ForeignUser},
		"another sale":      {k, payload, gate.Bound{User: "alice", Sale: 8}, 0, gate.ForeignSale},
		"just in time":      {k, payload, bound(), 5*time.Minute - 1, gate.Sound},
		"too late":          {k, payload, bound(), 5 * time.Minute, gate.Expired},
		"another number":    {k, change(t, payload, "number", number+1), bound(), 0, gate.Unsolved},
		"no number":         {k, change(t, payload, "number", -1), bound(), 0, gate.Malformed},
		"half a number":     {k, change(t, payload, "number", 1.5), bound(), 0, gate.Malformed},
		"number as text":    {k, change(t, payload, "number", "1"), bound(), 0, gate.Malformed},
		"huge number":       {k, change(t, payload, "number", json.Number("1e400")), bound(), 0, gate.Malformed},
		"beyond hardest":    {k, change(t, payload, "number", gate.HardestChallenge+1), bound(), 0, gate.Malformed},
		"another algorithm": {k, change(t, payload, "algorithm", "SHA-1"), bound(), 0, gate.Malformed},
		"another challenge": {k, change(t, payload, "challenge", other.Challenge), bound(), 0, gate.Forged},
		"another signature": {k, change(t, payload, "signature", other.Signature), bound(), 0, gate.Forged},
		"no signature":      {k, change(t, payload, "signature", ""), bound(), 0, gate.Forged},
		"a later end":       {k, change(t, payload, "salt", strings.Replace(c.Salt, "?expires=1", "?expires=9", 1)), bound(), 0, gate.Unsolved},
		"more parameters":   {k, change(t, payload, "salt", c.Salt+"expires=9999999999&"), bound(), 0, gate.Malformed},
		"another's salt":    {k, change(t, payload, "salt", other.Salt), bound(), 0, gate.Unsolved},
		"no salt":           {k, change(t, payload, "salt", ""), bound(), 0, gate.Malformed},
		"long salt":         {k, change(t, payload, "salt", strings.Repeat("a", 1000)), bound(), 0, gate.Malformed},
		"unknown key":       {unknown, payload, bound(), 0, gate.UnknownKey},
		"another secret":    {spoilt, payload, bound(), 0, gate.Forged},
		"retired key":       {rotated(noon), payload, bound(), 2 * life, gate.RetiredKey},
		"old key":           {rotated(noon), payload, bound(), time.Minute, gate.Sound},
		"empty":             {k, "", bound(), 0, gate.Malformed},
		"no base64":         {k, "{}", bound(), 0, gate.Malformed},
		"no JSON":           {k, "AAAA", bound(), 0, gate.Malformed},
		"long":              {k, strings.Repeat("A", 4096), bound(), 0, gate.Malformed},
		"test mode":         {k, base64.StdEncoding.EncodeToString([]byte(`{"challenge":null,"solution":null,"test":true}`)), bound(), 0, gate.Malformed},
	} {
		solved, flaw := x.keys.VerifyChallenge(x.payload, x.bound, noon.Add(x.after))
		require.Equal(t, x.want, flaw, name)
		require.Equal(t, flaw == gate.Sound, solved != gate.Solved{}, name)
	}
}

// A digit must not move between the salt and the number: the hash would stay the same
// and the challenge would end later, or be another one for the store.
func TestDigitsDoNotMoveIntoTheSalt(t *testing.T) {
	t.Parallel()
	k := oneKey()
	c := challenge(t, k, gate.HardestChallenge)
	payload, err := k.Answer(c, noon)
	require.NoError(t, err)
	var a struct{ Number int64 }
	text, err := base64.StdEncoding.DecodeString(payload)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &a))
	digits := strconv.FormatInt(a.Number, 10)
	for cut := 1; cut < len(digits); cut++ {
		rest, err := strconv.ParseInt(digits[cut:], 10, 64)
		require.NoError(t, err)
		moved := change(t, change(t, payload, "salt", c.Salt+digits[:cut]), "number", rest)
		_, flaw := k.VerifyChallenge(moved, bound(), noon)
		require.NotEqual(t, gate.Sound, flaw)
	}
	shorter := strings.TrimSuffix(c.Salt, "&")
	_, flaw := k.VerifyChallenge(change(t, payload, "salt", shorter), bound(), noon)
	require.Equal(t, gate.Malformed, flaw)
}

func TestDifficulty(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		load    float64
		strikes int
		want    int
	}{
		{0, 0, gate.EasiestChallenge},
		{0.5, 0, gate.EasiestChallenge},
		{-3, -1, gate.EasiestChallenge},
		{1, 0, 8 * gate.EasiestChallenge},
		{7, 0, 8 * gate.EasiestChallenge},
		{math.NaN(), 0, 8 * gate.EasiestChallenge},
		{math.Inf(1), 0, 8 * gate.EasiestChallenge},
		{math.Inf(-1), 0, gate.EasiestChallenge},
		{0, 3, 8 * gate.EasiestChallenge},
		{1, 3, 64 * gate.EasiestChallenge},
		{0, math.MaxInt, gate.HardestChallenge},
		{1, 100, gate.HardestChallenge},
	} {
		require.Equal(t, c.want, gate.Difficulty(c.load, c.strikes), "%+v", c)
	}
	last := 0
	for load := range 101 {
		d := gate.Difficulty(float64(load)/100, 1)
		require.GreaterOrEqual(t, d, last)
		last = d
	}
	k := oneKey()
	require.Equal(t, 1, challenge(t, k, -5).MaxNumber)
	require.Equal(t, gate.HardestChallenge, challenge(t, k, math.MaxInt).MaxNumber)
}

func FuzzChallenge(f *testing.F) {
	k := oneKey()
	c := challenge(f, k, 1000)
	payload, err := k.Answer(c, noon)
	require.NoError(f, err)
	text, err := base64.StdEncoding.DecodeString(payload)
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"algorithm":"SHA-256","salt":"` + strings.Repeat("0", 24) + `?expires=1&key=1&sale=1&user=&max=1&","number":1}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		solved, flaw := k.VerifyChallenge(base64.StdEncoding.EncodeToString(text), bound(), noon)
		if flaw != gate.Sound {
			require.Zero(t, solved)
			return
		}
		// Each process that fuzzes has its own challenge, all signed by the same key.
		require.Contains(t, string(text), solved.ID)
		require.Equal(t, 1000, solved.MaxNumber)
	})
}

func BenchmarkVerifyChallenge(b *testing.B) {
	k := oneKey()
	payload, err := k.Answer(challenge(b, k, gate.EasiestChallenge), noon)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, flaw := k.VerifyChallenge(payload, bound(), noon); flaw != gate.Sound {
			b.Fatal(flaw)
		}
	}
}
