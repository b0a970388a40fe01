package limit

import "errors"

// The errors of this package; test for them with errors.Is. A refusal is no error:
// it is a Decision.
var (
	// ErrInvalid is a mistake in a rate, a cost or a subject; nothing was asked or
	// spent.
	ErrInvalid = errors.New("limit: invalid")
	// ErrTooLarge is a cost that no waiting would ever make fit. Nothing was spent.
	ErrTooLarge = errors.New("limit: the cost is larger than what a rate can ever admit")
	// ErrSlotLost is the use of a slot that is not held any more: it was released,
	// or its lease has run out.
	ErrSlotLost = errors.New("limit: the slot is not held")
	// ErrClosed is any use of a limiter after its end.
	ErrClosed = errors.New("limit: the limiter is closed")
	// ErrUnavailable is a store that did not answer, where no rate says what to do
	// without it: Refund, Reset, and Extend and Release of a slot. Allow never
	// returns it.
	ErrUnavailable = errors.New("limit: the store does not answer")
)
