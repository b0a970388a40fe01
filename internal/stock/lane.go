package stock

import "github.com/doorbuster/doorbuster/internal/sale"

// LanesOf returns the lanes of a sale in order of index; nil for a sale that never
// had any.
func LanesOf(s *sale.Sale) []Lane {
	if len(s.Salts) == 0 {
		return nil
	}
	out := make([]Lane, len(s.Salts))
	for i, salt := range s.Salts {
		out[i] = Lane{Sale: s.Number, Index: i, Salt: salt}
	}
	return out
}

// Home returns the index of the lane, of so many, that records what a user takes.
func Home(user string, lanes int) int {
	return int(sale.UserHash(user) % uint64(lanes)) //nolint:gosec // below lanes, a small number
}

// Share returns the part of a number over all lanes that falls to one of them. The
// parts of all lanes add up to the number.
func Share(total int64, index, lanes int) int64 {
	part, rest := total/int64(lanes), total%int64(lanes)
	if int64(index) < rest {
		part++
	}
	return part
}
