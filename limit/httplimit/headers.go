package httplimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Unit is what a quota counts.
type Unit uint8

// The units of draft-ietf-httpapi-ratelimit-headers-10.
const (
	Requests     Unit = iota // the default; it is not written out
	ContentBytes             // "content-bytes"
	Concurrent               // "concurrent-requests"
)

// maxInteger is the largest integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// maxName bounds the name of a policy in bytes.
const maxName = 64

// Policy is one quota in the form in which RateLimit-Policy tells of it. Create it
// with NewPolicy, once for each limit; the zero value is not written. Policies are
// immutable and safe for concurrent use.
type Policy struct {
	name string // "user", with the quotes
	text string // "user";q=100;w=60
}

// NewPolicy returns the policy of this name: 1–64 bytes of visible ASCII or spaces.
// The quota is counted in unit over the window; a window of 0 is not written, one
// with a fraction of a second is rounded up, as w is in whole seconds.
func NewPolicy(name string, quota int64, window time.Duration, unit Unit) (Policy, error) {
	if name == "" || len(name) > maxName {
		return Policy{}, fmt.Errorf("httplimit: the name of a policy has 1 to %d bytes, not %d", maxName, len(name))
	}
	b := []byte{'"'}
	for i := range len(name) {
		c := name[i]
		if c < ' ' || c > '~' {
			return Policy{}, fmt.Errorf("httplimit: the name of the policy %q is not visible ASCII", name)
		}
		if c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	p := Policy{name: string(append(b, '"'))}
	if quota < 0 || quota > maxInteger {
		return Policy{}, fmt.Errorf("httplimit: the quota %d of the policy %q is out of range", quota, name)
	}
	if window < 0 {
		return Policy{}, fmt.Errorf("httplimit: the window %v of the policy %q is negative", window, name)
	}
	p.text = p.name + ";q=" + strconv.FormatInt(quota, 10)
	switch unit {
	case Requests:
	case ContentBytes:
		p.text += `;qu="content-bytes"`
	case Concurrent:
		p.text += `;qu="concurrent-requests"`
	default:
		return Policy{}, fmt.Errorf("httplimit: the policy %q counts in an unknown unit", name)
	}
	if window > 0 {
		p.text += ";w=" + strconv.FormatInt(seconds(window), 10)
	}
	return p, nil
}

// Partition names whose budget a policy counts, without telling the id: only a Hider
// makes one. The zero value is not written.
type Partition struct {
	set bool
	sum [partitionLen]byte
}

const partitionLen = 9 // 72 bits are 12 characters of base64, with no padding

// Hider turns ids into partition keys. The same id has the same key for as long as the
// secret stays the same; without the secret nobody can tell or try which id it is.
type Hider struct{ secret []byte }

// NewHider returns the Hider with this secret, which it copies.
func NewHider(secret []byte) Hider { return Hider{secret: append([]byte(nil), secret...)} }

// Partition returns the partition key of an id.
func (h Hider) Partition(id string) Partition {
	mac := hmac.New(sha256.New, h.secret)
	_, _ = mac.Write([]byte("ratelimit partition\x00"))
	_, _ = mac.Write([]byte(id))
	p := Partition{set: true}
	copy(p.sum[:], mac.Sum(nil))
	return p
}

// State is how one policy stands for a client.
type State struct {
	Policy Policy
	// Remaining is how much of the quota is left, at least 0.
	Remaining int64
	// Reset is the time until more of it is there, which need not be all of it; it is
	// rounded up to seconds. 0 or less: nothing is known or the quota is full, and
	// nothing is written.
	Reset time.Duration
	// Partition names whose quota it is; the zero value is not written.
	Partition Partition
}

// The names of the fields, in the form in which http.Header keeps them.
const (
	fieldPolicy = "Ratelimit-Policy"
	fieldState  = "Ratelimit"
	fieldRetry  = "Retry-After"
)

// Write sets RateLimit-Policy and RateLimit to tell of these states, in their order.
// It allocates the two values and their list; without states it does nothing.
func Write(h http.Header, states ...State) {
	var policies, current [512]byte // on the stack; longer ones grow
	p, c := policies[:0], current[:0]
	for i := range states {
		s := &states[i]
		if s.Policy.name == "" {
			continue
		}
		p = appendPartition(append(separate(p), s.Policy.text...), s.Partition)
		c = append(separate(c), s.Policy.name...)
		c = append(c, ";r="...)
		c = strconv.AppendInt(c, min(max(s.Remaining, 0), maxInteger), 10)
		if s.Reset > 0 {
			c = append(c, ";t="...)
			c = strconv.AppendInt(c, seconds(s.Reset), 10)
		}
		c = appendPartition(c, s.Partition)
	}
	if len(c) == 0 {
		return
	}
	values := [...]string{string(p), string(c)}
	h[fieldPolicy], h[fieldState] = values[:1:1], values[1:]
}

// Refuse sets what Write does and Retry-After: the wait in whole seconds, at least 1,
// and not earlier than the Reset of any state that has nothing left. A client that
// comes back then is not refused by these policies again, if the wait was right.
func Refuse(h http.Header, wait time.Duration, states ...State) {
	Write(h, states...)
	for i := range states {
		if states[i].Remaining <= 0 {
			wait = max(wait, states[i].Reset)
		}
	}
	h[fieldRetry] = []string{strconv.FormatInt(max(seconds(wait), 1), 10)}
}

func separate(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	return append(b, ", "...)
}

func appendPartition(b []byte, p Partition) []byte {
	if !p.set {
		return b
	}
	b = append(b, ";pk=:"...)
	b = base64.StdEncoding.AppendEncode(b, p.sum[:])
	return append(b, ':')
}

// seconds rounds up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
