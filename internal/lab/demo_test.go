package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

// small is a demo that ends in a few seconds on a busy machine.
func small(t *testing.T) DemoOptions {
	t.Helper()
	return DemoOptions{
		Buyers: 400, Stock: 30, Seed: 11, Hold: time.Second, Timeout: time.Minute,
		Binary: testenv.Binary(t), Dir: t.TempDir(), JSON: true,
	}
}

func TestDemoSellsEveryUnitAndProvesIt(t *testing.T) {
	t.Parallel()
	o := small(t)
	var out bytes.Buffer
	report, err := Demo(t.Context(), o, &out)
	require.NoError(t, err, out.String())

	var printed DemoReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &printed))
	require.Equal(t, int64(30), report.Units.Paid)
	require.Zero(t, report.Units.Oversold+report.Units.LeftOver)
	require.Equal(t, report.Units, printed.Units)
	require.Equal(t, uint64(11), printed.Seed)
	require.Len(t, printed.Audit.Sales, 1)
	require.Equal(t, int64(30), printed.Audit.Sales[0].Figures.Paid)
	require.False(t, printed.Broken())
	require.Positive(t, report.Accepted.PerSecond)
	require.Positive(t, report.Refused.PerSecond)
	verdicts := make(map[string]int64)
	for _, a := range report.Attempts {
		verdicts[a.Verdict] = a.AtDoor + a.Later
	}
	require.Positive(t, verdicts["taken"])
	require.Positive(t, verdicts["sold_out"])
	for _, never := range []string{"unanswered", "unavailable"} {
		require.Zero(t, verdicts[never], never)
	}
	requireEmpty(t, o.Dir)
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the temporary folder is removed")
}

func TestDemoWithMoreStockThanBuyersSellsAll(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Buyers, o.Stock, o.JSON = 5, 40, false
	var out bytes.Buffer
	_, err := Demo(t.Context(), o, &out)
	require.NoError(t, err, out.String())
	require.Contains(t, out.String(), "  40  of 40 units paid, 0 oversold, 0 left over\n")
}

func TestDemoKeepsServingUntilItIsStopped(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Keep, o.JSON = true, false
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := Demo(ctx, o, writer)
		ended <- err
		_ = writer.Close()
	}()
	var text strings.Builder
	for buf := make([]byte, 1<<16); !strings.Contains(text.String(), "curl"); {
		n, err := reader.Read(buf)
		text.Write(buf[:n])
		require.NoError(t, err, text.String())
	}
	_, rest, _ := strings.Cut(text.String(), "curl ")
	resp, err := http.Get(strings.TrimSpace(rest)) //nolint:noctx // the server runs until cancel
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	require.Contains(t, string(body), `"status":"live"`)
	cancel()
	require.NoError(t, <-ended)
	kept, err := filepath.Glob(filepath.Join(o.Dir, "*", "doorbuster.db"))
	require.NoError(t, err)
	require.Len(t, kept, 1, "the folder stays")
}

func TestDemoThatRunsOutOfTimeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	o := small(t)
	// Holds outlast the time, so forgotten units cannot come back within it.
	o.Hold, o.Timeout = time.Hour, 15*time.Second
	_, err := Demo(t.Context(), o, io.Discard)
	require.ErrorIs(t, err, errLate)
	require.ErrorContains(t, err, "of 30 units are paid")
	require.ErrorContains(t, err, "400 of 400 buyers at the door have an answer (seed 11)")
	requireEmpty(t, o.Dir)
}

func TestDemoThatIsInterruptedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	o := small(t)
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }) // in the middle of the rush
	o.Buyers = 20_000
	_, err := Demo(ctx, o, io.Discard)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "log")
	requireEmpty(t, o.Dir)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestDemoWithABrokenPromiseFailsAndKeepsTheLedger(t *testing.T) {
	t.Parallel()
	o := small(t)
	// The real server, but an audit that finds something.
	o.Binary = script(t, `case "$1" in
audit) echo '{"sales":[{"sale":"demo","rules":[{"rule":"P1.rows","broken":1}]}]}'; exit 3;;
*) exec `+o.Binary+` "$@";;
esac`)
	_, err := Demo(t.Context(), o, io.Discard)
	require.ErrorIs(t, err, ErrBroken)
	kept, globErr := filepath.Glob(filepath.Join(o.Dir, "*", "doorbuster.db"))
	require.NoError(t, globErr)
	require.Len(t, kept, 1)
	require.ErrorContains(t, err, filepath.Dir(kept[0]), "it says where the ledger stays")
}

func TestDemoWhoseServerDiesSaysSo(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Hold, o.Timeout = time.Hour, 30*time.Second // it cannot end before the server does
	lightning := filepath.Join(t.TempDir(), "lightning")
	o.Binary = script(t, `case "$1" in
serve) `+o.Binary+` "$@" & while [ ! -e `+lightning+` ]; do sleep 0.05; done; kill -9 $!; echo struck by lightning >&2; exit 9;;
esac`)
	o.Progress = writerFunc(func(p []byte) (int, error) {
		if !bytes.Contains(p, []byte("units paid")) { // the door has been opened, the end is an hour away
			return len(p), nil
		}
		return len(p), os.WriteFile(lightning, nil, 0o600)
	})
	_, err := Demo(t.Context(), o, io.Discard)
	require.ErrorContains(t, err, "the server has ended in the middle of the sale")
	require.ErrorContains(t, err, "struck by lightning")
	requireEmpty(t, o.Dir)
}
