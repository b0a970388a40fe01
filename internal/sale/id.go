package sale

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"hash/fnv"
	"strings"
)

// Number identifies a sale for ever. The ledger hands numbers out with the
// sale and never reuses one, so nothing of a deleted sale can touch its
// successor under the same slug. Zero is no sale.
type Number uint32

// Key is the secret of one sale, born with it in the ledger. Whoever holds it
// can predict order ids, so it never leaves the process.
type Key [32]byte

// NewKey draws a key from the system's random source.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k[:]) // crypto/rand.Read never fails since Go 1.24
	return k
}

// String hides the key, so that no log line or error can carry it.
func (Key) String() string { return "[secret]" }

// GoString hides the key in %#v too.
func (Key) GoString() string { return "[secret]" }

// OrderID is derived, not drawn: 4 bytes sale number (big-endian) followed by
// the first 12 bytes of HMAC-SHA-256(sale key, len(user) ‖ user ‖ len(key) ‖
// idempotency key), lengths as 4 bytes big-endian. The same click therefore has
// the same id before and after any crash. The zero value is no order.
type OrderID [16]byte

const (
	orderPrefix = "ord_"
	idTextLen   = 26 // 128 bits in base32, 5 bits a character
	tagLen      = 12
)

// DeriveOrderID returns the id of the order that user's idempotency key stands
// for in the sale with this number and key.
func DeriveOrderID(k Key, n Number, user, key string) OrderID {
	return NewNamer(k, n).OrderID(user, key)
}

// Namer derives the order ids of one sale, many without setting the key up for
// each. It is not safe for concurrent use.
type Namer struct {
	number Number
	mac    hash.Hash
	buf    []byte
}

// NewNamer returns the namer of the sale with this number and key.
func NewNamer(k Key, n Number) *Namer {
	return &Namer{number: n, mac: hmac.New(sha256.New, k[:])}
}

// OrderID returns what DeriveOrderID does.
func (n *Namer) OrderID(user, key string) OrderID {
	b := n.buf[:0]
	for _, part := range [2]string{user, key} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part))) //nolint:gosec // both are at most 128 bytes, checked at the door
		b = append(b, part...)
	}
	n.mac.Reset()
	n.mac.Write(b)
	b = n.mac.Sum(b[:0])
	n.buf = b
	var id OrderID
	binary.BigEndian.PutUint32(id[:4], uint32(n.number))
	copy(id[4:], b[:tagLen])
	return id
}

// replacementMark cannot occur in a key sent by a client, which is visible
// ASCII, so a replacement's id never meets the id of a click.
const replacementMark = "\x00replaces:"

// ReplacementID returns the id of the one order that may take the place of an
// expired or cancelled order whose payment arrived late. It is derived from the
// old id, so an order can be replaced at most once, by construction.
func ReplacementID(k Key, user string, old OrderID) OrderID {
	return DeriveOrderID(k, old.Sale(), user, replacementMark+string(old[:]))
}

// Sale returns the number of the sale that the order belongs to.
func (id OrderID) Sale() Number { return Number(binary.BigEndian.Uint32(id[:4])) }

// IsZero reports whether id is the zero value.
func (id OrderID) IsZero() bool { return id == OrderID{} }

// String returns "ord_" and 26 lower-case base32 characters.
func (id OrderID) String() string { return orderPrefix + encodeID(id) }

// MarshalText writes the text form; the zero value becomes empty.
func (id OrderID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (id *OrderID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = OrderID{}
		return nil
	}
	parsed, err := ParseOrderID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// ParseOrderID reads the text form of an order id. Exactly one text stands for
// each id: upper case, padding and stray bits in the last character are
// refused with CodeOrderNotFound, since no order can have such a name.
func ParseOrderID(text string) (OrderID, error) {
	raw, ok := strings.CutPrefix(text, orderPrefix)
	id, valid := decodeID(raw)
	if !ok || !valid || OrderID(id).IsZero() {
		return OrderID{}, OrderNotFound()
	}
	return OrderID(id), nil
}

// RefundID names a refund record. It is derived from the payment it returns,
// so one captured charge has at most one record.
type RefundID [16]byte

const refundPrefix = "rfd_"

// DeriveRefundID returns the id of the refund record of a payment.
func DeriveRefundID(paymentID string) RefundID {
	sum := sha256.Sum256([]byte("doorbuster refund\x00" + paymentID))
	return RefundID(sum[:16])
}

// String returns "rfd_" and 26 lower-case base32 characters.
func (id RefundID) String() string { return refundPrefix + encodeID(id) }

// ParseRefundID reads the text form of a refund id.
func ParseRefundID(text string) (RefundID, error) {
	raw, ok := strings.CutPrefix(text, refundPrefix)
	id, valid := decodeID(raw)
	if !ok || !valid {
		return RefundID{}, RefundNotFound()
	}
	return RefundID(id), nil
}

// LetterID names a dead letter: a slip that could not be judged. It is derived
// from the place of the slip, so one slip has at most one letter. The zero value is
// no letter.
type LetterID [16]byte

const letterPrefix = "dlq_"

// IsZero reports whether id is the zero value.
func (id LetterID) IsZero() bool { return id == LetterID{} }

// String returns "dlq_" and 26 lower-case base32 characters.
func (id LetterID) String() string { return letterPrefix + encodeID(id) }

// ParseLetterID reads the text form of a dead letter's id. Exactly one text stands
// for each id; any other is refused with CodeLetterNotFound.
func ParseLetterID(text string) (LetterID, error) {
	raw, ok := strings.CutPrefix(text, letterPrefix)
	id, valid := decodeID(raw)
	if !ok || !valid || LetterID(id).IsZero() {
		return LetterID{}, LetterNotFound()
	}
	return LetterID(id), nil
}

// EventID names one committed transition: the sale's number and the number of
// the journal row. Delivered more than once, it is the same event.
func EventID(n Number, seq uint64) string {
	var raw [16]byte
	binary.BigEndian.PutUint32(raw[:4], uint32(n))
	binary.BigEndian.PutUint64(raw[8:], seq)
	return "evt_" + encodeID(raw)
}

// UserHash is the 64-bit hash under which an instance remembers who holds
// something. Two users may share one; that only sends the second to the ledger.
func UserHash(user string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(user))
	return h.Sum64()
}

func encodeID(id [16]byte) string {
	var text [idTextLen]byte
	base32.StdEncoding.WithPadding(base32.NoPadding).Encode(text[:], id[:])
	for i, c := range text {
		if c >= 'A' {
			text[i] = c + ('a' - 'A')
		}
	}
	return string(text[:])
}

func decodeID(text string) ([16]byte, bool) {
	var id [16]byte
	if len(text) != idTextLen {
		return id, false
	}
	var upper [idTextLen]byte
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return id, false
		}
		if c >= 'a' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	var raw [idTextLen]byte
	n, err := base32.StdEncoding.WithPadding(base32.NoPadding).Decode(raw[:], upper[:])
	if err != nil || n != len(id) {
		return id, false
	}
	copy(id[:], raw[:n])
	return id, encodeID(id) == text // the two spare bits must be zero
}
