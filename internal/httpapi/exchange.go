package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	headerKey         = "Idempotency-Key"
	headerPass        = "Doorbuster-Pass"
	headerReplayed    = "Idempotency-Replayed"
	headerReceipt     = "Doorbuster-Receipt"
	headerOutstanding = "Doorbuster-Outstanding"
	headerTime        = "Doorbuster-Time"
	headerRequestID   = "X-Request-Id"
	headerDevice      = gate.DeviceHeader
)

// exchange is one request with its answer. It is used again for other requests,
// so nothing may keep it.
type exchange struct {
	api   *API
	route *route
	w     http.ResponseWriter
	r     *http.Request
	who   *auth.Principal // nobody on public routes
	body  []byte          // read whole before anything else happens
	id    string          // names the request in answers and logs
	begun time.Time

	guest   guest  // what the gate knows of the request
	inside  *class // whose place is taken; nil when it is given back
	status  int    // of the answer; 0 before it
	cause   error  // what made the answer a problem; for the log
	attempt client.Attempt
	timing  []byte
}

// keepBody bounds the buffers that are kept for further requests.
const keepBody = 32 << 10

func (a *API) begin(rt *route, w http.ResponseWriter, r *http.Request) *exchange {
	x, _ := a.exchanges.Get().(*exchange)
	if x == nil {
		x = &exchange{api: a}
	}
	x.route, x.w, x.r, x.begun = rt, w, r, time.Now()
	x.id = a.requestID(r)
	h := w.Header()
	h["X-Content-Type-Options"] = a.fixed.nosniff
	h["Content-Security-Policy"] = a.fixed.csp
	h["Cache-Control"] = a.fixed.noStore
	h[headerRequestID] = []string{x.id}
	a.cors.allow(h, r)
	return x
}

// handler returns what serves a route.
func (a *API) handler(rt *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		x := a.begin(rt, w, r)
		defer a.end(ctx, x)
		if err := x.run(ctx); err != nil {
			x.fail(err)
		}
	}
}

// run takes a request through its stages: arrival, body, place, caller, handler. The
// body comes before the place, so that a slow sender occupies nobody's.
func (x *exchange) run(ctx context.Context) error { //nolint:contextcheck // deadline inherits from ctx
	if err := x.arrive(ctx); err != nil {
		return err
	}
	if err := x.readBody(); err != nil {
		return err
	}
	if g := x.route.class; g != nil {
		limited := withDeadline(ctx, x.begun.Add(x.api.opts.Timeout))
		defer limited.stop()
		ctx = limited
		if err := g.enter(ctx); err != nil {
			return err
		}
		x.inside = g
		defer x.leave()
	}
	if err := x.identified(ctx, x.authenticate(ctx)); err != nil {
		return err
	}
	return x.route.handle(ctx, x)
}

// leave gives the place in the request's class back, once.
func (x *exchange) leave() {
	if x.inside != nil {
		x.inside.leave()
		x.inside = nil
	}
}

// end recovers from a panic, counts, logs and lets the exchange go.
func (a *API) end(ctx context.Context, x *exchange) {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		a.metrics.Panics.Inc()
		a.log.LogAttrs(ctx, slog.LevelError, "a handler panicked",
			slog.Any("panic", p), slog.String("request", x.id), slog.String("operation", x.route.operation), slog.String("stack", string(debug.Stack())))
		if x.status != 0 {
			panic(http.ErrAbortHandler) // the answer is spoilt: cut the connection
		}
		x.fail(errPanicked)
	}
	took := time.Since(x.begun)
	x.route.counted.Answered(x.status)
	if g := x.route.class; g != nil {
		g.counted.Seconds.Observe(took.Seconds())
	}
	a.logAnswer(ctx, x, took)
	if cap(x.body) > keepBody {
		x.body = nil
	}
	*x = exchange{api: a, body: x.body[:0], timing: x.timing[:0]}
	a.exchanges.Put(x)
}

