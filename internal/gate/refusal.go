package gate

import (
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
)

// RefusalError is why the gate does not let an attempt through. It is a *sale.Error for
// errors.As, with a code of the gate's.
type RefusalError struct {
	Err *sale.Error
	// Layer is what was against it: the name of a limit, list, pass or challenge.
	Layer string
	// RetryAfter is when it may succeed; zero is unknown.
	RetryAfter time.Duration
	// Rate and State are the limit that was used up and how it stands; only for
	// CodeRateLimited.
	Rate  limit.Rate
	State limit.State
	// Challenge is what to solve; only for CodeChallengeRequired, unless a captcha is
	// to be solved.
	Challenge *Challenge
}

func (r *RefusalError) Error() string { return r.Err.Error() }

// Unwrap returns the coded error.
func (r *RefusalError) Unwrap() error { return r.Err }

// Precedes reports whether the refusal may come before the look-up of an order with
// the same key: it is of the load, and says nothing about the buyer.
func (r *RefusalError) Precedes() bool { return r.Err.Code == sale.CodeRateLimited }

func limited(l *Limit, r limit.Rate, d *limit.Decision) *RefusalError {
	err := &sale.Error{Code: sale.CodeRateLimited, Message: "this is faster than the limit " + l.Name + " allows", Hint: "wait for as long as Retry-After says; the same key may be tried again"}
	return &RefusalError{Err: err, Layer: l.Name, RetryAfter: d.Binding.RetryAfter, Rate: r, State: d.Binding}
}

func banned(layer string, expires, now time.Time) *RefusalError {
	r := &RefusalError{Err: &sale.Error{Code: sale.CodeBanned, Message: "the gate does not let this buyer in", Hint: "ask the shop if this is a mistake"}, Layer: layer}
	if !expires.IsZero() {
		r.RetryAfter = expires.Sub(now)
	}
	return r
}

func passRequired() *RefusalError {
	return &RefusalError{Layer: "pass", Err: &sale.Error{
		Code: sale.CodePassRequired, Message: "this sale sells with a pass only", Hint: "get one with POST /v1/sales/{sale}/passes and send it in Doorbuster-Pass",
	}}
}

// elsewhere is told to whom brings a pass to another address than its own.
func elsewhere() *RefusalError {
	return &RefusalError{Layer: "pass", Err: &sale.Error{
		Code: sale.CodePassRequired, Message: "this is not the address that came with the pass", Hint: "buy at the path that POST /v1/sales/{sale}/passes answered",
	}}
}

func passInvalid(f Flaw) *RefusalError {
	return &RefusalError{Layer: "pass", Err: &sale.Error{
		Code: sale.CodePassInvalid, Message: "the pass opens nothing: " + f.String(), Hint: "get another one with POST /v1/sales/{sale}/passes",
	}}
}

func challengeRequired(layer string, c *Challenge) *RefusalError {
	return &RefusalError{Layer: layer, Challenge: c, Err: &sale.Error{
		Code: sale.CodeChallengeRequired, Message: "a challenge must be solved first", Hint: "solve it, send the solution to POST /v1/sales/{sale}/passes, and buy with the pass",
	}}
}
