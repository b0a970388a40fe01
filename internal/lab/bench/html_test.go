package bench_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/bench"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// pages are a sale that went well, beside a slower one; one that did not, told with
// hostile names; and a report of nothing.
func pages(t *testing.T) map[string]string {
	t.Helper()
	slower := rich()
	slower.Path, slower.Connections = "direct", 500
	for i := range slower.Pace {
		p := &slower.Pace[i]
		p.PerSecond, p.Waited.P50 = p.PerSecond*0.7, p.Waited.P50*1.6
		for j := range p.Waits {
			p.Waits[j][1] *= 1.7
		}
	}
	dir := t.TempDir()
	out := make(map[string]string)
	for name, reports := range map[string][2]*bench.Report{"rich": {rich(), slower}, "broken": {broken(), nil}, "empty": {{}, nil}} {
		var page bytes.Buffer
		require.NoError(t, bench.WriteHTMLCompared(&page, reports[0], reports[1]))
		out[name] = filepath.Join(dir, name+".html")
		require.NoError(t, os.WriteFile(out[name], page.Bytes(), 0o600))
	}
	return out
}

// opened looks at the page of a report that a run has made, beside an older one if
// there is one, and returns what a person can read there.
func opened(t *testing.T, r, old *bench.Report) (text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	var page bytes.Buffer
	require.NoError(t, bench.WriteHTMLCompared(&page, r, old))
	require.NoError(t, os.WriteFile(path, page.Bytes(), 0o600))
	browser := testenv.Chromium(t)
	for _, v := range testenv.Views() {
		tab := browser.Report(t, path, v)
		if text == "" {
			text = readable(tab)
			assert.NotZero(t, testenv.Ask[int](tab, `document.querySelectorAll("svg path").length`), "no curve")
			assert.Zero(t, testenv.Ask[int](tab, `document.querySelectorAll(".nothing").length`), "charts without data")
		}
	}
	return text
}

func readable(tab *testenv.Tab) string {
	return testenv.Ask[string](tab, `document.body.innerText.replaceAll("\u00a0", " ")`)
}

func TestHTMLInABrowser(t *testing.T) {
	t.Parallel()
	browser := testenv.Chromium(t)
	for name, path := range pages(t) {
		for _, v := range testenv.Views() {
			t.Run(fmt.Sprintf("%s, %d wide, dark %t", name, v.Width, v.Dark), func(t *testing.T) {
				t.Parallel()
				tab := browser.Report(t, path, v)
				if name == "rich" {
					assert.Zero(t, testenv.Ask[int](tab, `document.querySelectorAll(".nothing").length`), "charts without data")
				}
			})
		}
	}
}

func TestHTMLOfAPass(t *testing.T) {
	t.Parallel()
	text := pageText(t, rich())
	for _, words := range []string{
		"Pass: 1,000 of 1,000 units sold, none oversold", "the audit found no promise broken",
		"--spread 1s", "52,871", "redis at 1.2 s: rewrites its append-only file", "P8.chain",
	} {
		assert.Contains(t, text, words)
	}
	assert.NotContains(t, text, "broken 1")
	assert.NotContains(t, text, "No audit was asked for")
}

func TestHTMLOfAFailure(t *testing.T) {
	t.Parallel()
	text := pageText(t, broken())
	for _, words := range []string{
		"Fail: 1,000 of 1,000 units sold, 17 oversold", "17 units were sold that did not exist",
		"P1 no more units were promised than there are: broken 17 times",
		`order <img src=x onerror=alert(1)> of "buyer" & co`, `<script>alert("sale")</script>`,
		"the crowd itself was late", "No audit was asked for",
	} {
		assert.Contains(t, text, words)
	}
}

// pageText is what a person can read of a report's page.
func pageText(t *testing.T, r *bench.Report) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	var page bytes.Buffer
	require.NoError(t, bench.WriteHTML(&page, r))
	require.NoError(t, os.WriteFile(path, page.Bytes(), 0o600))
	return readable(testenv.Chromium(t).Open("file://"+path, testenv.View{}))
}
