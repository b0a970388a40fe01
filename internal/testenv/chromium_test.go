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
	const look = `[innerWidth, matchMedia("(prefers-color-scheme: dark)").matches, matchMedia("(pointer: coarse)").matches]`
	page := "data:text/html,<meta name=viewport content=width=device-width>"
	assert.Equal(t, []any{1280.0, false, false}, testenv.Ask[[]any](browser.Open(page, testenv.View{}), look))
	phone := browser.Open(page, testenv.View{Width: 390, Height: 844, Phone: true, Dark: true})
	assert.Equal(t, []any{390.0, true, true}, testenv.Ask[[]any](phone, look))
	assert.Empty(t, phone.Complaints())
	assert.NotEmpty(t, phone.Picture())
}
