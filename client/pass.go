package client

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

const (
	headerPass   = "Doorbuster-Pass"
	headerDevice = "Doorbuster-Device"
)

// PassAnswer is a pass, and the token of the device that asked.
type PassAnswer struct {
	Pass Pass
	// Device is the token to send from now on, as BuyOptions.Device and with further
	// requests for passes; it is the one that was sent if the gate gave no other.
	Device string
}

// Pass asks for the buyer's pass of a sale. device is the token that an earlier
// answer gave, or empty. ErrChallengeRequired says what must be solved first; see
// PassProving.
func (c *Client) Pass(ctx context.Context, sale, device string, r PassRequest) (PassAnswer, error) {
	p, a, err := send[Pass](ctx, c, post(again, "v1", "sales", sale, "passes").from(device), r)
	if given := a.header.Get(headerDevice); given != "" {
		device = given
	}
	return PassAnswer{Pass: p, Device: device}, err
}

// solveTries is how many challenges one PassProving solves: one can end, or be made
// harder, while it is solved.
const solveTries = 3

// PassProving asks for a pass and solves the challenges that it meets. Hosted captchas
// it cannot solve: the error is ErrChallengeRequired with the captcha.
func (c *Client) PassProving(ctx context.Context, sale, device string, r PassRequest) (PassAnswer, error) {
	for try := 0; ; try++ {
		p, err := c.Pass(ctx, sale, device, r)
		e, refused := errors.AsType[*Error](err)
		if !refused || !errors.Is(e, ErrChallengeRequired) || e.Challenge == nil || try == solveTries {
			return p, err
		}
		if r.Challenge, err = Solve(ctx, *e.Challenge); err != nil {
			return p, err
		}
		device = p.Device
	}
}

// BuyProving buys as BuyWith does. Where the gate asks for a proof or a pass, it
// solves the challenge, gets a pass and buys with that: then Bought.Pass is what stands
// for the click, in the place of the key.
//
// A pass is a click of its own. So where an earlier try with the key may have come
// through, because BuyOptions.Key is set or the answer to a try was lost, it asks for
// the key's order once more before it uses the pass. A try that a server is still at
// work on at that time, after the challenge is solved, is not seen: whoever cannot have two
// orders gets a pass first, with PassProving, and buys with nothing else.
func (c *Client) BuyProving(ctx context.Context, sale string, o BuyOptions, a Attempt) (Bought, error) {
	given := o.Key != ""
	b, err := c.BuyWith(ctx, sale, o, a)
	if o.Pass != nil || !atGate(err) {
		return b, err
	}
	e, _ := errors.AsType[*Error](err)
	p, err := c.PassProving(ctx, sale, o.Device, PassRequest{OnBehalfOf: a.OnBehalfOf, ClientIP: a.ClientIP})
	if err != nil {
		return b, err
	}
	o.Device = p.Device
	if given || e.Tries > 1 {
		o.Key = b.Key
		if b, err = c.BuyWith(ctx, sale, o, a); !atGate(err) {
			return b, err
		}
	}
	o.Pass = &p.Pass
	return c.BuyWith(ctx, sale, o, a)
}

// atGate reports whether a refusal is one that a pass opens.
func atGate(err error) bool {
	return errors.Is(err, ErrChallengeRequired) || errors.Is(err, ErrPassRequired)
}

// passing returns the call with a pass, at the address where it buys.
func (k call) passing(p *Pass) call {
	if p.Path != "" {
		k.path = strings.Split(strings.TrimPrefix(p.Path, "/"), "/")
	}
	return k.set(headerPass, p.Text)
}

// from returns the call with the token of the device that it comes from.
func (k call) from(device string) call {
	if device == "" {
		return k
	}
	return k.set(headerDevice, device)
}

const (
	challengeAlgorithm = "SHA-256"
	// hardestChallenge bounds the work that a server can ask for, in hashes.
	hardestChallenge = 4_000_000
	// solveStep is how many numbers are tried between two looks at the context.
	solveStep = 1 << 12
)

// Solve does the work of a challenge and returns the proof for PassRequest.Challenge.
// It takes one core for up to a few seconds. ErrInvalid for a challenge that has no
// solution or asks for more work than any honest one; ErrStopped when ctx ends.
func Solve(ctx context.Context, c Challenge) (string, error) {
	var want [sha256.Size]byte
	digits, err := hex.DecodeString(c.Challenge)
	if err != nil || c.Algorithm != challengeAlgorithm || copy(want[:], digits) != len(want) || c.MaxNumber < 0 || c.MaxNumber > hardestChallenge {
		return "", own(ErrInvalid, "this is not a challenge that can be solved", "ask for another one", err)
	}
	text := []byte(c.Salt)
	for n := range c.MaxNumber + 1 {
		if n%solveStep == 0 && ctx.Err() != nil {
			return "", own(ErrStopped, "the challenge was not solved in time", "", context.Cause(ctx))
		}
		text = strconv.AppendInt(text[:len(c.Salt)], int64(n), 10)
		if sha256.Sum256(text) == want {
			return proof(&c, n)
		}
	}
	return "", own(ErrInvalid, "the challenge has no solution", "ask for another one", nil)
}

// proof writes a solution as the ALTCHA widget does.
func proof(c *Challenge, number int) (string, error) {
	text, err := json.Marshal(struct {
		Algorithm string `json:"algorithm"`
		Challenge string `json:"challenge"`
		Number    int    `json:"number"`
		Salt      string `json:"salt"`
		Signature string `json:"signature"`
	}{c.Algorithm, c.Challenge, number, c.Salt, c.Signature})
	if err != nil {
		return "", own(ErrInvalid, "the proof cannot be written as JSON", "", err)
	}
	return base64.StdEncoding.EncodeToString(text), nil
}