var errPanicked = errors.New("httpapi: a handler panicked")

// logAnswer logs trouble always, and everything where the level is debug.
func (a *API) logAnswer(ctx context.Context, x *exchange, took time.Duration) {
	level := slog.LevelDebug
	switch {
	case x.status < http.StatusInternalServerError, sale.CodeOf(x.cause) == sale.CodeBusy, errors.Is(x.cause, context.Canceled):
	case x.status == http.StatusInternalServerError:
		level = slog.LevelError // a fault of the program, of which every line counts
	default:
		level = slog.LevelWarn
	}
	if !a.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", x.id), slog.String("operation", x.route.operation), slog.String("path", x.r.URL.Path),
		slog.Int("status", x.status), slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.String("client", a.clientIP(x.r).String()),
	}
	if x.who != nil && x.who.KeyID != "" {
		attrs = append(attrs, slog.String("key", x.who.KeyID))
	}
	if x.attempt.ClientIP != "" {
		attrs = append(attrs, slog.String("buyer_ip", x.attempt.ClientIP))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.String("cause", x.cause.Error()))
	}
	a.log.LogAttrs(ctx, level, "answered", attrs...)
}

// reply answers. It is called once for each exchange; body must not change
// afterwards.
func (x *exchange) reply(status int, kind string, body []byte) {
	x.status = status
	h := x.w.Header()
	switch kind {
	case typeJSON:
		h["Content-Type"] = x.api.fixed.json
	case typeProblem:
		h["Content-Type"] = x.api.fixed.problem
	default:
		h["Content-Type"] = []string{kind}
	}
	if len(body) > sniffLen { // below it net/http counts by itself
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // a reader who has gone finds the outcome by repeating
}

// sniffLen is below the size up to which net/http fills in Content-Length.
const sniffLen = 1024

// empty answers without a body.
func (x *exchange) empty(status int) {
	x.status = status
	x.w.WriteHeader(status)
}

// readBody reads the body of routes that take one, whole and bounded.
func (x *exchange) readBody() error {
	limit := x.route.body
	if limit == 0 {
		return nil
	}
	if x.r.ContentLength > limit {
		return x.tooLarge()
	}
	if cap(x.body) == 0 {
		x.body = make([]byte, 0, bytesAtFirst)
	}
	for {
		n, err := x.r.Body.Read(x.body[len(x.body):cap(x.body)])
		x.body = x.body[:len(x.body)+n]
		switch {
		case int64(len(x.body)) > limit:
			return x.tooLarge()
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			x.w.Header()["Connection"] = []string{"close"}
			return &sale.Error{Code: codeTimeout, Message: "the body did not arrive in time", Hint: "repeat the request with the same Idempotency-Key"}
		case err != nil:
			x.w.Header()["Connection"] = []string{"close"}
			return &sale.Error{Code: codeMalformed, Message: "the body cannot be read", Hint: "", Err: err}
		}
		if len(x.body) == cap(x.body) {
			x.body = append(x.body, 0)[:len(x.body)]
		}
	}
}

const bytesAtFirst = 1024

func (x *exchange) tooLarge() error {
	x.w.Header()["Connection"] = []string{"close"}
	return &sale.Error{Code: codeTooLarge, Message: "the body is too large", Hint: "send at most " + strconv.FormatInt(x.route.body, 10) + " bytes"}
}

// requestID takes the caller's id over if it is harmless, else makes one that is
// unique in this process and, by its random beginning, elsewhere.
func (a *API) requestID(r *http.Request) string {
	if given := r.Header[headerRequestID]; len(given) == 1 && plainID(given[0]) {
		return given[0]
	}
	var text [24]byte
	id := append(text[:0], a.idPrefix...)
	return string(strconv.AppendUint(id, a.lastID.Add(1), 36))
}

func plainID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isDigit(c) && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
