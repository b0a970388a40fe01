package client

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// CodeError is the stable code of an error. The ErrX constants are what
// errors.Is compares with; a server may send codes that are not listed here.
type CodeError string

// Error returns the code.
func (c CodeError) Error() string { return string(c) }

// Business answers to a buy. They are final for now: the same key may succeed
// later, when the reason has gone.
const (
	ErrSoldOut      CodeError = "sold_out"
	ErrInsufficient CodeError = "insufficient" // Error.Available says what may be had
	ErrLimitReached CodeError = "limit_reached"
	ErrCoolDown     CodeError = "cool_down"   // Error.RetryAt
	ErrNotStarted   CodeError = "not_started" // Error.StartsAt
	ErrEnded        CodeError = "ended"
	ErrPaused       CodeError = "paused"
	ErrClosed       CodeError = "closed"
	ErrTermsChanged CodeError = "terms_changed"
	ErrKeyMismatch  CodeError = "idempotency_mismatch"
	// ErrRejected is an order that was taken and then rejected for a reason that has
	// no word among these; see Rejection.
	ErrRejected CodeError = "rejected"
)

// Refusals of what was sent.
const (
	ErrInvalid         CodeError = "invalid_request"
	ErrInvalidQuantity CodeError = "invalid_quantity"
	ErrUnauthenticated CodeError = "unauthenticated"
	ErrForbidden       CodeError = "forbidden"
	ErrSaleNotFound    CodeError = "sale_not_found"
	ErrItemNotFound    CodeError = "item_not_found"
	ErrOrderNotFound   CodeError = "order_not_found"
	ErrRefundNotFound  CodeError = "refund_not_found"
	ErrLetterNotFound  CodeError = "letter_not_found"
	ErrSaleExists      CodeError = "sale_exists"
	ErrVersionMismatch CodeError = "version_mismatch"
	ErrIllegalState    CodeError = "illegal_state"
	ErrStockBelowSold  CodeError = "stock_below_sold"
	ErrPaymentMismatch CodeError = "payment_mismatch"
)

// Refusals of the gate.
const (
	ErrBanned            CodeError = "banned"             // Error.RetryAfter, where it ends
	ErrChallengeRequired CodeError = "challenge_required" // Error.Challenge or Error.Captcha; see BuyProving
	ErrPassRequired      CodeError = "pass_required"
	ErrPassInvalid       CodeError = "pass_invalid"
	ErrListingNotFound   CodeError = "listing_not_found"
	ErrListingsFull      CodeError = "listings_full"
)

// Trouble on the way or on the other side.
const (
	ErrRateLimited CodeError = "rate_limited"
	ErrBusy        CodeError = "busy"        // nothing was done
	ErrUnavailable CodeError = "unavailable" // the outcome is unknown
)

// Codes that this package gives itself where the server's answer is missing.
const (
	ErrUnreachable CodeError = "unreachable"  // no connection: nothing was sent
	ErrNoAnswer    CodeError = "no_answer"    // sent, not answered: the outcome is unknown
	ErrBadAnswer   CodeError = "bad_answer"   // the answer is not one of this API: the outcome is unknown
	ErrStopped     CodeError = "stopped"      // the context had ended, or TokenFunc failed: nothing was sent
	ErrStillQueued CodeError = "still_queued" // Follow ended before the order was judged
)

// Unsure reports whether a call that ended with this code may have been carried
// out. Repeating it with the same key, payment id or target state finds out.
func (c CodeError) Unsure() bool {
	return c == ErrNoAnswer || c == ErrBadAnswer || c == ErrUnavailable
}

// Error is what a failed call returns: the server's problem, or one that this
// package made where no readable answer came (Status is 0 or the HTTP status
// of the unreadable answer).
type Error struct {
	Problem
	// RetryAfter is the pause that the server asked for; 0 if it named none.
	RetryAfter time.Duration
	// Tries counts how often the request was sent, the last one included.
	Tries int
	// Err is the cause of a missing answer: a network error or the context's.
	Err error
}

// Error returns code, detail and cause in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Code)
	if text := e.text(); text != "" {
		b.WriteString(": " + text)
	}
	if e.Field != "" {
		b.WriteString(" (" + e.Field + ")")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Tries > 1 {
		fmt.Fprintf(&b, " (after %d tries)", e.Tries)
	}
	return b.String()
}

func (e *Error) text() string {
	if e.Detail != "" {
		return e.Detail
	}
	return e.Title
}

// Is reports whether target is the code of the error.
func (e *Error) Is(target error) bool {
	code, ok := target.(CodeError)
	return ok && string(code) == e.Code
}

// Unwrap returns the cause, so that errors.Is finds context.DeadlineExceeded.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of err, or an empty one if err is no *Error.
func CodeOf(err error) CodeError {
	if e, ok := errors.AsType[*Error](err); ok {
		return CodeError(e.Code)
	}
	return ""
}

// own returns an error made on this side.
func own(code CodeError, detail, hint string, cause error) *Error {
	return &Error{Problem: Problem{Type: "about:blank", Code: string(code), Detail: detail, Hint: hint}, Err: cause}
}
