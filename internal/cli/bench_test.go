package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/bench"
	"github.com/doorbuster/doorbuster/internal/lab/bench/benchtest"
)

// TestBenchOfALiar: whoever sells one unit too many is found out, and the exit code
// says so.
func TestBenchOfALiar(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "jwt.key")
	require.NoError(t, os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600))
	out := filepath.Join(dir, "out.json")
	environ := []string{"DOORBUSTER_API_KEY=dbk_secret"}
	for lie, want := range map[benchtest.Lie]int{benchtest.Honest: ExitOK, benchtest.Oversells: ExitBroken, benchtest.Blames: ExitFailure} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			code, text, errs := invoke(t, environ, "bench", benchtest.Serve(t, lie).URL, "--jwt-key", secret, "--stock", "10", "--buyers", "40", "--spread", "100ms", "--in", "1200ms")
			require.Equal(t, want, code, "%s\n%s", text, errs)
			switch want {
			case ExitOK:
				require.Contains(t, text, "PASS: 10 of 10 units sold")
				require.Empty(t, errs)
			case ExitBroken:
				require.Contains(t, text, "P1 is broken, for one: orders hold 11 units of unit; there are 10")
				require.Contains(t, text, "FAIL: 11 of 10 units sold")
				require.Contains(t, errs, "a promise is broken")
			default:
				require.Contains(t, text, "UNPROVED")
				require.Contains(t, errs, "no buyer got an answer")
			}
		})
	}
	// The report goes to standard output as it goes to a file.
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		code, text, _ := invoke(t, environ, "bench", "--url", benchtest.Serve(t, benchtest.Oversells).URL, "--jwt-key", secret, "--stock", "5", "--buyers", "20", "--in", "1200ms", "--spread", "1ms", "--out", out, "--json")
		require.Equal(t, ExitBroken, code)
		var r bench.Report
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		require.False(t, r.Pass)
		require.EqualValues(t, 1, r.Sold.Oversold)
		require.Contains(t, r.Command, "--stock 5")
		require.NotContains(t, text, "dbk_")
		file, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, text, string(file))
	})
}

// TestBenchOfFilesThatCannotBe: a path that cannot be written is told of before anybody
// comes; one that cannot be written any more in the end costs no report, and hides no
// broken promise.
func TestBenchOfFilesThatCannotBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "jwt.key")
	require.NoError(t, os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600))
	environ := []string{"DOORBUSTER_API_KEY=dbk_secret"}
	for _, flag := range []string{"--out", "--html"} {
		shop := benchtest.Serve(t, benchtest.Honest)
		code, text, errs := invoke(t, environ, "bench", shop.URL, "--jwt-key", secret, flag, filepath.Join(dir, "none", "file"))
		assert.Equal(t, ExitUsage, code)
		assert.Empty(t, text)
		assert.Contains(t, errs, "no such file or directory")
		assert.Zero(t, shop.Orders())
	}
	for lie, want := range map[benchtest.Lie]int{benchtest.Honest: ExitFailure, benchtest.Oversells: ExitBroken} {
		// A folder in the place of the file lets it be made beside it, and not be moved there.
		code, text, errs := invoke(t, environ, "bench", benchtest.Serve(t, lie).URL, "--jwt-key", secret, "--stock", "10", "--buyers", "40",
			"--spread", "100ms", "--in", "1200ms", "--out", dir)
		assert.Equal(t, want, code, errs)
		assert.Contains(t, text, " of 10 units sold")
		assert.Contains(t, errs, dir)
		assert.Equal(t, want == ExitBroken, strings.Contains(errs, "a promise is broken"))
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*"))
	require.NoError(t, err)
	assert.Empty(t, left, "what was not written is removed")
}

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	tokens, short, broken := write("tokens", "ann\ta\nben\tb\n"), write("short", "short"), write("broken.json", "{}")
	local := []string{"DOORBUSTER_API_KEY=k", "DOORBUSTER_URL=http://127.0.0.1:1"}
	away := []string{"DOORBUSTER_API_KEY=k", "DOORBUSTER_URL=https://shop.example"}
	for _, c := range []struct {
		environ []string
		args    string
		code    int
		says    string
	}{
		{away, "", ExitUsage, "nothing says how to make their tokens"},
		{local, "--data-dir " + dir, ExitUsage, "there is no key to sign tokens with"},
		{away[1:], "--tokens " + tokens, ExitUsage, "there is no API key"},
		{local, "--tokens " + tokens + " --buyers 3", ExitUsage, "has 2 tokens for 3 buyers"},
		{local, "--tokens " + broken + " --jwt-key x", ExitUsage, "both say who the buyers are"},
		{local, "--tokens " + dir + "/none", ExitFailure, "no such file"},
		{local, "--tokens " + write("bad", "a b\n"), ExitUsage, "line 1: a token is visible ASCII"},
		{local, "--jwt-key " + short, ExitFailure, "fewer than 32 bytes"},
		{local, "--stock 0", ExitUsage, "a sale needs units"},
		{local, "--hold 1500ms", ExitUsage, "--hold"},
		{local, "--in 10ms", ExitUsage, "--in"},
		{local, "--timeout 0s", ExitUsage, "--timeout"},
		{local, "--rate 5 --from 3", ExitUsage, "--rate says the same"},
		{local, "--profile riot", ExitUsage, "--profile"},
		{local, "--path slow", ExitUsage, "--path"},
		{local, "--pay 2 --tokens " + tokens, ExitUsage, "the shares that pay and cancel"},
		{local, "--tokens " + tokens + " --compare " + broken, ExitUsage, "no report of doorbuster bench"},
		{local, "--tokens " + tokens + " --compare " + dir + "/none", ExitFailure, "no such file"},
		{local, "--tokens " + tokens, ExitUnreachable, "http://127.0.0.1:1: the server cannot be reached"},
		{local, "http://127.0.0.1:1?x=y --tokens " + tokens, ExitUsage, "query"},
	} {
		code, out, errs := invoke(t, c.environ, append([]string{"bench"}, strings.Fields(c.args)...)...)
		assert.Equal(t, c.code, code, "%s: %s", c.args, errs)
		assert.Contains(t, errs, c.says)
		assert.Empty(t, out)
	}
}

