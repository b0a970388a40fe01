package gate

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Pass is the permission of one user to attempt in one sale, at most one order. What
// makes it single is its nonce, which is the idempotency key of every attempt with
// it: however often and wherever it is presented, it is one order.
type Pass struct {
	Sale      sale.Number
	User      string // bound by the text, not readable from it
	Nonce     string // from Nonce
	NotBefore time.Time
	Expires   time.Time // exclusive; both are cut down to milliseconds
	// Proved says that the user had proved himself when it was given out.
	Proved bool
}

// MaxPasses is how many passes of one user can become orders of one sale.
const MaxPasses = 128

// ErrTooManyPasses says that MaxPasses of the user's passes have become orders.
var ErrTooManyPasses = errors.New("gate: the user has used up all passes of this sale")

const (
	passKind       = 'p'
	provedPassKind = 'P'
	noncePre       = "pass_"
	nonceLen       = 16
	tagLen         = 16
	timeLen        = 6 // milliseconds since 1970, good until the year 10889

	passSale  = tokenHead
	passFrom  = passSale + 4
	passUntil = passFrom + timeLen
	passUser  = passUntil + timeLen
	passNonce = passUser + tagLen
	passMAC   = passNonce + nonceLen
	passLen   = passMAC + tokenMAC // 69 bytes, 92 characters
)

// Nonce returns the nonce of the user's n-th pass of the sale with this key, n from 0:
// "pass_" and the first 16 bytes of HMAC-SHA-256(sale key, "pass" ‖ len(user) ‖ user ‖
// n) in hexadecimal digits, the numbers as 4 bytes big-endian. Nobody without the key
// can predict it, and asking again gives the same.
func Nonce(k sale.Key, user string, n uint32) string {
	sum := saleMAC(k, "pass", user, string(binary.BigEndian.AppendUint32(nil, n)))
	return noncePre + hex.EncodeToString(sum[:nonceLen])
}

// saleMAC returns HMAC-SHA-256(sale key, use ‖ len(user) ‖ user ‖ rest). What the sale
// key signs elsewhere begins with a length below 2^24, so never with a letter.
func saleMAC(k sale.Key, use, user, rest string) []byte {
	b := append(make([]byte, 0, len(use)+4+len(user)+len(rest)), use...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(user))) //nolint:gosec // at most 128 bytes, checked at the door
	b = append(append(b, user...), rest...)
	mac := hmac.New(sha256.New, k[:])
	_, _ = mac.Write(b)
	return mac.Sum(b[:0])
}

// FreshNonce returns the first of the user's nonces that has not become an order, and
// its number: became looks one up. Asking again gives the same until there is an order
// under it, so a user never has two passes at a time. ErrTooManyPasses after MaxPasses
// of them; an error of became as it is.
func FreshNonce(ctx context.Context, k sale.Key, user string, became func(ctx context.Context, nonce string) (bool, error)) (nonce string, n uint32, err error) {
	for n = range uint32(MaxPasses) {
		nonce = Nonce(k, user, n)
		order, err := became(ctx, nonce)
		if err != nil {
			return "", 0, err
		}
		if !order {
			return nonce, n, nil
		}
	}
	return "", 0, ErrTooManyPasses
}

// SignPass returns the text of a pass: 92 characters of the alphabet of base64 for
// URLs. The same pass has the same text for as long as the same key signs. ErrNoKey;
// any other error is a mistake in p.
func (k Keys) SignPass(p Pass, now time.Time) (string, error) {
	key := k.signer(now)
	if key == nil {
		return "", ErrNoKey
	}
	var token [passLen]byte
	if !decodeNonce(token[passNonce:passMAC], p.Nonce) {
		return "", fmt.Errorf("gate: %q is not the nonce of a pass", p.Nonce)
	}
	if !putTime(token[passFrom:], p.NotBefore) || !putTime(token[passUntil:], p.Expires) || !p.NotBefore.Before(p.Expires) {
		return "", fmt.Errorf("gate: a pass cannot be good from %v to %v", p.NotBefore, p.Expires)
	}
	binary.BigEndian.PutUint32(token[passSale:], uint32(p.Sale))
	tag := userTag(p.User)
	copy(token[passUser:], tag[:])
	kind := byte(passKind)
	if p.Proved {
		kind = provedPassKind
	}
	return key.seal(kind, token[:]), nil
}

