package gate

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Challenge is work that costs the client's machine some time and the gate next to
// none: find the number for which SHA-256(salt ‖ number) is Challenge. Its JSON is
// version 1 of what the ALTCHA widget solves. The salt carries what the challenge is
// bound to, and ends in "&", so that no digit can move from the number into it.
type Challenge struct {
	Algorithm string `json:"algorithm"` // SHA-256
	Challenge string `json:"challenge"` // hexadecimal
	MaxNumber int    `json:"maxnumber"` // the number is in [0, MaxNumber]
	Salt      string `json:"salt"`
	Signature string `json:"signature"` // hexadecimal
}

// Bound is whom and what a challenge is for.
type Bound struct {
	User string
	Sale sale.Number
}

// Solved is a challenge that somebody has solved.
type Solved struct {
	ID        string    // 24 hexadecimal digits, drawn for this challenge
	MaxNumber int       // how hard it was
	Expires   time.Time // exclusive
}

// How hard challenges are, as the largest number; half of it is the expected count of
// hashes. See Difficulty.
const (
	EasiestChallenge = 50_000
	HardestChallenge = 4_000_000
)

const (
	algorithm      = "SHA-256"
	challengeUse   = "challenge"
	numberUse      = "challenge number"
	challengeIDLen = 12
	maxPayload     = 2048 // bytes of base64; the widget sends about 520
)

// Difficulty returns how hard a challenge should be: EasiestChallenge up to half of
// the load, then growing to eight times as much at full load (load is 0 to 1), and twice
// as much for each strike, up to HardestChallenge. Expected hashes, and what they cost
// the widget on a small machine (four workers that ask the browser for each hash, some
// 15,000 a second each), fast script (0.3 and 1 MH/s) and a native solver on one core
// (10 MH/s):
//
//	                        hashes    0.06 MH/s   0.3 MH/s   1 MH/s   10 MH/s
//	calm, no strike           25,000      0.4 s     0.08 s   0.03 s   0.003 s
//	full load, no strike     200,000        3 s      0.7 s    0.2 s    0.02 s
//	calm, 3 strikes          200,000        3 s      0.7 s    0.2 s    0.02 s
//	hardest                2,000,000       33 s      6.7 s    2.0 s     0.2 s
//
// The worst case is twice that, so the hardest stays within the 90 s after which the
// widget gives up.
//
// A native solver is far faster than a browser: work puts a price on many accounts, it
// does not tell people from machines.
func Difficulty(load float64, strikes int) int {
	if !(load <= 1) { // beyond full, or not a number
		load = 1
	}
	easiest := EasiestChallenge * math.Exp2(6*max(load-0.5, 0))
	return int(min(math.Ldexp(easiest, min(max(strikes, 0), 16)), HardestChallenge))
}

// NewChallenge returns a challenge for b whose number is at most maxNumber, which is
// brought into [1, HardestChallenge], and which is good until expires, exclusive, in
// whole seconds. ErrNoKey without a key.
func (k Keys) NewChallenge(b Bound, maxNumber int, expires, now time.Time) (Challenge, error) {
	key := k.signer(now)
	if key == nil {
		return Challenge{}, ErrNoKey
	}
	var id [challengeIDLen]byte
	_, _ = rand.Read(id[:]) // it never fails
	s := salt{
		id: hex.EncodeToString(id[:]), key: key.id, sale: b.Sale, user: tagText(b.User),
		most: min(max(maxNumber, 1), HardestChallenge), expires: expires.Unix(),
	}
	c := Challenge{Algorithm: algorithm, MaxNumber: s.most, Salt: s.String()}
	c.Challenge = hashOf(c.Salt, key.number(c.Salt, s.most))
	c.Signature = key.signChallenge(c.Challenge)
	return c, nil
}

// VerifyChallenge reads what the widget sends: base64 of JSON with the challenge and
// the number. It costs no I/O and does not know whether the challenge was accepted
// before.
func (k Keys) VerifyChallenge(payload string, b Bound, now time.Time) (Solved, Flaw) {
	answer, ok := readPayload(payload)
	if !ok {
		return Solved{}, Malformed
	}
	s, ok := parseSalt(answer.Salt)
	if !ok {
		return Solved{}, Malformed
	}
	key, flaw := k.verifier(s.key, now)
	if flaw != Sound {
		return Solved{}, flaw
	}
	if !hmac.Equal([]byte(key.signChallenge(answer.Challenge)), []byte(answer.Signature)) {
		return Solved{}, Forged
	}
	// Only now is it known that the salt is the one that was given out.
	if hashOf(answer.Salt, answer.Number) != answer.Challenge {
		return Solved{}, Unsolved
	}
	solved := Solved{ID: s.id, MaxNumber: s.most, Expires: time.Unix(s.expires, 0).UTC()}
	switch {
	case s.user != tagText(b.User):
		return Solved{}, ForeignUser
	case s.sale != b.Sale:
		return Solved{}, ForeignSale
	case !now.Before(solved.Expires):
		return Solved{}, Expired
	}
	return solved, Sound
}

