package stock

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// MAC proves that an instance of ours made a slip: the first 16 bytes of
// HMAC-SHA-256 under a key derived from the sale's. Write access to the counter
// therefore mints no orders.
type MAC [16]byte

// Slip is what the counter leaves in its tray for a taken attempt.
type Slip struct {
	ID       sale.OrderID
	User     string
	Item     int
	Quantity int64
	Epoch    int64
	Terms    int64
	AskedAt  time.Time // under the MAC
	TakenAt  time.Time // by the lane's clock, in the ledger's time
	MAC      MAC
}

// MaxDrift is how far TakenAt may be from AskedAt: the counter says when, but not
// freely.
const MaxDrift = time.Minute

// Signer makes and checks the MACs of one sale. It is not safe for concurrent use.
type Signer struct {
	number sale.Number
	slips  hash.Hash
	notes  hash.Hash // of receipts
	buf    []byte    // reused, like the next two
	text   []byte
	digest []byte
}

// NewSigner returns the signer of a sale. The keys are derived from the sale's
// key, which every instance has from the ledger.
func NewSigner(k sale.Key, n sale.Number) *Signer {
	return &Signer{number: n, slips: hmac.New(sha256.New, derive(k, "slip")), notes: hmac.New(sha256.New, derive(k, "receipt"))}
}

func derive(k sale.Key, use string) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte("doorbuster " + use + " key"))
	return mac.Sum(nil)
}

// Sign returns the MAC of a slip; TakenAt is not under it.
func (s *Signer) Sign(slip *Slip) MAC {
	s.buf = appendPromise(s.buf[:0], s.number, slip)
	return s.sum(s.slips, s.buf)
}

// Check reports whether the slip is one of this sale that an instance of ours
// made, taken about when it was asked for.
func (s *Signer) Check(slip *Slip) bool {
	want := s.Sign(slip)
	drift := slip.TakenAt.Sub(slip.AskedAt).Abs()
	return hmac.Equal(want[:], slip.MAC[:]) && slip.ID.Sale() == s.number && drift <= MaxDrift
}

func (s *Signer) sum(mac hash.Hash, text []byte) (m MAC) {
	mac.Reset()
	mac.Write(text)
	s.digest = mac.Sum(s.digest[:0])
	copy(m[:], s.digest)
	return m
}

func appendPromise(b []byte, n sale.Number, s *Slip) []byte {
	b = append(b, "doorbuster slip 1\n"...)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = append(b, s.ID[:]...)
	for _, v := range [...]int64{s.Epoch, s.Terms, int64(s.Item), s.Quantity, s.AskedAt.UnixMilli()} {
		b = binary.BigEndian.AppendUint64(b, uint64(v)) //nolint:gosec // the bits matter, not the sign
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.User))) //nolint:gosec // at most 128 bytes
	return append(b, s.User...)
}

// The fields of an entry in the tray, all texts of decimal numbers but for the
// last: per slip 12 bytes of the id after the sale's number, 1 byte item, 3 bytes
// quantity, 16 bytes MAC, 1 byte length of the user, the user; big-endian.
const (
	FieldVersion = "v"
	FieldEpoch   = "e"
	FieldTerms   = "t"
	FieldAsked   = "a" // ms
	FieldTaken   = "k" // ms
	FieldSlips   = "s"

	// EntryVersion is the version of the layout above.
	EntryVersion = "1"

	idTail    = 12
	slipFixed = idTail + 1 + 3 + len(MAC{}) + 1
)

// ErrUnreadable says that an entry or a receipt cannot be what an instance wrote.
var ErrUnreadable = errors.New("stock: unreadable")

// ReadSlips reads an entry of a sale's tray. Slips before the first unreadable
// one are returned together with the error.
func ReadSlips(n sale.Number, e *Entry) ([]Slip, error) {
	if v := e.Fields[FieldVersion]; v != EntryVersion {
		return nil, fmt.Errorf("%w: entry of version %q", ErrUnreadable, v)
	}
	var head [4]int64
	for i, name := range [...]string{FieldEpoch, FieldTerms, FieldAsked, FieldTaken} {
		v, err := strconv.ParseInt(e.Fields[name], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: field %s is %q", ErrUnreadable, name, e.Fields[name])
		}
		head[i] = v
	}
	out := make([]Slip, 0, CountSlips(e))
	for raw := e.Fields[FieldSlips]; raw != ""; {
		if len(raw) < slipFixed || len(raw) < slipFixed+int(raw[slipFixed-1]) {
			return out, fmt.Errorf("%w: slip %d is cut off", ErrUnreadable, len(out))
		}
		end := slipFixed + int(raw[slipFixed-1])
		s := Slip{
			User: raw[slipFixed:end], Item: int(raw[idTail]),
			Quantity: int64(raw[idTail+1])<<16 | int64(raw[idTail+2])<<8 | int64(raw[idTail+3]),
			Epoch:    head[0], Terms: head[1],
			AskedAt: time.UnixMilli(head[2]).UTC(), TakenAt: time.UnixMilli(head[3]).UTC(),
		}
		binary.BigEndian.PutUint32(s.ID[:4], uint32(n))
		copy(s.ID[4:], raw[:idTail])
		copy(s.MAC[:], raw[idTail+4:])
		out = append(out, s)
		raw = raw[end:]
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: entry without slips", ErrUnreadable)
	}
	return out, nil
}

