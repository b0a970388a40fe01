package httpapi

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Ops returns the handler of the ops listener: /healthz says that the process
// answers, /readyz whether it can sell, /metrics and /debug/pprof what it does.
func (a *API) Ops() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { health(w, http.StatusOK, "ok", "") })
	mux.HandleFunc("GET /readyz", a.readyz)
	guarded := func(pattern string, h http.Handler) { mux.Handle(pattern, a.guard(h)) }
	guarded("GET /metrics", promhttp.HandlerFor(a.gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelError),
	}))
	guarded("GET /debug/pprof/", http.HandlerFunc(pprof.Index))
	guarded("GET /debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline))
	guarded("GET /debug/pprof/profile", http.HandlerFunc(pprof.Profile))
	guarded("GET /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	guarded("GET /debug/pprof/trace", http.HandlerFunc(pprof.Trace))
	return mux
}

func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	if err := a.ready(r.Context()); err != nil {
		cause := err.Error()
		if a.opts.OpsKeys { // anybody may ask here: the cause, which may name files, goes to the log
			a.log.LogAttrs(r.Context(), slog.LevelWarn, "not ready", slog.Any("error", err))
			cause = ""
		}
		health(w, http.StatusServiceUnavailable, "not ready", cause)
		return
	}
	health(w, http.StatusOK, "ready", "")
}

// health answers a check, naming the cause where the listener is private.
func health(w http.ResponseWriter, status int, text, cause string) {
	body, err := json.Marshal(struct {
		Status string `json:"status"`
		Cause  string `json:"cause,omitempty"`
	}{text, cause})
	if err != nil {
		panic(err) // two strings are always JSON
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// guard asks for an API key with scope ops where the listener is not private.
func (a *API) guard(next http.Handler) http.Handler {
	if !a.opts.OpsKeys {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := a.auth.Authenticate(r.Context(), r.Header["Authorization"])
		if err == nil && !who.Has(auth.ScopeOps) {
			err = auth.Forbidden("this needs an API key with scope ops")
		}
		if err != nil {
			if sale.CodeOf(err) == sale.CodeUnauthenticated {
				w.Header()["Www-Authenticate"] = a.challenge
			}
			health(w, statusOf(sale.CodeOf(err)), string(sale.CodeOf(err)), "")
			return
		}
		next.ServeHTTP(w, r)
	})
}
