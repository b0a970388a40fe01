package sale

import (
	"errors"
	"fmt"
)

// Code is the stable name of an error. Clients branch on it; texts may change.
type Code string

// The codes. httpapi maps each to one HTTP status.
const (
	CodeInvalid         Code = "invalid_request"
	CodeInvalidQuantity Code = "invalid_quantity"
	CodeKeyRequired     Code = "idempotency_key_required"
	CodeKeyMismatch     Code = "idempotency_mismatch"
	CodeSaleNotFound    Code = "sale_not_found"
	CodeItemNotFound    Code = "item_not_found"
	CodeOrderNotFound   Code = "order_not_found"
	CodeRefundNotFound  Code = "refund_not_found"
	CodeSaleExists      Code = "sale_exists"
	CodeVersionMismatch Code = "version_mismatch"
	CodeIllegalState    Code = "illegal_state"
	CodeStockBelowSold  Code = "stock_below_sold"
	CodePaymentMismatch Code = "payment_mismatch"
	CodeSoldOut         Code = "sold_out"
	CodeInsufficient    Code = "insufficient"
	CodeLimitReached    Code = "limit_reached"
	CodeCoolDown        Code = "cool_down"
	CodeNotStarted      Code = "not_started"
	CodeEnded           Code = "ended"
	CodePaused          Code = "paused"
	CodeClosed          Code = "closed"
	CodeTermsChanged    Code = "terms_changed"
	CodeBusy            Code = "busy"
	CodeUnavailable     Code = "unavailable"
	CodeUnauthenticated Code = "unauthenticated"
	CodeForbidden       Code = "forbidden"
	CodeKeyNotFound     Code = "key_not_found"
	CodeLetterNotFound  Code = "letter_not_found"
	CodeListingNotFound Code = "listing_not_found"
	CodeListingsFull    Code = "listings_full"

	// Refusals of the gate.
	CodeRateLimited       Code = "rate_limited"
	CodeBanned            Code = "banned"
	CodeChallengeRequired Code = "challenge_required"
	CodePassRequired      Code = "pass_required"
	CodePassInvalid       Code = "pass_invalid"
)

// Error is a coded error with a hint that a person can act on.
type Error struct {
	Code    Code
	Message string // what is wrong, one sentence without a full stop
	Hint    string // what to do about it; may be empty
	Field   string // the input at fault; may be empty
	// Retry says that the same call, with the same idempotency key, may be
	// repeated and may then succeed.
	Retry bool
	Err   error // the cause; never shown to a client
}

// Error returns code, message and cause; the cause may name internals, so the
// edge shows Message and Hint instead.
func (e *Error) Error() string {
	text := string(e.Code) + ": " + e.Message
	if e.Field != "" {
		text += " (" + e.Field + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports equality of codes, so that errors.Is works against a bare code.
func (e *Error) Is(target error) bool {
	other, ok := errors.AsType[*Error](target)
	return ok && other.Code == e.Code
}

// CodeOf returns the code of err, or CodeUnavailable for any error that has
// none: what we cannot name is infrastructure trouble, never a business answer.
func CodeOf(err error) Code {
	if coded, ok := errors.AsType[*Error](err); ok {
		return coded.Code
	}
	return CodeUnavailable
}

// Invalid returns a CodeInvalid error about one input field.
func Invalid(field, message, hint string) *Error {
	return &Error{Code: CodeInvalid, Message: message, Hint: hint, Field: field}
}

// InvalidQuantity returns the error for a quantity outside 1…limit.
func InvalidQuantity(limit int64) *Error {
	return &Error{
		Code: CodeInvalidQuantity, Field: "quantity", Message: "the quantity is out of range",
		Hint: fmt.Sprintf("send a whole number from 1 to %d", limit),
	}
}

// SaleNotFound returns the error for an unknown, draft or deleted sale.
func SaleNotFound() *Error { //nolint:revive // NotFound alone would not say of what, as its siblings do
	return &Error{Code: CodeSaleNotFound, Message: "there is no such sale", Hint: "check the sale's id; a draft is not visible to buyers"}
}

// ItemNotFound returns the error for a SKU that the sale does not have.
func ItemNotFound() *Error {
	return &Error{Code: CodeItemNotFound, Field: "item", Message: "the sale has no such item", Hint: "name one of the sale's items exactly as listed; it may be left out only where the sale has one item"}
}

// OrderNotFound returns the one error for unknown and foreign orders alike, so
// that nobody can learn which ids exist.
func OrderNotFound() *Error {
	return &Error{Code: CodeOrderNotFound, Message: "there is no such order", Hint: "check the order's id and the account"}
}

// RefundNotFound returns the error for an unknown refund record.
func RefundNotFound() *Error {
	return &Error{Code: CodeRefundNotFound, Message: "there is no such refund", Hint: "list the open ones with GET /v1/refunds?state=required"}
}

// LetterNotFound returns the error for an unknown dead letter.
func LetterNotFound() *Error {
	return &Error{Code: CodeLetterNotFound, Message: "there is no such dead letter", Hint: "list them with: doorbuster deadletter list"}
}

// ListingNotFound returns the error for a subject without a listing in force.
func ListingNotFound() *Error {
	return &Error{Code: CodeListingNotFound, Message: "there is no such listing in force", Hint: "write kind and value as the list of listings shows them"}
}

// IllegalState returns the error for an act that the present state forbids.
func IllegalState(message, hint string) *Error {
	return &Error{Code: CodeIllegalState, Message: message, Hint: hint}
}

// Unavailable wraps infrastructure trouble. The outcome of the call may be
// unknown; repeating it with the same key is safe.
func Unavailable(err error) *Error {
	return &Error{
		Code: CodeUnavailable, Message: "the service cannot answer right now",
		Hint: "repeat the request with the same Idempotency-Key", Retry: true, Err: err,
	}
}

// Busy returns the error for a full queue. Nothing was done.
func Busy() *Error {
	return &Error{Code: CodeBusy, Message: "too many requests are waiting", Hint: "repeat the request with the same Idempotency-Key after Retry-After", Retry: true}
}

// StillQueued returns the error for an act on an order that may not be judged yet:
// nothing was done.
func StillQueued() *Error {
	return &Error{Code: CodeBusy, Message: "the order may still be queued", Hint: "repeat the request after Retry-After, when it is judged", Retry: true}
}
