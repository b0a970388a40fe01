package redislimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// namer makes keys.
type namer struct {
	prefix string
	hashes sync.Pool // of hash.Hash
}

func newNamer(prefix string, key []byte) *namer {
	n := &namer{prefix: prefix + "1:{"}
	key = append([]byte(nil), key...)
	n.hashes.New = func() any { return hmac.New(sha256.New, key) }
	return n
}

// tag is what stands for a subject, between the braces of its keys.
func (n *namer) tag(subject string) string {
	var sum [sha256.Size]byte
	if h, ok := n.hashes.Get().(hash.Hash); ok {
		h.Reset()
		_, _ = h.Write([]byte(subject)) // it never fails
		h.Sum(sum[:0])
		n.hashes.Put(h)
	}
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// key is that of a rate of a subject with that tag.
func (n *namer) key(tag string, p *plan.Plan) string {
	letter := ""
	switch p.Rate.Algorithm {
	case limit.FixedWindow:
		letter = "f"
	case limit.SlidingWindow:
		letter = "s"
	case limit.TokenBucket:
		letter = "t"
	case limit.LeakyBucket:
		letter = "l"
	case limit.Concurrency:
		letter = "c"
	}
	return n.prefix + tag + "}:" + letter + ":" + p.Rate.Name
}

// slot is the Cluster's of a tag (CRC-16/XMODEM).
func slot(tag string) int {
	crc := uint16(0)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

const slots = 16_384
