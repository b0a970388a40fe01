package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// action is one thing that somebody does at an instance.
type action struct {
	number int
	verb   string
	at     *instance
	part   string // of the instance, if it does one thing at a time
	began  int    // tick
	fails  int    // of the instance's calls to the ledger, when it began
	start  time.Time
	leave  context.CancelFunc
	gone   bool // whoever asked has left

	id       sale.OrderID
	user     string
	quantity int64
	item     int
	repeat   bool
	answer   answer
}

// answer is what came of it.
type answer struct {
	verdict    sale.Verdict
	order      sale.Order
	found      bool // there is an order
	receipt    string
	err        error
	left       int64 // for Insufficient
	remembered bool  // it was given from memory
}

// story is what has been told about an order.
type story struct {
	user, key string
	item      int
	told      sale.OrderState // the furthest; empty if nothing
	since     int             // tick at which it was told
	last      time.Time       // when anything was told of it
	taken     int             // how often it was told to be taken
	receipt   string
	tried     bool
	open      int // attempts under way
}

// something starts one action, if it can be.
func (w *world) something() {
	total := 0
	for _, v := range w.plan.mix {
		total += v.weight
	}
	at := w.rng.IntN(total)
	slot := w.rng.IntN(2)
	i := w.slots[slot]
	if i == nil {
		i = w.slots[1-slot]
	}
	if i == nil {
		return
	}
	for _, v := range w.plan.mix {
		if at -= v.weight; at < 0 {
			w.start1(v.name, i)
			return
		}
	}
}

func (w *world) start1(verb string, i *instance) {
	switch verb {
	case "buy":
		w.buy(i)
	case "judge":
		l := w.someLane()
		w.part(i, verb+n(int64(l)), i.workers[l].Step)
	case "forward":
		l := w.someLane()
		w.part(i, verb+n(int64(l)), func(ctx context.Context) error {
			i.couriers[l].Step(ctx)
			return nil
		})
	case "measure":
		l := w.someLane()
		w.part(i, "forward"+n(int64(l)), func(ctx context.Context) error {
			_ = i.couriers[l].Measure(ctx)
			return nil
		})
	case "keep":
		w.part(i, verb, func(ctx context.Context) error {
			i.keeper.Look(ctx)
			return nil
		})
	case "sweep":
		w.part(i, verb, func(ctx context.Context) error {
			i.sweeper.Sweep(ctx, time.Now())
			return nil
		})
	case "route":
		to := sale.PathDirect
		if w.rng.IntN(2) == 0 {
			to = sale.PathFast
		}
		w.part(i, verb, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			_, err := i.keeper.Route(ctx, slug, 0, to)
			return err
		})
	case "restock", "pause", "close":
		w.change(i, verb)
	case "leave":
		w.hangUp()
	case "letters":
		w.part(i, verb, i.openLetters)
	default:
		w.visit(i, verb)
	}
}

