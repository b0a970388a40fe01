package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// reserve has the ledger decide a batch: the direct path.
func (l *lane) reserve(ctx context.Context, v *View, batch []*try) error {
	s := l.stand
	attempts := make([]ledger.Attempt, len(batch))
	for i, t := range batch {
		attempts[i] = t.ask
	}
	heard, started := l.memory.heard(), s.opts.Clock()
	out, err := s.ledger.Reserve(ctx, ledger.Batch{Sale: s.number, Epoch: v.Epoch, Attempts: attempts})
	ended := s.opts.Clock()
	if errors.Is(err, ledger.ErrWrongEpoch) {
		s.opts.Observer.Batched(FromLedger, len(batch), ended.Sub(started), nil) // the ledger has answered
		return errMoved
	}
	s.opts.Observer.Batched(FromLedger, len(batch), ended.Sub(started), err)
	if err != nil {
		l.memory.doubt(hashes(batch, all))
		return infrastructure(err)
	}
	if out.Version > v.Version {
		s.catalog.moved(s.number)
	}
	seen := lesson{
		epoch: v.Epoch, version: v.Version, heard: heard, now: ended,
		holders: hashes(batch, func(i int) bool { return mayHold(&out.Results[i]) }),
	}
	seen.left, seen.short = leftBy(v, batch, out.Results)
	if !s.opts.Alone {
		seen.stamp = stamp{out.Seq, out.Seq}
	}
	if l.memory.learn(&seen) {
		l.load(ctx, v)
	}
	for i, t := range batch {
		t.set(outcome{Result: out.Results[i], view: v, source: FromLedger, call: callTime{ledger: ended.Sub(started)}}, out.Results[i].Err)
	}
	l.line.wake(batch)
	return nil
}

func mayHold(r *ledger.Result) bool {
	return r.Err != nil || r.Verdict == sale.Taken || r.Verdict == sale.Replayed
}

// leftBy returns what is left of each item by the last result that says so, and
// whether an attempt was refused for wanting more than that.
func leftBy(v *View, batch []*try, results []ledger.Result) (left []int64, short bool) {
	left = make([]int64, len(v.Items))
	for i := range left {
		left[i] = unknown
	}
	for i := range results {
		r := &results[i]
		if r.Err != nil || !countsLeft(r.Verdict) {
			continue
		}
		if item, err := v.Item(batch[i].ask.SKU); err == nil {
			left[item] = r.Left
			short = short || r.Verdict == sale.Insufficient
		}
	}
	return left, short
}

// countsLeft reports whether a verdict came with the stock of an item on sale. It
// need not be about the stock: a probe that is refused for another reason has
// looked all the same, and those who wait for it need not go themselves. A replay
// comes before the question whether the item is on sale.
func countsLeft(v sale.Verdict) bool {
	switch v {
	case sale.Taken, sale.SoldOut, sale.Insufficient, sale.LimitReached, sale.CoolDown, sale.TermsChanged, sale.BadQuantity:
		return true
	case sale.Replayed, sale.NotStarted, sale.Ended, sale.PausedNow, sale.ClosedNow, sale.KeyMismatch, sale.NoSuchSale, sale.NoSuchItem:
	}
	return false
}

// buyers reads who has an order on the direct path: everybody at first, later
// those whom the journal has added.
func (l *lane) buyers(ctx context.Context, v *View) (census, error) {
	s := l.stand
	now, last := l.memory.from()
	c := census{at: now}
	if !s.opts.Alone {
		// Payments alone move the journal all the time; what they change is looked up
		// once a second.
		c.until = s.opts.Clock().Add(memoryLife)
	}
	var err error
	if last == (stamp{}) {
		c.users, err = s.ledger.Buyers(ctx, v.Number)
		return c, err
	}
	for after := last.seq; ; {
		rows, err := s.ledger.Rows(ctx, v.Number, after, pageSize)
		if err != nil {
			return c, err
		}
		for i := range rows {
			after = rows[i].Seq
			user, err := bornFor(&rows[i])
			if err != nil {
				return c, err
			}
			if user != "" {
				c.users = append(c.users, sale.UserHash(user))
			}
		}
		if len(rows) < pageSize {
			return c, nil
		}
	}
}

// bornFor returns the user of the order whose beginning a row records, or "".
func bornFor(r *ledger.Entry) (string, error) {
	if !r.Kind.OfOrder() {
		return "", nil
	}
	var body struct {
		From sale.OrderState `json:"from"`
		User string          `json:"user"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return "", fmt.Errorf("engine: journal row %d of sale %d: %w", r.Seq, r.Sale, err)
	}
	if body.From != sale.Queued {
		return "", nil
	}
	return body.User, nil
}
