package sale

import "time"

// OrderState is where an order stands; see the diagram in the package comment.
type OrderState string

// The states of an order.
const (
	Queued    OrderState = "queued"
	Reserved  OrderState = "reserved"
	Paid      OrderState = "paid"
	Cancelled OrderState = "cancelled"
	Expired   OrderState = "expired"
	Rejected  OrderState = "rejected"
	Refunded  OrderState = "refunded"
)

// OrderStates lists every state.
func OrderStates() []OrderState {
	return []OrderState{Queued, Reserved, Paid, Cancelled, Expired, Rejected, Refunded}
}

// Live reports whether an order in this state holds its units.
func (s OrderState) Live() bool { return s == Reserved || s == Paid }

// Final reports whether nothing can follow but, for paid, an explicit refund.
func (s OrderState) Final() bool { return s != Queued && s != Reserved }

// CanBecome reports whether the transition s → to is legal.
func (s OrderState) CanBecome(to OrderState) bool {
	switch s {
	case Queued:
		return to == Reserved || to == Rejected || to == Cancelled || to == Paid
	case Reserved:
		return to == Paid || to == Cancelled || to == Expired
	case Paid:
		return to == Refunded
	case Cancelled, Expired, Rejected, Refunded:
	}
	return false
}

// Order is a row of the ledger: one buyer's units of one item under fixed terms.
type Order struct {
	ID       OrderID
	Slug     string // the sale's slug, for readers; the number is in the id
	User     string
	SKU      string
	Quantity int64
	Terms    int64
	Amount   int64 // Quantity × the terms' price, minor units
	Currency string
	State    OrderState
	Epoch    int64
	// Version counts the order's transitions, from 1.
	Version int64
	// TakenAt is when the fast counter took a queued order; zero in every other state.
	TakenAt    time.Time
	ReservedAt time.Time // when the ledger judged it; zero while it is queued
	ExpiresAt  time.Time // ReservedAt + hold; zero for an order that never waits
	EndedAt    time.Time // when the present final state began; zero before
	// Reason says why a rejected order was rejected; empty in every other state.
	Reason    RejectReason
	PaymentID string // the one charge that paid it; empty for none or price zero
	// Replaces is the expired or cancelled order whose late payment bore this
	// one; zero for an ordinary order.
	Replaces OrderID
	// ReplacedBy is filled by look-ups of single orders: the order that took
	// this one's place, or zero.
	ReplacedBy OrderID
}

// RejectReason says why the judge rejected what the fast counter had taken.
type RejectReason string

// The reasons of a rejection.
const (
	RejectedSoldOut  RejectReason = "sold_out"      // the units had gone another way
	RejectedStock    RejectReason = "stock_reduced" // the operator cut the stock below what was queued
	RejectedLimit    RejectReason = "limit_reached"
	RejectedCoolDown RejectReason = "cool_down"
	RejectedLate     RejectReason = "too_late"   // it waited longer than is allowed
	RejectedSale     RejectReason = "sale_gone"  // the sale was put away
	RejectedSlip     RejectReason = "unreadable" // the slip could not be judged; an operator has it
)

// Verdict is the answer to one attempt.
type Verdict string

// The verdicts. All but Taken and Replayed are refusals that changed nothing.
const (
	Taken        Verdict = "taken"
	Replayed     Verdict = "replayed"
	SoldOut      Verdict = Verdict(CodeSoldOut)
	Insufficient Verdict = Verdict(CodeInsufficient)
	LimitReached Verdict = Verdict(CodeLimitReached)
	CoolDown     Verdict = Verdict(CodeCoolDown)
	NotStarted   Verdict = Verdict(CodeNotStarted)
	Ended        Verdict = Verdict(CodeEnded)
	PausedNow    Verdict = Verdict(CodePaused)
	ClosedNow    Verdict = Verdict(CodeClosed)
	TermsChanged Verdict = Verdict(CodeTermsChanged)
	KeyMismatch  Verdict = Verdict(CodeKeyMismatch)
	NoSuchSale   Verdict = Verdict(CodeSaleNotFound)
	NoSuchItem   Verdict = Verdict(CodeItemNotFound)
	BadQuantity  Verdict = Verdict(CodeInvalidQuantity)
)

// PaymentStatus is what a payment notice reports.
type PaymentStatus string

// The statuses a notice may carry.
const (
	PaymentSucceeded PaymentStatus = "succeeded"
	PaymentFailed    PaymentStatus = "failed"
)

// Payment is one notice about one charge. The pair of payment id and status is
// its identity: a charge may fail first and succeed later.
type Payment struct {
	ID       string
	Order    OrderID
	Status   PaymentStatus
	Amount   int64
	Currency string
}

// Outcome is what became of a payment.
type Outcome string

// The outcomes of a payment.
const (
	OutcomePaid           Outcome = "paid"            // this charge paid the order
	OutcomeAlreadyPaid    Outcome = "already_paid"    // this same charge had paid it before
	OutcomeRecorded       Outcome = "recorded"        // noted; nothing was captured
	OutcomeRefundRequired Outcome = "refund_required" // captured, and must go back
)

// RefundState says whether the money has gone back.
type RefundState string

// The states of a refund record.
const (
	RefundRequired RefundState = "required"
	RefundDone     RefundState = "done"
)

// RefundReason says why a charge must go back.
type RefundReason string

// The reasons of a refund record.
const (
	ReasonAmount    RefundReason = "amount_mismatch" // amount or currency is not the order's
	ReasonDuplicate RefundReason = "duplicate"       // another charge had paid the order
	ReasonLate      RefundReason = "late"            // the order had ended and could not be had again
	ReasonRefunded  RefundReason = "refunded"        // the shop refunded a paid order
)

// Refund records one captured charge that must go back to the buyer.
type Refund struct {
	ID        RefundID
	PaymentID string
	Order     OrderID
	Amount    int64
	Currency  string
	Reason    RefundReason
	State     RefundState
	CreatedAt time.Time
	DoneAt    time.Time // zero until done
}
