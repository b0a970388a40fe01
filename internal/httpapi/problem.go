package httpapi

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeEvents  = "text/event-stream"
)

// problemOf turns a coded error into what a client may see: message and hint,
// never the cause.
func problemOf(e *sale.Error) client.Problem {
	status := statusOf(e.Code)
	return client.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Code: string(e.Code), Detail: e.Message, Hint: e.Hint, Field: e.Field,
	}
}

// coded returns err as a coded error. What has no code is infrastructure
// trouble; its text stays inside.
func coded(err error) *sale.Error {
	if e, ok := errors.AsType[*sale.Error](err); ok {
		return e
	}
	return sale.Unavailable(err)
}

// fail answers with the problem that err stands for.
func (x *exchange) fail(err error) {
	e := coded(err)
	x.cause = err
	p := problemOf(e)
	switch p.Status {
	case http.StatusUnauthorized:
		x.api.metrics.Unauthorized.Inc()
		x.w.Header()["Www-Authenticate"] = x.api.challenge
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		x.w.Header()["Retry-After"] = x.api.retry.draw()
	}
	if r, ok := errors.AsType[*gate.RefusalError](err); ok {
		x.refusedAtGate(&p, r)
	}
	x.problem(p)
}

// problem answers with a problem that may carry members of its own.
func (x *exchange) problem(p client.Problem) { x.reply(p.Status, typeProblem, render(p)) }

// retryTimes are the values of Retry-After for passing trouble. Jitter spreads
// those who come back over some seconds.
type retryTimes [][]string

func newRetryTimes() retryTimes { return retryTimes{{"1"}, {"2"}, {"3"}} }

func (r retryTimes) draw() []string { return r[rand.IntN(len(r))] } //nolint:gosec // spreads load, guards nothing

// seconds returns a duration in whole seconds, rounded up, at least 1.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}
