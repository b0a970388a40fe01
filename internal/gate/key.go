package gate

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// ErrNoKey says that there is nothing to sign with: the ledger has no key yet.
var ErrNoKey = errors.New("gate: there is no key to sign with")

// KeySettle is how old a key must be before it signs, if there is an older one: by
// then every instance has heard of it, so nobody meets a signature of a key that it
// does not know. It is more than two looks and the wait between them.
const KeySettle = 5 * time.Second

// Keys is what the gate signs and verifies with. It is an immutable value; the zero
// value signs nothing and knows no key. Safe for concurrent use.
type Keys struct {
	keep time.Duration
	list []*signingKey // newest first
}

// signingKey is one key with what it needs to sign.
type signingKey struct {
	id        uint32
	createdAt time.Time
	retiredAt time.Time // zero while in use
	macs      *sync.Pool
}

// NewKeys returns the keys of this list, in any order. A retired key verifies for keep,
// which must be the longest life of what it signed, and KeySettle more, since it may
// sign for so long; from then on it is known as retired. Keys that are already beyond
// that at now do not keep their secret.
func NewKeys(list []ledger.GateKey, keep time.Duration, now time.Time) Keys {
	k := Keys{keep: max(keep, 0) + KeySettle, list: make([]*signingKey, 0, len(list))}
	for i := range list {
		key := &signingKey{id: list[i].ID, createdAt: list[i].CreatedAt, retiredAt: list[i].RetiredAt}
		if !key.over(k.keep, now) {
			secret := list[i].Secret
			key.macs = &sync.Pool{New: func() any { return &signature{mac: hmac.New(sha256.New, secret[:])} }}
		}
		k.list = append(k.list, key)
	}
	slices.SortFunc(k.list, func(a, b *signingKey) int { return cmp.Compare(b.id, a.id) })
	return k
}

// over reports whether the key was retired longer than that before now.
func (k *signingKey) over(than time.Duration, now time.Time) bool {
	return !k.retiredAt.IsZero() && now.Sub(k.retiredAt) > than
}

// signer returns the key that signs at now: the newest that is in use, or, while that
// one is younger than KeySettle, the one that it replaces; nil without keys in use.
func (k Keys) signer(now time.Time) *signingKey {
	var young *signingKey
	for _, key := range k.list {
		switch {
		case key.over(KeySettle, now):
		case now.Sub(key.createdAt) >= KeySettle:
			return key
		case young == nil:
			young = key
		}
	}
	return young
}

// SigningKey returns the number of the key that signs at now; 0 without keys.
func (k Keys) SigningKey(now time.Time) uint32 {
	if s := k.signer(now); s != nil {
		return s.id
	}
	return 0
}

// verifier returns the key of this number, if it still verifies.
func (k Keys) verifier(id uint32, now time.Time) (*signingKey, Flaw) {
	for _, key := range k.list {
		if key.id != id {
			continue
		}
		if key.macs == nil || key.over(k.keep, now) {
			return nil, RetiredKey
		}
		return key, Sound
	}
	return nil, UnknownKey
}

// signature is what computing one takes; the states are pooled, as setting a key up
// costs more than a signature.
type signature struct {
	mac hash.Hash
	buf []byte
}

// sum returns HMAC-SHA-256(key, use ‖ 0 ‖ data). Nothing that is signed for one use
// verifies for another.
func (k *signingKey) sum(use string, data []byte) (out [sha256.Size]byte) {
	s, _ := k.macs.Get().(*signature)
	s.buf = append(append(append(s.buf[:0], use...), 0), data...)
	s.mac.Reset()
	_, _ = s.mac.Write(s.buf)
	s.buf = s.mac.Sum(s.buf[:0])
	copy(out[:], s.buf)
	k.macs.Put(s)
	return out
}

// Tokens are one kind byte, four bytes of key number, what they say, and the first
// bytes of the signature of all that, in base64 for URLs. The length of each kind is
// a multiple of three, so one text stands for one token.
const (
	tokenHead = 5
	tokenMAC  = 16
)

// seal completes a token of which the head is still to be filled in, and returns its
// text.
func (k *signingKey) seal(kind byte, token []byte) string {
	token[0] = kind
	binary.BigEndian.PutUint32(token[1:], k.id)
	body := token[:len(token)-tokenMAC]
	sum := k.sum(string(kind), body)
	copy(token[len(body):], sum[:tokenMAC])
	return base64.RawURLEncoding.EncodeToString(token)
}

// open reads the text of a token of this kind into token, whose length is that of the
// kind, and checks the signature. It returns the number of the key.
func (k Keys) open(kind byte, text string, token []byte, now time.Time) (uint32, Flaw) {
	if len(text) != base64.RawURLEncoding.EncodedLen(len(token)) {
		return 0, Malformed
	}
	// The decoder passes over line breaks, which then are missing at the end.
	if n, err := base64.RawURLEncoding.Decode(token, []byte(text)); err != nil || n != len(token) || token[0] != kind {
		return 0, Malformed
	}
	id := binary.BigEndian.Uint32(token[1:])
	key, flaw := k.verifier(id, now)
	if flaw != Sound {
		return id, flaw
	}
	body := token[:len(token)-tokenMAC]
	sum := key.sum(string(kind), body)
	if !hmac.Equal(sum[:tokenMAC], token[len(body):]) {
		return id, Forged
	}
	return id, Sound
}