// CountSlips returns how many slips an entry holds, without reading them; none
// for one that is unreadable from the start.
func CountSlips(e *Entry) (n int64) {
	for raw := e.Fields[FieldSlips]; len(raw) >= slipFixed; n++ {
		end := slipFixed + int(raw[slipFixed-1])
		if len(raw) < end {
			break
		}
		raw = raw[end:]
	}
	return n
}

// SlipSize returns how many bytes AppendSlip appends for a slip of user.
func SlipSize(user string) int { return slipFixed + len(user) }

// AppendSlip appends the slip in the layout of FieldSlips.
func AppendSlip(b []byte, s *Slip) []byte {
	b = append(b, s.ID[4:]...)
	b = append(b, byte(s.Item), byte(s.Quantity>>16), byte(s.Quantity>>8), byte(s.Quantity)) //nolint:gosec // items are at most 100, quantities at most 10^6
	b = append(b, s.MAC[:]...)
	b = append(b, byte(len(s.User))) //nolint:gosec // at most 128 bytes
	return append(b, s.User...)
}

const (
	receiptPrefix = "r1."
	maxReceipt    = 512
)

// Receipt returns the buyer's signed copy of a slip, for a header: visible ASCII.
func (s *Signer) Receipt(slip *Slip) string {
	s.buf = appendReceipt(s.buf[:0], s.number, slip)
	mac := s.sum(s.notes, s.buf)
	s.buf = append(s.buf, mac[:]...)
	s.text = base64.RawURLEncoding.AppendEncode(append(s.text[:0], receiptPrefix...), s.buf)
	return string(s.text)
}

func appendReceipt(b []byte, n sale.Number, slip *Slip) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	for _, v := range [...]int64{slip.Epoch, slip.Terms, slip.AskedAt.UnixMilli(), slip.TakenAt.UnixMilli()} {
		b = binary.BigEndian.AppendUint64(b, uint64(v)) //nolint:gosec // the bits matter, not the sign
	}
	return AppendSlip(b, slip)
}

// ReceiptSale returns the sale that a receipt says it is of; nothing is checked.
func ReceiptSale(text string) (sale.Number, error) {
	raw, err := receiptBytes(text)
	if err != nil {
		return 0, err
	}
	return sale.Number(binary.BigEndian.Uint32(raw)), nil
}

func receiptBytes(text string) ([]byte, error) {
	body, found := strings.CutPrefix(text, receiptPrefix)
	if !found || len(text) > maxReceipt || strings.ContainsAny(body, "\r\n") { // which the decoder would skip
		return nil, ErrUnreadable
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(raw) < 4+4*8+slipFixed+len(MAC{}) {
		return nil, ErrUnreadable
	}
	return raw, nil
}

// Open reads a receipt of this sale that the sale's signer made.
func (s *Signer) Open(text string) (Slip, error) {
	raw, err := receiptBytes(text)
	if err != nil {
		return Slip{}, err
	}
	body, mac := raw[:len(raw)-len(MAC{})], raw[len(raw)-len(MAC{}):]
	want := s.sum(s.notes, body)
	if !hmac.Equal(want[:], mac) || sale.Number(binary.BigEndian.Uint32(body)) != s.number {
		return Slip{}, fmt.Errorf("%w: not a receipt of this sale", ErrUnreadable)
	}
	var head [4]int64
	for i := range head {
		head[i] = int64(binary.BigEndian.Uint64(body[4+8*i:])) //nolint:gosec // the bits matter, not the sign
	}
	e := Entry{Fields: map[string]string{
		FieldVersion: EntryVersion, FieldEpoch: strconv.FormatInt(head[0], 10), FieldTerms: strconv.FormatInt(head[1], 10),
		FieldAsked: strconv.FormatInt(head[2], 10), FieldTaken: strconv.FormatInt(head[3], 10), FieldSlips: string(body[4+4*8:]),
	}}
	slips, err := ReadSlips(s.number, &e)
	if err != nil || len(slips) != 1 {
		return Slip{}, errors.Join(ErrUnreadable, err)
	}
	return slips[0], nil
}
