package sqliteledger

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// args takes a statement's parameters in order. A value that equals the one of
// the execution before keeps its place, so that a batch of like rows allocates
// for what differs only.
type args struct {
	values []driver.NamedValue
	n      int
}

// bound returns what was given; too few is an error of the driver's.
func (a *args) bound() []driver.NamedValue { return a.values[:a.n] }

func (a *args) int(v int64) {
	slot := &a.values[a.n].Value
	if old, same := (*slot).(int64); !same || old != v {
		*slot = v
	}
	a.n++
}

func (a *args) text(v string) {
	slot := &a.values[a.n].Value
	if old, same := (*slot).(string); !same || old != v {
		*slot = v
	}
	a.n++
}

// blob takes a value that must not change before the statement has run.
func (a *args) blob(v []byte) {
	slot := &a.values[a.n].Value
	if old, same := (*slot).([]byte); !same || len(old) != len(v) || len(v) > 0 && &old[0] != &v[0] {
		*slot = v
	}
	a.n++
}

func (a *args) null() {
	a.values[a.n].Value = nil
	a.n++
}

func (a *args) time(t time.Time) { a.int(ledger.Millis(t)) }

// id takes an id; the zero value becomes NULL.
func (a *args) id(id *[16]byte) {
	if *id == ([16]byte{}) {
		a.null()
		return
	}
	a.blob(id[:])
}

// row hands out the columns of one row in order. The first column that is not
// what it must be is kept as the row's error; the rest then read as zeros.
type row struct {
	values []driver.Value
	read   int
	err    error
}

// ErrCorrupt says that a stored row cannot be what this package wrote. It comes
// together with ledger.ErrConstraint: reading it again will not help.
var ErrCorrupt = errors.New("sqliteledger: a stored row is unreadable")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", ErrCorrupt, ledger.ErrConstraint, fmt.Sprintf(format, args...))
}

func (r *row) spoil(what string, v driver.Value) {
	if r.err == nil {
		r.err = corrupt("column %d is %T instead of %s", r.read, v, what)
	}
}

func (r *row) next() driver.Value {
	v := r.values[r.read]
	r.read++
	return v
}

func (r *row) int() int64 {
	v := r.next()
	n, ok := v.(int64)
	if !ok {
		r.spoil("an integer", v)
	}
	return n
}

func (r *row) text() string {
	v := r.next()
	s, ok := v.(string)
	if !ok {
		r.spoil("a text", v)
	}
	return s
}

// blob returns a value of the caller's own; empty and NULL are nil.
func (r *row) blob() []byte {
	v := r.next()
	if v == nil {
		return nil
	}
	b, ok := v.([]byte)
	if !ok {
		r.spoil("a blob", v)
	}
	return b
}

func (r *row) time() time.Time { return ledger.FromMillis(r.int()) }

// duration reads milliseconds.
func (r *row) duration() time.Duration { return time.Duration(r.int()) * time.Millisecond }

// id reads 16 bytes, or NULL as the zero value.
func (r *row) id() (id [16]byte) {
	b := r.blob()
	if copy(id[:], b) != len(b) || len(b) != 0 && len(b) != len(id) {
		r.spoil("an id", b)
	}
	return id
}

// digest reads 32 bytes.
func (r *row) digest() (d [32]byte) {
	b := r.blob()
	if len(b) != copy(d[:], b) || len(b) != len(d) {
		r.spoil("32 bytes", b)
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

// saleRange returns the lowest and the highest id that an order of a sale can have.
func saleRange(n sale.Number) (first, last [16]byte) {
	copy(last[:], bytes.Repeat([]byte{0xff}, len(last)))
	for i := range 4 {
		b := byte(n >> (24 - 8*i)) //nolint:gosec // one byte at a time
		first[i], last[i] = b, b
	}
	return first, last
}
