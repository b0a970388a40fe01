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

// Mark is the highest sequence number of a lane that was seen in an epoch. Numbers of
// one epoch only grow, so a lane below its mark has gone back in time with its server.
// The zero value has seen nothing.
type Mark struct {
	Epoch int64
	Seq   uint64
}

// Of returns the mark in an epoch; 0 if nothing was seen in it.
func (m *Mark) Of(epoch int64) uint64 {
	if m.Epoch != epoch {
		return 0
	}
	return m.Seq
}

// Saw takes note of a number. One of an earlier epoch does not count any more.
func (m *Mark) Saw(epoch int64, seq uint64) {
	switch {
	case epoch > m.Epoch:
		m.Epoch, m.Seq = epoch, seq
	case epoch == m.Epoch:
		m.Seq = max(m.Seq, seq)
	}
}
