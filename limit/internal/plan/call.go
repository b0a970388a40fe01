package plan

import (
	"fmt"

	"github.com/doorbuster/doorbuster/limit"
)

// Call appends the plans of what a call of Allow or Refund names: at least one
// rate, none of them twice, each valid and none a Concurrency, and a cost from 1 up
// that each of them can admit. Errors are ErrInvalid and ErrTooLarge.
func (b *Book) Call(out []*Plan, cost int64, rates []limit.Rate) ([]*Plan, error) {
	if cost < 1 {
		return nil, fmt.Errorf("%w: a cost of %d; it is at least 1", limit.ErrInvalid, cost)
	}
	from := len(out)
	out, err := b.Peek(out, rates)
	if err != nil {
		return nil, err
	}
	for _, p := range out[from:] {
		if p.Rate.Algorithm == limit.Concurrency {
			return nil, fmt.Errorf("%w: rate %q bounds concurrency; use Acquire", limit.ErrInvalid, p.Rate.Name)
		}
		if cost > p.Limit {
			return nil, tooLarge(cost, p)
		}
	}
	return out, nil
}

// Peek does the same for Peek and Reset, which have no cost and take every
// algorithm.
func (b *Book) Peek(out []*Plan, rates []limit.Rate) ([]*Plan, error) {
	if len(rates) == 0 || len(rates) > limit.MaxRates {
		return nil, fmt.Errorf("%w: %d rates; a call names 1 to %d", limit.ErrInvalid, len(rates), limit.MaxRates)
	}
	from := len(out)
	for i := range rates {
		p, err := b.Of(rates[i])
		if err != nil {
			return nil, err
		}
		for _, other := range out[from:] {
			if other.Rate.Name == p.Rate.Name && other.Rate.Algorithm == p.Rate.Algorithm {
				return nil, fmt.Errorf("%w: rate %q is named twice", limit.ErrInvalid, p.Rate.Name)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// One checks the rate of Wait or Acquire.
func (b *Book) One(cost int64, r limit.Rate, want limit.Algorithm) (*Plan, error) {
	p, err := b.Of(r)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Algorithm != want:
		return nil, fmt.Errorf("%w: rate %q is a %s, not a %s", limit.ErrInvalid, r.Name, r.Algorithm, want)
	case cost < 1:
		return nil, fmt.Errorf("%w: a cost of %d; it is at least 1", limit.ErrInvalid, cost)
	case cost > p.Limit:
		return nil, tooLarge(cost, p)
	}
	return p, nil
}

// Checks are the bounds of AllowAll, but for what Call says of each check.
func Checks(checks []limit.Check) error {
	if len(checks) == 0 || len(checks) > limit.MaxChecks {
		return fmt.Errorf("%w: %d checks; a call names 1 to %d", limit.ErrInvalid, len(checks), limit.MaxChecks)
	}
	for i := range checks {
		for j := range i {
			if checks[i].Subject == checks[j].Subject {
				return fmt.Errorf("%w: two checks of one subject; name its rates in one", limit.ErrInvalid)
			}
		}
	}
	return nil
}

func tooLarge(cost int64, p *Plan) error {
	return fmt.Errorf("%w: %d of rate %q, which admits %d", limit.ErrTooLarge, cost, p.Rate.Name, p.Limit)
}