// Answer returns the payload of a challenge that these keys made, without searching.
func (k Keys) Answer(c Challenge, now time.Time) (string, error) {
	s, ok := parseSalt(c.Salt)
	if !ok {
		return "", errors.New("gate: this is not the salt of a challenge")
	}
	key, flaw := k.verifier(s.key, now)
	if flaw != Sound {
		return "", fmt.Errorf("gate: the challenge's key: %v", flaw)
	}
	return c.payload(key.number(c.Salt, s.most)), nil
}

// ErrNoSolution says that no number up to MaxNumber solves the challenge.
var ErrNoSolution = errors.New("gate: the challenge has no solution")

// solveStep is how many hashes are tried between two looks at the context.
const solveStep = 1 << 12

// Solve searches for the number as a client does, and returns the payload. It tries at
// most HardestChallenge numbers. ErrNoSolution; the cause of ctx's end.
func Solve(ctx context.Context, c Challenge) (string, error) {
	var want [sha256.Size]byte
	if c.Algorithm != algorithm || len(c.Challenge) != hex.EncodedLen(len(want)) {
		return "", ErrNoSolution
	}
	if _, err := hex.Decode(want[:], []byte(c.Challenge)); err != nil {
		return "", ErrNoSolution
	}
	text := []byte(c.Salt)
	for n := range min(c.MaxNumber, HardestChallenge) + 1 {
		if n%solveStep == 0 && ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		text = strconv.AppendInt(text[:len(c.Salt)], int64(n), 10)
		if sha256.Sum256(text) == want {
			return c.payload(int64(n)), nil
		}
	}
	return "", ErrNoSolution
}

// answer is the JSON in a payload; the widget adds how long it took.
type answer struct {
	Algorithm string `json:"algorithm"`
	Challenge string `json:"challenge"`
	Number    int64  `json:"number"`
	Salt      string `json:"salt"`
	Signature string `json:"signature"`
}

func (c Challenge) payload(number int64) string {
	text, _ := json.Marshal(answer{Algorithm: c.Algorithm, Challenge: c.Challenge, Number: number, Salt: c.Salt, Signature: c.Signature}) // it cannot fail
	return base64.StdEncoding.EncodeToString(text)
}

func readPayload(payload string) (a answer, ok bool) {
	if payload == "" || len(payload) > maxPayload {
		return a, false
	}
	text, err := base64.StdEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(text, &a) != nil {
		return a, false
	}
	return a, a.Algorithm == algorithm && a.Number >= 0 && a.Number <= HardestChallenge
}

// salt is what the salt of a challenge says: 24 hexadecimal digits drawn for it, then
// parameters.
type salt struct {
	id      string
	key     uint32
	sale    sale.Number
	user    string // tagText
	most    int
	expires int64 // seconds since 1970
}

// String writes the salt. "expires" is the name that the widget knows.
func (s salt) String() string {
	return s.id + "?expires=" + strconv.FormatInt(s.expires, 10) + "&key=" + strconv.FormatUint(uint64(s.key), 10) +
		"&sale=" + strconv.FormatUint(uint64(s.sale), 10) + "&user=" + s.user + "&max=" + strconv.Itoa(s.most) + "&"
}

// maxSalt bounds what is parsed.
const maxSalt = 256

// parseSalt reads what String writes and nothing else.
func parseSalt(text string) (s salt, ok bool) {
	if len(text) > maxSalt {
		return s, false
	}
	var query string
	if s.id, query, ok = strings.Cut(text, "?"); !ok || len(s.id) != 2*challengeIDLen {
		return s, false
	}
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "expires":
			s.expires = n
		case "key":
			s.key = uint32(n) //nolint:gosec // what does not fit is not written back the same
		case "sale":
			s.sale = sale.Number(n) //nolint:gosec // as above
		case "user":
			s.user = value
		case "max":
			s.most = int(n)
		}
	}
	return s, s.String() == text
}

// tagText stands for a user in a salt.
func tagText(user string) string {
	tag := userTag(user)
	return hex.EncodeToString(tag[:])
}

func hashOf(text string, number int64) string {
	sum := sha256.Sum256(strconv.AppendInt([]byte(text), number, 10))
	return hex.EncodeToString(sum[:])
}

// number derives the number to be found, so that who has the key need not search.
func (k *signingKey) number(text string, most int) int64 {
	sum := k.sum(numberUse, []byte(text))
	return int64(binary.BigEndian.Uint64(sum[:]) % uint64(most+1)) //nolint:gosec // at most HardestChallenge
}

func (k *signingKey) signChallenge(challenge string) string {
	sum := k.sum(challengeUse, []byte(challenge))
	return hex.EncodeToString(sum[:])
}
