package pgledger

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// arrayCodec writes columns as arrays in the server's form in one go. The driver's
// own way asks for a plan and makes an interface of each element, which costs a
// batch of orders more than all its judging.
type arrayCodec struct {
	pgtype.Codec        // what is not a column goes by the driver's way
	element      uint32 // the type of the elements, as the server numbers it
}

// useArrays makes a connection write columns by arrayCodec.
func useArrays(c *pgx.Conn) {
	types := c.TypeMap()
	for array, element := range map[uint32]uint32{
		pgtype.Int8ArrayOID: pgtype.Int8OID, pgtype.TextArrayOID: pgtype.TextOID,
		pgtype.UUIDArrayOID: pgtype.UUIDOID, pgtype.ByteaArrayOID: pgtype.ByteaOID,
	} {
		if t, known := types.TypeForOID(array); known {
			types.RegisterType(&pgtype.Type{Name: t.Name, OID: array, Codec: arrayCodec{t.Codec, element}})
		}
	}
}

// PlanEncode implements pgtype.Codec.
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	var plan pgtype.EncodePlan
	element := uint32(0)
	switch value.(type) {
	case []int64:
		element, plan = pgtype.Int8OID, columnPlan[int64]{pgtype.Int8OID, func(int64) int { return 8 }, func(b []byte, v int64) []byte {
			return binary.BigEndian.AppendUint64(b, uint64(v)) //nolint:gosec // two's complement
		}}
	case []string:
		element, plan = pgtype.TextOID, columnPlan[string]{pgtype.TextOID, func(v string) int { return len(v) }, func(b []byte, v string) []byte {
			return append(b, v...)
		}}
	case [][]byte:
		element, plan = pgtype.ByteaOID, columnPlan[[]byte]{pgtype.ByteaOID, func(v []byte) int { return len(v) }, func(b, v []byte) []byte {
			return append(b, v...)
		}}
	case [][16]byte:
		element, plan = pgtype.UUIDOID, columnPlan[[16]byte]{pgtype.UUIDOID, func([16]byte) int { return 16 }, func(b []byte, v [16]byte) []byte {
			return append(b, v[:]...)
		}}
	}
	if plan == nil || element != c.element || format != pgtype.BinaryFormatCode {
		return c.Codec.PlanEncode(m, oid, format, value)
	}
	return plan
}

// columnPlan writes a slice of one type.
type columnPlan[T any] struct {
	element uint32
	size    func(T) int
	write   func([]byte, T) []byte
}

// Encode implements pgtype.EncodePlan. An array is a header of dimensions, whether
// there are NULLs, and element type, then length and first index of the one
// dimension, then each element after its length.
func (p columnPlan[T]) Encode(value any, buf []byte) ([]byte, error) {
	column, _ := value.([]T) // PlanEncode has looked
	total := 20
	for i := range column {
		total += 4 + p.size(column[i])
	}
	buf = slices.Grow(buf, total)
	head := []uint32{1, 0, p.element, uint32(len(column)), 1} //nolint:gosec // a batch
	if len(column) == 0 {
		head = []uint32{0, 0, p.element}
	}
	for _, word := range head {
		buf = binary.BigEndian.AppendUint32(buf, word)
	}
	for i := range column {
		buf = binary.BigEndian.AppendUint32(buf, uint32(p.size(column[i]))) //nolint:gosec // a text or a body
		buf = p.write(buf, column[i])
	}
	return buf, nil
}
