package testenv_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

func TestChromiumHearsComplaintsAndRequests(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><title>t</title><link rel="icon" href="data:,"><img src="/missing.png">
			<script>console.error("no", 7); console.log("fine"); throw new Error("thrown")</script>`))
	}))
	t.Cleanup(server.Close)

	tab := testenv.Chromium(t).Open(server.URL+"/", testenv.View{})
	assert.Equal(t, []string{server.URL + "/", server.URL + "/missing.png"}, tab.Requests())
	complaints := tab.Complaints()
	if assert.Len(t, complaints, 3) {
		assert.Contains(t, complaints, `console: "no" 7`)
		assert.Contains(t, complaints[0]+complaints[1]+complaints[2], "Error: thrown")
		assert.Contains(t, complaints[0]+complaints[1]+complaints[2], "/missing.png")
	}
}

func TestChromiumLooksAsItIsTold(t *testing.T) {
	t.Parallel()
	browser := testenv.Chromium(t)
	const look = `[innerWidth, matchMedia("(prefers-color-scheme: dark)").matches, matchMedia("(pointer: coarse)").matches, matchMedia("print").matches]`
	page := "data:text/html,<meta name=viewport content=width=device-width>"
	assert.Equal(t, []any{1280.0, false, false, false}, testenv.Ask[[]any](browser.Open(page, testenv.View{}), look))
	phone := browser.Open(page, testenv.View{Width: 390, Height: 844, Phone: true, Dark: true})
	assert.Equal(t, []any{390.0, true, true, false}, testenv.Ask[[]any](phone, look))
	assert.Equal(t, []any{703.0, false, false, true}, testenv.Ask[[]any](browser.Open(page, testenv.View{Width: 703, Paper: true}), look))
	assert.Empty(t, phone.Complaints())
	assert.NotEmpty(t, phone.Picture())
}

func TestChromiumSeesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	browser := testenv.Chromium(t)
	const start = `data:text/html;charset=utf-8,<!doctype html><meta name=viewport content=width=device-width><body>`
	for name, c := range map[string]struct{ page, misfit string }{
		"in order":     {page: `<p>words</p><figure><b>Chart</b><svg role=img width=300 height=80><title>T</title><text x=10 y=20>one</text><text x=90 y=20>two</text></svg></figure>`},
		"too wide":     {page: `<pre style="width:2000px">words</pre>`, misfit: "the page is 20"},
		"no size":      {page: `<svg role=img width=300 height=8><title>Flat</title></svg>`, misfit: `the chart title “Flat” is 300 by 8`},
		"out of frame": {page: `<figure><b>Chart</b><svg style="overflow:visible" width=300 height=80><text x=10 y=200>low</text></svg></figure>`, misfit: `text “low” sticks out of b “Chart”`},
		"overlap":      {page: `<figure><b>Chart</b><svg width=300 height=80><text x=10 y=20>one</text><text x=20 y=20>two</text></svg></figure>`, misfit: `text “one” lies on text “two” in b “Chart”`},
		"narrow cell":  {page: `<p style="width:40px;white-space:nowrap">many words here</p>`, misfit: `p “many words here” is too wide for its place`},
		"pale":         {page: `<p style="color:rgb(200,200,200)">pale</p>`, misfit: `p “pale” has a contrast of 1.67`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			misfits := browser.Open(start+c.page, testenv.View{Width: 800}).Misfits()
			if c.misfit == "" {
				assert.Empty(t, misfits)
			} else if assert.Len(t, misfits, 1) {
				assert.Contains(t, misfits[0], c.misfit)
			}
		})
	}
}
