package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// cors lets pages of the configured origins call the API from a browser. Callers
// prove themselves by the Authorization header and never by cookies, so
// credentials mode is not offered.
type cors struct {
	origins map[string][]string // the value of Access-Control-Allow-Origin by origin
	any     []string            // that value for every other origin; nil if they are not allowed
	vary    []string
	expose  []string
	headers []string
	maxAge  []string
}

func newCORS(origins []string) (*cors, error) {
	c := &cors{
		origins: make(map[string][]string, len(origins)),
		vary:    []string{"Origin"},
		expose: []string{strings.Join([]string{
			"Etag", "Location", "Retry-After", headerTime, headerReplayed, headerReceipt, headerOutstanding, "Preference-Applied", "Server-Timing", headerRequestID,
			headerDevice, "RateLimit", "RateLimit-Policy",
		}, ", ")},
		headers: []string{strings.Join([]string{
			"Authorization", "Content-Type", headerKey, headerPass, headerDevice, headerReceipt, "If-Match", "If-None-Match", "Last-Event-ID", "Prefer", headerRequestID,
		}, ", ")},
		maxAge: []string{"600"},
	}
	for _, origin := range origins {
		if origin == "*" {
			c.any = []string{"*"}
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			return nil, fmt.Errorf("httpapi: the CORS origin %q is not of the form https://host[:port]", origin)
		}
		c.origins[origin] = []string{origin}
	}
	return c, nil
}

// allow adds what a browser needs to show the answer to a page of an allowed
// origin. Caches must keep answers apart by origin.
func (c *cors) allow(h http.Header, r *http.Request) bool {
	if len(c.origins) == 0 && c.any == nil {
		return false
	}
	h["Vary"] = c.vary
	origin := r.Header["Origin"]
	if len(origin) != 1 {
		return false
	}
	value, ok := c.origins[origin[0]]
	if !ok {
		value = c.any
	}
	if value == nil {
		return false
	}
	h["Access-Control-Allow-Origin"] = value
	h["Access-Control-Expose-Headers"] = c.expose
	return true
}

// preflight answers whether a page may send a request with these methods. To
// other origins it says nothing, which is a no.
func (c *cors) preflight(w http.ResponseWriter, r *http.Request, methods []string) {
	h := w.Header()
	h["Allow"] = []string{strings.Join(append(slices.Clone(methods), http.MethodOptions), ", ")}
	if c.allow(h, r) && r.Header.Get("Access-Control-Request-Method") != "" {
		h["Access-Control-Allow-Methods"] = []string{strings.Join(methods, ", ")}
		h["Access-Control-Allow-Headers"] = c.headers
		h["Access-Control-Max-Age"] = c.maxAge
	}
	w.WriteHeader(http.StatusNoContent)
}