// VerifyPass reads a pass that user presents to buy in this sale. The pass is returned
// if it is Sound, or Expired: then it still opens a replay. It costs no I/O.
func (k Keys) VerifyPass(text, user string, number sale.Number, now time.Time) (Pass, Flaw) {
	var token [passLen]byte
	id, flaw := k.open(provedPassKind, text, token[:], now)
	proved := flaw == Sound
	if flaw == Malformed {
		id, flaw = k.open(passKind, text, token[:], now)
	}
	if flaw != Sound {
		return Pass{}, flaw
	}
	tag := userTag(user)
	if !hmac.Equal(tag[:], token[passUser:passNonce]) {
		return Pass{}, ForeignUser
	}
	if sale.Number(binary.BigEndian.Uint32(token[passSale:])) != number {
		return Pass{}, ForeignSale
	}
	p := Pass{
		Sale: number, User: user, Nonce: noncePre + hex.EncodeToString(token[passNonce:passMAC]),
		NotBefore: timeOf(token[passFrom:]), Expires: timeOf(token[passUntil:]), Proved: proved,
	}
	key, _ := k.verifier(id, now)
	switch {
	case p.Expires.Sub(p.NotBefore) > 2*MaxPassLife:
		return Pass{}, Forged // the house makes none that is good for so long
	case key != nil && !key.retiredAt.IsZero() && p.NotBefore.After(key.retiredAt.Add(KeySettle)):
		return Pass{}, RetiredKey // whoever made it has the key, and is not the house
	case now.Before(p.NotBefore.Add(-MaxSkew)): // a clock may be a little behind
		return Pass{}, NotYet
	case !now.Before(p.Expires):
		return p, Expired
	}
	return p, Sound
}

// decodeNonce reads the text that Nonce returns, and no other.
func decodeNonce(into []byte, nonce string) bool {
	digits, ok := strings.CutPrefix(nonce, noncePre)
	if !ok || len(digits) != 2*nonceLen || strings.ContainsAny(digits, "ABCDEF") {
		return false
	}
	_, err := hex.Decode(into, []byte(digits))
	return err == nil
}

// userTag stands for a user in what the gate signs. It is as long as a signature, so
// nobody finds two users with the same.
func userTag(user string) (tag [tagLen]byte) {
	sum := sha256.Sum256([]byte("doorbuster user\x00" + user))
	copy(tag[:], sum[:])
	return tag
}

func putTime(into []byte, t time.Time) bool {
	ms := t.UnixMilli()
	if t.IsZero() || ms < 0 || ms >= 1<<(8*timeLen) {
		return false
	}
	var wide [8]byte
	binary.BigEndian.PutUint64(wide[:], uint64(ms))
	copy(into[:timeLen], wide[8-timeLen:])
	return true
}

func timeOf(b []byte) time.Time {
	var wide [8]byte
	copy(wide[8-timeLen:], b[:timeLen])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(wide[:]))).UTC() //nolint:gosec // 48 bits
}

// Path returns the segment of the hidden address at which this pass buys: 32
// hexadecimal digits that nobody without the sale's key can predict. A sale that wants
// it gives it out with the pass and nowhere else.
func Path(k sale.Key, user, nonce string) string {
	return hex.EncodeToString(saleMAC(k, "path", user, nonce)[:tagLen])
}

// PathMatches reports whether segment is the Path of this pass, in a time that does
// not depend on where they differ.
func PathMatches(k sale.Key, user, nonce, segment string) bool {
	return hmac.Equal([]byte(Path(k, user, nonce)), []byte(segment))
}
