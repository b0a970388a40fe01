package stock

import (
	"errors"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// ErrInvalid says that a call is one that no lane could carry out. It is a fault
// of the caller's; nothing was sent.
var ErrInvalid = errors.New("stock: invalid call")

// Check refuses a call that no lane could decide: more than MaxBatch attempts, a
// user of the wrong length, an id of another sale. ErrInvalid.
func (c *Call) Check() error {
	if len(c.Attempts) > MaxBatch {
		return fmt.Errorf("%w: %d attempts, at most %d", ErrInvalid, len(c.Attempts), MaxBatch)
	}
	for i := range c.Attempts {
		if err := checkName(c.Lane, c.Attempts[i].ID, c.Attempts[i].User); err != nil {
			return fmt.Errorf("attempt %d: %w", i, err)
		}
	}
	return nil
}

// Units returns the quantity, or 0 for one that no order can have: such an
// attempt is no repeat of anything, and is refused with BadQuantity.
func (a *Attempt) Units() int64 {
	if a.Quantity < 1 || a.Quantity > sale.MaxPerUserLimit {
		return 0
	}
	return a.Quantity
}

// Check refuses acts of no known kind, that are not of the lane's sale, or whose
// journal numbers are not in (From, To] in order. ErrInvalid.
func (a *Acts) Check(l Lane) error {
	if a.To < a.From {
		return fmt.Errorf("%w: rows from %d to %d", ErrInvalid, a.From, a.To)
	}
	last := a.From + 1
	for i := range a.Acts {
		if seq := a.Acts[i].Seq; seq < last || seq > a.To {
			return fmt.Errorf("%w: act %d is of row %d, out of order in (%d, %d]", ErrInvalid, i, seq, a.From, a.To)
		}
		if kind := a.Acts[i].Kind; kind != ActReturn && kind != ActAdopt {
			return fmt.Errorf("%w: act %d is %q", ErrInvalid, i, kind)
		}
		last = a.Acts[i].Seq
	}
	return CheckActs(l, a.Acts)
}

// CheckActs refuses acts that are not of the lane's sale. An act without an id
// must set a cool-down, and does nothing else. ErrInvalid.
func CheckActs(l Lane, acts []Act) error {
	for i := range acts {
		if err := acts[i].check(l); err != nil {
			return fmt.Errorf("act %d: %w", i, err)
		}
	}
	return nil
}

// CheckLoad is CheckActs of what one Load may carry: at most MaxActs. ErrInvalid.
func CheckLoad(l Lane, acts []Act) error {
	if len(acts) > MaxActs {
		return fmt.Errorf("%w: %d acts, at most %d", ErrInvalid, len(acts), MaxActs)
	}
	return CheckActs(l, acts)
}

func (a *Act) check(l Lane) error {
	if a.ID.IsZero() && !a.CoolUntil.IsZero() {
		return checkUser(a.User)
	}
	if a.Item < 0 || a.Item >= sale.MaxItems || !counts(a.Quantity) || !counts(a.Counted) {
		return fmt.Errorf("%w: item %d, quantity %d, counted %d", ErrInvalid, a.Item, a.Quantity, a.Counted)
	}
	return checkName(l, a.ID, a.User)
}

func counts(n int64) bool { return n >= 0 && n <= sale.MaxPerUserLimit }

func checkName(l Lane, id sale.OrderID, user string) error {
	if id.Sale() != l.Sale {
		return fmt.Errorf("%w: %s is an order of sale %d, not %d", ErrInvalid, id, id.Sale(), l.Sale)
	}
	if [idTail]byte(id[4:]) == [idTail]byte{} {
		return fmt.Errorf("%w: an order without an id", ErrInvalid)
	}
	return checkUser(user)
}

func checkUser(user string) error {
	if user == "" || len(user) > sale.MaxUserLen {
		return fmt.Errorf("%w: a user of %d bytes", ErrInvalid, len(user))
	}
	return nil
}

// Check refuses a setting whose numbers are not those of a lane. ErrInvalid.
func (s *Setting) Check() error {
	if len(s.Left) != len(s.Stock) || len(s.Stock) == 0 || len(s.Stock) > sale.MaxItems {
		return fmt.Errorf("%w: %d items left of %d", ErrInvalid, len(s.Left), len(s.Stock))
	}
	return nil
}

// MaxLanes is the most lanes that a sale may have.
const MaxLanes = 64

// Check refuses a transfer that is not one from lane to lane. ErrInvalid.
func (t *Transfer) Check() error {
	if t.From < 0 || t.To < 0 || t.From >= MaxLanes || t.To >= MaxLanes || t.From == t.To {
		return fmt.Errorf("%w: a transfer from lane %d to %d", ErrInvalid, t.From, t.To)
	}
	if t.Number == 0 || t.Item < 0 || t.Item >= sale.MaxItems || t.Units < 1 {
		return fmt.Errorf("%w: transfer %d of %d units of item %d", ErrInvalid, t.Number, t.Units, t.Item)
	}
	return nil
}
