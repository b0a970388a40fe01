package httpapi

import (
	"net/http"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Codes that only the transport knows.
const (
	codeMalformed       sale.Code = "malformed_json"
	codeBadHeader       sale.Code = "invalid_header"
	codeUnsupportedType sale.Code = "unsupported_media_type"
	codeTooLarge        sale.Code = "body_too_large"
	codeTimeout         sale.Code = "request_timeout"
	codeNoRoute         sale.Code = "not_found"
	codeNoMethod        sale.Code = "method_not_allowed"
	codeNoPrecondition  sale.Code = "precondition_required"
	codeTooManyStreams  sale.Code = "too_many_streams"
	codeRejected        sale.Code = "rejected"
)

// statusOf maps each code to its one HTTP status.
func statusOf(code sale.Code) int {
	switch code {
	case codeMalformed, codeBadHeader, sale.CodeKeyRequired:
		return http.StatusBadRequest
	case sale.CodeUnauthenticated:
		return http.StatusUnauthorized
	case sale.CodeForbidden, sale.CodeBanned, sale.CodeChallengeRequired, sale.CodePassRequired, sale.CodePassInvalid:
		return http.StatusForbidden
	case codeNoRoute, sale.CodeSaleNotFound, sale.CodeOrderNotFound, sale.CodeRefundNotFound, sale.CodeKeyNotFound, sale.CodeLetterNotFound,
		sale.CodeListingNotFound:
		return http.StatusNotFound
	case codeNoMethod:
		return http.StatusMethodNotAllowed
	case codeTimeout:
		return http.StatusRequestTimeout
	case sale.CodeSoldOut, sale.CodeInsufficient, sale.CodeLimitReached, sale.CodeCoolDown, sale.CodeNotStarted, sale.CodePaused,
		sale.CodeTermsChanged, sale.CodeKeyMismatch, sale.CodeSaleExists, sale.CodeIllegalState, sale.CodeStockBelowSold, sale.CodePaymentMismatch, codeRejected,
		sale.CodeListingsFull:
		return http.StatusConflict
	case sale.CodeEnded, sale.CodeClosed:
		return http.StatusGone
	case sale.CodeVersionMismatch:
		return http.StatusPreconditionFailed
	case codeTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeUnsupportedType:
		return http.StatusUnsupportedMediaType
	case sale.CodeInvalid, sale.CodeInvalidQuantity, sale.CodeItemNotFound:
		return http.StatusUnprocessableEntity
	case codeNoPrecondition:
		return http.StatusPreconditionRequired
	case codeTooManyStreams, sale.CodeRateLimited:
		return http.StatusTooManyRequests
	case sale.CodeBusy, sale.CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusServiceUnavailable // what we cannot name is trouble of ours, never a business answer
}

// refusal is the text of a verdict that refuses; numbers and instants travel in
// members of the problem.
func refusal(v sale.Verdict) *sale.Error {
	e := &sale.Error{Code: sale.Code(v)}
	switch v {
	case sale.SoldOut:
		e.Message, e.Hint = "every unit is held or sold", "units may come back when holds end; the same key may be tried again"
	case sale.Insufficient:
		e.Message, e.Hint = "fewer units are left than asked for", "ask for at most as many as available says"
	case sale.LimitReached:
		e.Message, e.Hint = "the buyer's limit in this sale is reached", "orders lists what the buyer has"
	case sale.CoolDown:
		e.Message, e.Hint = "the buyer has let too many holds go unpaid", "try again at retry_at"
	case sale.NotStarted:
		e.Message, e.Hint = "the sale has not started", "try again at starts_at"
	case sale.Ended:
		e.Message = "the sale has ended"
	case sale.PausedNow:
		e.Message, e.Hint = "the sale is paused", "watch its status and try again with the same key"
	case sale.ClosedNow:
		e.Message = "the sale is closed"
	case sale.TermsChanged:
		e.Message, e.Hint = "the amount or currency is not what was expected", "read the sale again and show the buyer the new price"
	case sale.KeyMismatch:
		e.Message, e.Hint = "this idempotency key stands for another item or quantity", "use a new key for a new click"
		e.Field = headerKey
	case sale.NoSuchSale:
		return sale.SaleNotFound()
	case sale.NoSuchItem:
		return sale.ItemNotFound()
	case sale.BadQuantity:
		return sale.InvalidQuantity(sale.MaxPerUserLimit)
	case sale.Taken, sale.Replayed:
		return nil
	}
	return e
}

// rejection is the text of an order that the fast counter had taken and the judge
// rejected. The order's reason says it exactly; the code is that of the refusal
// which the same buyer would have met at the door, where there is one.
func rejection(reason sale.RejectReason) *sale.Error {
	e := &sale.Error{Hint: "the order is final, and this key stands for it: use a new key for a new click"}
	switch reason {
	case sale.RejectedSoldOut:
		e.Code, e.Message = sale.CodeSoldOut, "every unit went to somebody else before this order was judged"
	case sale.RejectedStock:
		e.Code, e.Message = sale.CodeSoldOut, "the stock was reduced before this order was judged"
	case sale.RejectedLimit:
		e.Code, e.Message = sale.CodeLimitReached, "the buyer's limit in this sale is reached"
	case sale.RejectedCoolDown:
		e.Code, e.Message = sale.CodeCoolDown, "the buyer has let too many holds go unpaid"
	case sale.RejectedLate:
		e.Code, e.Message = codeRejected, "the order waited too long for its judgement"
	case sale.RejectedSale:
		e.Code, e.Message = codeRejected, "the sale was put away before this order was judged"
	case sale.RejectedSlip:
		e.Code, e.Message = codeRejected, "the order could not be judged"
	default:
		e.Code, e.Message = codeRejected, "the order was rejected"
	}
	return e
}