// begin starts an action.
func (w *world) begin(a *action, do func(context.Context) answer) {
	a.number, a.began, a.fails, a.start = w.actions, w.tick, a.at.ledgerFails, time.Now()
	w.actions++
	w.running++
	ctx, leave := context.WithCancel(context.WithValue(a.at.ctx, actionKey{}, " #"+n(int64(a.number))))
	a.leave = leave
	w.trace.add("begin ", a.at.name, " ", a.verb, " ", a.user, " ", n(int64(a.number)))
	w.current = append(w.current, a)
	go func() {
		defer leave()
		a.answer = do(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = append(w.done, a)
	}()
	w.pass(time.Microsecond) // no two timers of two actions end at once
}

// part has a part of an instance do one thing, unless it is at one already.
func (w *world) part(i *instance, name string, do func(context.Context) error) {
	if i.busy[name] {
		return
	}
	i.busy[name] = true
	w.begin(&action{verb: name, part: name, at: i}, func(ctx context.Context) answer { return answer{err: do(ctx)} })
}

// someLane draws a lane.
func (w *world) someLane() int {
	if len(w.lanes) == 1 {
		return 0
	}
	return w.rng.IntN(len(w.lanes))
}

// userName names a buyer by a letter.
func userName(i int) string { return "abcdefgh"[i : i+1] }

// clear reports whether an engine is in a state in which one more caller cannot
// make the order of its goroutines matter: they would run freely when woken
// together, and the run could not be repeated.
func (w *world) clear(i *instance) bool {
	w.wire.mu.Lock()
	defer w.wire.mu.Unlock()
	return !slices.ContainsFunc(w.wire.pending, func(c *call) bool {
		return c.from == i && c.role == ".e" && forAll(c.name)
	})
}

func (w *world) story(user, key string) (sale.OrderID, *story) {
	id := w.sale.OrderID(user, key)
	s := w.stories[id]
	if s == nil {
		s = &story{user: user, key: key, item: w.rng.IntN(len(w.sale.Items))}
		w.stories[id] = s
		w.told = append(w.told, id)
	}
	return id, s
}

func (w *world) buy(i *instance) {
	if !w.clear(i) || i.short.Load() && i.buys >= 2 {
		return
	}
	user := userName(w.rng.IntN(w.plan.users))
	id, s := w.story(user, "k"+n(int64(w.rng.IntN(w.plan.keys))))
	if s.tried && i.repeats > 0 {
		return
	}
	q := int64(1)
	if most := w.sale.PerUserLimit; most > 1 && w.rng.IntN(4) < len(w.lanes) {
		q = 2 + w.rng.Int64N(most-1)
	}
	r := engine.Request{Sale: slug, User: user, Key: s.key, SKU: w.sale.Items[s.item].SKU, Quantity: q}
	switch w.rng.IntN(6) {
	case 0:
		r.Wait = 2713 * time.Millisecond
	case 1:
		r.Receipt = s.receipt
	}
	a := &action{verb: "buy", at: i, id: id, user: user, item: s.item, quantity: q, repeat: s.tried}
	i.buys++
	if s.tried {
		i.repeats++
	}
	s.tried = true
	s.open++
	w.begin(a, i.buying(r))
}

// buying has the engine decide a request.
func (i *instance) buying(r engine.Request) func(context.Context) answer {
	return func(ctx context.Context) answer {
		d, err := i.engine.Buy(ctx, r)
		return answer{
			verdict: d.Verdict, order: d.Order, found: d.Verdict == sale.Taken || d.Verdict == sale.Replayed, receipt: d.Receipt, err: err,
			left: d.Left, remembered: d.Times.Stock == 0 && d.Times.Ledger == 0,
		}
	}
}

// visit is an act on, or a look at, an order that somebody has tried to get.
func (w *world) visit(i *instance, verb string) {
	if len(w.told) == 0 || !w.clear(i) {
		return
	}
	id := w.told[w.rng.IntN(len(w.told))]
	s := w.stories[id]
	a := &action{verb: verb, at: i, id: id, user: s.user, item: s.item}
	order := func(o sale.Order, err error) answer { return answer{order: o, found: err == nil, err: err} }
	shop := w.rng.IntN(2) == 0
	switch verb {
	case "look":
		w.begin(a, func(ctx context.Context) answer { return order(i.engine.Order(ctx, id, s.user)) })
	case "receipt":
		if receipt := s.receipt; receipt != "" {
			w.begin(a, func(ctx context.Context) answer { return order(i.engine.OrderByReceipt(ctx, id, s.user, receipt)) })
		}
	case "cancel":
		user := s.user
		if shop {
			user = ""
		}
		w.begin(a, func(ctx context.Context) answer { return order(i.engine.Cancel(ctx, id, user)) })
	case "pay":
		o, found := w.books.orders[id]
		p := sale.Payment{ID: "charge" + n(int64(len(w.charges))), Order: id, Status: sale.PaymentSucceeded, Amount: w.sale.Items[s.item].Price, Currency: "EUR"}
		if found {
			p.Amount = o.Amount
		}
		if shop && len(w.charges) > 0 { // a notice comes twice
			p = w.charges[w.rng.IntN(len(w.charges))]
			a.id = p.Order
			a.user = w.stories[p.Order].user
		} else {
			w.charges = append(w.charges, p)
		}
		w.begin(a, func(ctx context.Context) answer {
			paid, err := i.engine.Pay(ctx, p)
			return answer{order: paid.Order, found: err == nil, err: err}
		})
	case "refund":
		w.begin(a, func(ctx context.Context) answer { return order(i.engine.Refund(ctx, id, shop)) })
	case "list":
		w.begin(a, func(ctx context.Context) answer {
			all, err := i.engine.Orders(ctx, ledger.OrderFilter{User: s.user})
			at := slices.IndexFunc(all, func(o sale.Order) bool { return o.ID == id })
			if err != nil || at < 0 {
				return answer{err: err}
			}
			return answer{order: all[at], found: true}
		})
	}
}

// change is an operator's act.
func (w *world) change(i *instance, verb string) {
	if !w.clear(i) {
		return
	}
	c := sale.Change{Action: sale.ActionRestock}
	if verb == "restock" {
		c.Restock = sale.Restock{SKU: w.sale.Items[w.rng.IntN(len(w.sale.Items))].SKU, Add: int64(1 - 2*w.rng.IntN(2))}
	} else if c.Action = sale.ActionPause; verb == "close" {
		c.Action = sale.ActionClose
		if w.books.sale.State == sale.Closed {
			c.Action = sale.ActionDelete
		}
	} else if w.books.sale.State == sale.Paused {
		c.Action = sale.ActionResume
	}
	w.begin(&action{verb: string(c.Action), at: i}, func(ctx context.Context) answer {
		_, err := i.engine.ChangeSale(ctx, slug, 0, c)
		return answer{err: err}
	})
}

// openLetters has an operator replay every dead letter that is open.
func (i *instance) openLetters(ctx context.Context) error {
	all, err := i.desk.ListLetters(ctx, ledger.LetterFilter{State: ledger.LetterOpen})
	for k := range all {
		if _, err = i.letters.Replay(ctx, all[k].ID); err != nil {
			break
		}
	}
	return err
}

// hangUp has a caller leave.
func (w *world) hangUp() {
	if len(w.current) == 0 {
		return
	}
	a := w.current[w.rng.IntN(len(w.current))]
	if a.part == "" {
		w.trace.add("leave ", n(int64(a.number)))
		a.gone = true
		a.leave()
	}
}

// business reports whether an error is an answer, or trouble that is said to be.
func business(err error) bool {
	_, coded := errors.AsType[*sale.Error](err)
	return coded
}
