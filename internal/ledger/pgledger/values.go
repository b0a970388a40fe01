package pgledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// column collects one value of each row, as an array parameter takes them.
func column[T, V any](rows []T, value func(*T) V) []V {
	out := make([]V, len(rows))
	for i := range rows {
		out[i] = value(&rows[i])
	}
	return out
}

// columnOf does the same for rows that are large and lie elsewhere.
func columnOf[T, V any](rows []*T, value func(*T) V) []V {
	return column(rows, func(row **T) V { return value(*row) })
}

// storable reports whether a text can be in the database at all: PostgreSQL holds
// no NUL, and UTF-8 only. Nothing is found under any other text.
func storable(text string) bool {
	return utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

// row hands out the columns of one row in order, from the form in which the server
// sends them. The first column that is not what it must be is kept as the row's
// error; the rest then read as zeros.
type row struct {
	values [][]byte // nil is NULL
	read   int
	err    error
}

// ErrCorrupt says that a stored row cannot be what this package wrote. It comes
// together with ledger.ErrConstraint: reading it again will not help.
var ErrCorrupt = errors.New("pgledger: a stored row is unreadable")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", ErrCorrupt, ledger.ErrConstraint, fmt.Sprintf(format, args...))
}

func (r *row) spoil(what string) {
	if r.err == nil {
		r.err = corrupt("column %d is not %s", r.read, what)
	}
}

func (r *row) next() []byte {
	if r.read >= len(r.values) {
		r.read++
		return nil
	}
	v := r.values[r.read]
	r.read++
	return v
}

// int reads a bigint.
func (r *row) int() int64 {
	v := r.next()
	if len(v) != 8 {
		r.spoil("an integer")
		return 0
	}
	return int64(binary.BigEndian.Uint64(v)) //nolint:gosec // two's complement
}

func (r *row) text() string {
	v := r.next()
	if v == nil {
		r.spoil("a text")
	}
	return string(v)
}

// blob returns a value of the caller's own; empty and NULL are nil.
func (r *row) blob() []byte { return append([]byte(nil), r.next()...) }

func (r *row) time() time.Time { return ledger.FromMillis(r.int()) }

// duration reads milliseconds.
func (r *row) duration() time.Duration { return time.Duration(r.int()) * time.Millisecond }

// id reads an uuid, or NULL as the zero value.
func (r *row) id() (id [16]byte) {
	v := r.next()
	if copy(id[:], v) != len(v) || len(v) != 0 && len(v) != len(id) {
		r.spoil("an id")
	}
	return id
}

// digest reads 32 bytes.
func (r *row) digest() (d [32]byte) {
	v := r.next()
	if len(v) != copy(d[:], v) || len(v) != len(d) {
		r.spoil("32 bytes")
	}
	return d
}

// done returns the row's error, and prepares for the next row.
func (r *row) done() error {
	err := r.err
	r.err = nil
	return err
}

// one of a closed set of names, as the constant of the set.
func oneOf[T ~string](r *row, set ...T) T {
	name := r.text()
	for _, known := range set {
		if string(known) == name {
			return known
		}
	}
	if r.err == nil {
		r.err = corrupt("column %d holds the unknown name %q", r.read, name)
	}
	return ""
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
		row.spoil("salts")
		return nil
	}
	var salts []uint32
	for ; len(b) > 0; b = b[4:] {
		salts = append(salts, binary.BigEndian.Uint32(b))
	}
	return salts
}

// saleRange returns the id before the lowest and the highest id that an order of a
// sale can have.
func saleRange(n sale.Number) (before, last [16]byte) {
	copy(before[:], bytes.Repeat([]byte{0xff}, len(before)))
	copy(last[:], bytes.Repeat([]byte{0xff}, len(last)))
	binary.BigEndian.PutUint32(before[:], uint32(n)-1) // numbers begin with 1
	binary.BigEndian.PutUint32(last[:], uint32(n))
	return before, last
}
