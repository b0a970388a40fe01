package sqliteledger

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Letter implements ledger.Reader.
func (r *reader) Letter(ctx context.Context, id ledger.LetterID) (ledger.Letter, error) {
	found, err := r.letters(ctx, "letter_by_id", func(a *args) { a.blob(id[:]) })
	if err != nil {
		return ledger.Letter{}, err
	}
	if len(found) == 0 {
		return ledger.Letter{}, sale.LetterNotFound()
	}
	return found[0], nil
}

// LetterOf implements ledger.Reader.
func (r *reader) LetterOf(ctx context.Context, id sale.OrderID) (ledger.Letter, bool, error) {
	found, err := r.letters(ctx, "letter_of_order", func(a *args) { a.blob(id[:]) })
	if err != nil || len(found) == 0 {
		return ledger.Letter{}, false, err
	}
	return found[0], true, nil
}

func (r *reader) letters(ctx context.Context, name string, bind func(*args)) (found []ledger.Letter, err error) {
	err = r.get(ctx, name, bind, each(func(l ledger.Letter) error {
		found = append(found, l)
		return nil
	}, decodeLetter))
	return found, err
}

// ListLetters implements ledger.Reader. A letter that cannot be read is left out
// and reported to Options.OnCorrupt.
func (r *reader) ListLetters(ctx context.Context, f ledger.LetterFilter) ([]ledger.Letter, error) {
	return full(f.Limit, func(limit int, out *[]ledger.Letter) (rows int, err error) {
		f.Limit = limit
		name, bind := lettersOf(f)
		err = r.scan(ctx, name, bind, counted(&rows, list(r, out, decodeLetter)))
		return rows, err
	})
}

// lettersOf picks the statement that finds a page of dead letters along an index.
func lettersOf(f ledger.LetterFilter) (name string, bind func(*args)) {
	switch {
	case f.Sale != 0:
		return "letters_of_sale", func(a *args) {
			a.int(int64(f.Sale))
			a.blob(f.After[:])
			a.text(string(f.State))
			a.int(int64(f.Limit))
		}
	case f.State != "":
		return "letters_of_state", func(a *args) {
			a.text(string(f.State))
			a.blob(f.After[:])
			a.int(int64(f.Limit))
		}
	}
	return "letters_of_all", func(a *args) {
		a.blob(f.After[:])
		a.int(int64(f.Limit))
	}
}

func (t *tx) writeLetters(ctx context.Context, c *ledger.Changes) error {
	for i := range c.Letters {
		l := &c.Letters[i]
		if l.Sale != c.Sale {
			return refused("letter %x is of another sale", l.ID)
		}
		err := t.must(ctx, "letter_put", func(a *args) {
			a.blob(l.ID[:])
			a.int(int64(l.Sale))
			a.text(l.Place)
			a.text(l.Cause)
			a.blob(append([]byte{}, l.Raw...)) // never NULL
			bindSlip(a, l.Attempt)
			a.text(string(l.State))
			a.time(l.ParkedAt)
			a.time(l.ClosedAt)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bindSlip gives what an authentic slip was about, from its order's id to whether
// the buyer brought it.
func bindSlip(a *args, about *ledger.Attempt) {
	if about == nil {
		about = &ledger.Attempt{}
	}
	slip := about.Slip
	if slip == nil {
		slip = &ledger.Slip{}
	}
	a.id((*[16]byte)(&about.ID))
	a.text(about.User)
	a.text(about.SKU)
	a.int(about.Quantity)
	a.int(slip.Epoch)
	a.int(slip.Terms)
	a.time(slip.TakenAt)
	presented := int64(0)
	if slip.Presented {
		presented = 1
	}
	a.int(presented)
}

func decodeLetter(row *row) (ledger.Letter, error) {
	l := ledger.Letter{ID: row.id(), Sale: sale.Number(row.int()), Place: row.text(), Cause: row.text(), Raw: row.blob()} //nolint:gosec // the table holds it in range
	a := ledger.Attempt{ID: row.id(), User: row.text(), SKU: row.text(), Quantity: row.int()}
	a.Slip = &ledger.Slip{Epoch: row.int(), Terms: row.int(), TakenAt: row.time(), Presented: row.int() != 0}
	if !a.ID.IsZero() {
		l.Attempt = &a
	}
	l.State = oneOf(row, ledger.LetterOpen, ledger.LetterReplayed, ledger.LetterDropped)
	l.ParkedAt, l.ClosedAt = row.time(), row.time()
	if err := row.done(); err != nil {
		return ledger.Letter{}, fmt.Errorf("dead letter %x: %w", l.ID, err)
	}
	return l, nil
}

// encodeSalts never returns nil, which would be NULL.
func encodeSalts(salts []uint32) []byte {
	b := make([]byte, 0, 4*len(salts))
	for _, salt := range salts {
		b = binary.BigEndian.AppendUint32(b, salt)
	}
	return b
}

// decodeSalts reads what encodeSalts wrote; none is nil.
func decodeSalts(row *row) []uint32 {
	b := row.blob()
	if len(b)%4 != 0 {
		row.spoil("salts", b)
		return nil
	}
	var salts []uint32
	for ; len(b) > 0; b = b[4:] {
		salts = append(salts, binary.BigEndian.Uint32(b))
	}
	return salts
}
