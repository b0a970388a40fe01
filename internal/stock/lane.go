package stock

import (
	"encoding/binary"

	"github.com/doorbuster/doorbuster/internal/sale"
)

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

// FirstLane returns the lane with whose salt the search for those of a sale begins.
// It follows from the sale's key, so that sales of two ledgers which share a server
// have different lanes, also where their numbers are the same.
func FirstLane(s *sale.Sale) Lane {
	return Lane{Sale: s.Number, Salt: binary.BigEndian.Uint32(derive(s.Key, "salt"))}
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