func TestBenchHelpNamesTheProfiles(t *testing.T) {
	t.Parallel()
	code, out, _ := invoke(t, nil, "bench", "--help")
	require.Equal(t, ExitOK, code)
	for _, p := range bench.Presets() {
		require.Contains(t, out, p.Name+" ")
	}
}

func TestBenchCrowd(t *testing.T) {
	t.Parallel()
	some, rate, spread := 7, 50.0, 3*time.Second
	var o bench.Options
	(&benchCmd{benchCrowd: benchCrowd{Profile: "shop", Buyers: &some}}).crowd(&o)
	assert.Equal(t, "shop", o.Name)
	assert.Equal(t, 7, o.Profile.Buyers)
	assert.InDelta(t, 0.8, o.Conduct.Pay, 1e-9, "what no flag names is the profile's")

	// A rate takes a pulse apart, and a spread a rate.
	(&benchCmd{benchCrowd: benchCrowd{Profile: "pulse", Rate: &rate}}).crowd(&o)
	assert.Zero(t, o.Profile.Spread)
	assert.InDelta(t, 50, o.Profile.From, 1e-9)
	assert.InDelta(t, 50, o.Profile.To, 1e-9)
	assert.Equal(t, 10*time.Second, o.Profile.Length)
	(&benchCmd{benchCrowd: benchCrowd{Profile: "ramp", Spread: &spread}}).crowd(&o)
	assert.Zero(t, o.Profile.To)
	assert.Equal(t, spread, o.Profile.Spread)
	share := 0.5
	(&benchCmd{benchCrowd: benchCrowd{Profile: "pulse", Bots: &share}}).crowd(&o)
	assert.Equal(t, 10, o.Profile.BotClicks)
}

func TestCommandsKeepNoSecrets(t *testing.T) {
	t.Parallel()
	s := &session{args: strings.Fields("bench http://a:81/x --redis redis://:pass@h:1/0 --postgres=postgres://u:pass@h/d?password=pass --set auth.jwt.secret=pass --set=redis.url=pass --buyers=5 --key-file f")}
	assert.Equal(t, "bench http://a:81/x --redis redis://:xxxxx@h:1/0 --postgres=postgres://u:xxxxx@h/d?… --set auth.jwt.secret=… --set=redis.url=… --buyers=5 --key-file f", s.command())
}
