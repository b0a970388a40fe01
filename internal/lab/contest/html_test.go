package contest_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/contest"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

func TestHTMLInABrowser(t *testing.T) {
	t.Parallel()
	browser := testenv.Chromium(t)
	for name, r := range map[string]*contest.Report{"rich": rich(), "broken": broken(), "empty": {}} {
		path := pageOf(t, r)
		for _, v := range testenv.Views() {
			t.Run(fmt.Sprintf("%s, %d wide, dark %t", name, v.Width, v.Dark), func(t *testing.T) {
				t.Parallel()
				browser.Report(t, path, v)
			})
		}
	}
}

func TestHTMLTellsAccidents(t *testing.T) {
	t.Parallel()
	tab := testenv.Chromium(t).Open("file://"+pageOf(t, rich()), testenv.View{})
	text := testenv.Ask[string](tab, `document.body.innerText.replaceAll("\u00a0", " ")`)
	for _, words := range []string{
		"100 units, 5,000 buyers, 200 ms", "“Read, check, write” sold 712 units that did not exist",
		"Pass: Doorbuster sold exactly 100 units", "8 of 14 ways to sell had an accident",
		"seen 712 oversold, 96 duplicates", "Redis 7.0.15",
	} {
		assert.Contains(t, text, words)
	}
	// An accident is told by a word, not by its colour alone.
	marked := testenv.Ask[[]string](tab, `[...document.querySelectorAll(".contest td .broken small")].map((e) => e.textContent)`)
	assert.Equal(t, []string{
		"oversold", "duplicates", "oversold", "duplicates", "oversold", "duplicates", "undersold", "oversold", "undersold", "undersold", "lost",
	}, marked)
	ours := testenv.Ask[[]string](tab, `[...document.querySelectorAll(".contest .ours tr:not(.group) th")].map((e) => e.firstChild.textContent.trim())`)
	assert.Equal(t, []string{"Doorbuster, one machine", "Doorbuster, two servers, Redis and PostgreSQL"}, ours)
}

func TestHTMLOfAFailure(t *testing.T) {
	t.Parallel()
	tab := testenv.Chromium(t).Open("file://"+pageOf(t, broken()), testenv.View{})
	text := testenv.Ask[string](tab, `document.body.innerText.replaceAll("\u00a0", " ")`)
	for _, words := range []string{
		"Fail: not everything came as it must", "expected to be clean, seen 3 oversold", "not expected",
		"Not shown: fair_lock, lua.", "Cut off: doorbuster_last.", "at its 20th lock; it did not happen.", "seen nothing, since the fault did not happen", "did not run: <b>no luck</b>", "in /tmp/doorbuster-lab", `The log says <script>alert("note")</script>.`, `<img src=x onerror=alert(1)> & "quotes"`,
	} {
		assert.Contains(t, text, words)
	}
}

func pageOf(t *testing.T, r *contest.Report) string {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, contest.WriteHTML(&page, r))
	path := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(path, page.Bytes(), 0o600))
	return path
}
