package ledgertest

import (
	"context"
	"slices"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// LaneRows implements ledger.Reader.
func (r *memReader) LaneRows(ctx context.Context, n sale.Number, after uint64, limit int) ([]ledger.Entry, error) {
	found, err := r.rows(ctx, n)
	if err != nil {
		return nil, err
	}
	var out []ledger.Entry
	for i := range found.entries {
		if e := &found.entries[i]; e.Seq > after && e.Kind.ForLane() && len(out) < limit {
			out = append(out, *e)
		}
	}
	return out, nil
}

// Letter implements ledger.Reader.
func (r *memReader) Letter(ctx context.Context, id ledger.LetterID) (ledger.Letter, error) {
	if err := r.statement(ctx); err != nil {
		return ledger.Letter{}, err
	}
	if l, found := r.at().letters[id]; found {
		return ownLetter(l), nil
	}
	return ledger.Letter{}, sale.LetterNotFound()
}

// LetterOf implements ledger.Reader.
func (r *memReader) LetterOf(ctx context.Context, id sale.OrderID) (ledger.Letter, bool, error) {
	if err := r.statement(ctx); err != nil {
		return ledger.Letter{}, false, err
	}
	s := r.at()
	for _, key := range s.parked {
		if l := s.letters[key]; l.Attempt != nil && l.Attempt.ID == id {
			return ownLetter(l), true, nil
		}
	}
	return ledger.Letter{}, false, nil
}

// ListLetters implements ledger.Reader.
func (r *memReader) ListLetters(ctx context.Context, f ledger.LetterFilter) ([]ledger.Letter, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	s := r.at()
	from := 0
	if f.After != (ledger.LetterID{}) {
		from = slices.Index(s.parked, f.After) + 1
	}
	var out []ledger.Letter
	for _, id := range s.parked[from:] {
		l := s.letters[id]
		if (f.Sale == 0 || l.Sale == f.Sale) && (f.State == "" || l.State == f.State) && len(out) < f.Limit {
			out = append(out, ownLetter(l))
		}
	}
	return out, nil
}

func (tx *memTx) writeLetters(ctx context.Context, _ *rows, c *ledger.Changes) error {
	s := tx.at()
	for i := range c.Letters {
		if err := tx.step(ctx); err != nil {
			return err
		}
		l := ownLetter(c.Letters[i])
		if l.Sale != c.Sale {
			return refused("letter %x is of another sale", l.ID)
		}
		if old, found := s.letters[l.ID]; found {
			old.State, old.ClosedAt = l.State, instant(l.ClosedAt)
			s.letters[l.ID] = old
			continue
		}
		l.ParkedAt, l.ClosedAt = instant(l.ParkedAt), instant(l.ClosedAt)
		s.parked = append(s.parked, l.ID)
		s.letters[l.ID] = l
	}
	return nil
}

// ownLetter returns a copy that shares nothing with l, as a database keeps it.
func ownLetter(l ledger.Letter) ledger.Letter {
	l.Raw = append([]byte(nil), l.Raw...)
	if l.Attempt == nil {
		return l
	}
	a := *l.Attempt
	a.Expected = nil // the counter has compared it
	if a.Slip != nil {
		slip := *a.Slip
		slip.TakenAt = instant(slip.TakenAt)
		a.Slip = &slip
	}
	l.Attempt = &a
	return l
}
