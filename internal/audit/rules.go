package audit

// rule is the index of a check.
type rule int

// The checks, in the order of the report.
const (
	stockJournal rule = iota
	stockRows
	soldCounter
	overdueHold
	laneTold
	limitReplay
	holderCounter
	onceID
	onceReplaced
	phantom
	legalMove
	versionStep
	fixedOrder
	chargeHome
	chargeAmount
	chargeFound
	chargeOutcome
	orderTerms
	rowNumbers
	rowChain
	rowHead
	rowBody
	orderTrace
	saleTrace
	termsTrace
	refundTrace
	wayTrace
	fileDigest
	fileCounts
	fileHead
	ruleCount
)

// ruleText is what a report says of a check.
type ruleText struct {
	name    string // promise, dot, word
	promise string // one line
}

func texts() [ruleCount]ruleText {
	return [ruleCount]ruleText{
		stockJournal:  {"P1.journal", "live units of an item never exceed its stock, after every journal row"},
		stockRows:     {"P1.rows", "live units in the order rows fit the item's stock, and that stock is the journal's"},
		soldCounter:   {"P2.counter", "items.sold is the recount of live units: no unit is lost"},
		overdueHold:   {"P2.overdue", "no hold is kept from other buyers long after its end"},
		laneTold:      {"P2.lane", "the fast counter is told of each order it did not take, and gives back none that is live"},
		limitReplay:   {"P3.limit", "at each birth the buyer is within the limit and rule then in force"},
		holderCounter: {"P3.holders", "what each buyer counts for is the recount of his orders"},
		onceID:        {"P4.once", "an id names one order of this sale, born once"},
		onceReplaced:  {"P4.replaced", "a replacement stands for one ended order of the same buyer, once"},
		phantom:       {"P5.phantom", "every order has its birth in the journal, every row its order; states agree"},
		legalMove:     {"P6.final", "every transition is legal and starts from the state before it"},
		versionStep:   {"P6.version", "an order's transitions are numbered 1, 2, 3 …"},
		fixedOrder:    {"P6.fixed", "what comes back is what was taken: buyer, item, quantity, terms never change"},
		chargeHome:    {"P7.charge", "each captured charge belongs to one paid order or one refund record"},
		chargeAmount:  {"P7.amount", "amount and currency of charge, order and refund record agree"},
		chargeFound:   {"P7.paid", "each paid order and each refund record has its captured charge"},
		chargeOutcome: {"P7.outcome", "each payment says truly what became of it"},
		orderTerms:    {"P7.terms", "amount, currency and hold of each order are those of its terms"},
		rowNumbers:    {"P8.numbers", "journal rows are numbered 1, 2, 3 … without a gap"},
		rowChain:      {"P8.chain", "each row's hash covers the row and the one before it"},
		rowHead:       {"P8.head", "the journal ends where the sale says"},
		rowBody:       {"P8.body", "each row says what its kind promises"},
		orderTrace:    {"P8.order", "each order row equals the last journal row about it"},
		saleTrace:     {"P8.sale", "the sale equals its last journal row; its versions are 1, 2, 3 …"},
		termsTrace:    {"P8.terms", "each terms row is what the journal announced"},
		refundTrace:   {"P8.refunds", "each refund record is what the journal announced"},
		wayTrace:      {"P8.way", "epochs only grow, a change of the way changes nothing else, orders are born under epochs that were"},
		fileDigest:    {"file.digest", "the file is the one that was exported"},
		fileCounts:    {"file.counts", "the file holds as many lines as were exported"},
		fileHead:      {"file.head", "the head hash published elsewhere is in the chain"},
	}
}

// String returns the name of the check.
func (r rule) String() string { return texts()[r].name }

// trusted lists the checks on which the order rows rest. Counters may be
// derived from order rows only while all of these hold.
func trusted() []rule {
	return []rule{onceID, onceReplaced, phantom, legalMove, versionStep, fixedOrder, rowNumbers, rowChain, rowHead, rowBody, orderTrace, saleTrace, wayTrace}
}
