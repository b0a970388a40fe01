package gate

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
)

// Proof is what a buyer brings to get a pass; the zero value is nothing.
type Proof struct {
	// Challenge is the solution of a challenge, as the ALTCHA widget sends it.
	Challenge string
	// Captcha is the response of the hosted captcha's widget.
	Captcha string
}

// Issued is a pass that was given out.
type Issued struct {
	Pass
	Text string
	Path string // the hidden purchase path; empty where the sale has none
}

// Issue gives out the pass of a visit. Asking again gives the same pass until it has
// become an order, which became tells. The error is a *RefusalError, one of became, or
// trouble with a limit.
func (k *Keeper) Issue(ctx context.Context, v *Visit, p Proof, became func(ctx context.Context, nonce string) (bool, error)) (Issued, error) {
	n := k.known.Load()
	if err := k.permit(ctx, n, v, p); err != nil {
		return Issued{}, err
	}
	if most := n.settings.Pass.PerSecond; most > 0 {
		rate := limit.Rate{Name: "pass", Algorithm: limit.TokenBucket, Quota: most, Window: time.Second}
		d, err := k.o.Shared.Allow(ctx, "passes:"+strconv.FormatUint(uint64(v.sale), 10), 1, rate)
		if err != nil {
			return Issued{}, err
		}
		if !d.Allowed {
			return Issued{}, k.refuse(limited(&Limit{Name: "pass"}, rate, &d))
		}
	}
	nonce, _, err := FreshNonce(ctx, v.key, v.User, became)
	if errors.Is(err, ErrTooManyPasses) {
		return Issued{}, &sale.Error{Code: sale.CodeLimitReached, Message: "the buyer has used up the passes of this sale", Err: err}
	}
	if err != nil {
		return Issued{}, err
	}
	// The times are the same for everybody who asks in the same while, so that the
	// text of the pass is the same, too.
	now, life := k.o.Now(), time.Duration(n.settings.Pass.Life)
	from := now.Truncate(life)
	out := Issued{Pass: Pass{Sale: v.sale, User: v.User, Nonce: nonce, NotBefore: from, Expires: from.Add(2 * life)}}
	if out.Text, err = n.keys.SignPass(out.Pass, now); err != nil {
		return Issued{}, err
	}
	if n.settings.Sales[v.slug].HiddenPath {
		out.Path = Path(v.key, v.User, nonce)
	}
	k.o.Observer.Passed()
	return out, nil
}

// permit asks everything that a pass depends on.
func (k *Keeper) permit(ctx context.Context, n *knowledge, v *Visit, p Proof) error {
	own := v.Pass
	v.Pass = "" // one to be renewed, or none
	if _, err := k.Enter(v); err != nil {
		return err
	}
	if r := v.refusal; r != nil && r.Err.Code != sale.CodePassRequired {
		return k.refuse(r)
	}
	v.refusal = nil
	if v.free {
		return nil
	}
	if err := k.ask(ctx, v, n.refusing); err != nil {
		return err
	}
	if own != "" {
		if _, flaw := n.keys.VerifyPass(own, v.User, v.sale, k.o.Now()); flaw == Sound || flaw == Expired {
			v.proven = true // it was proved when that one was given out
		}
	}
	if p != (Proof{}) && !v.proven {
		if err := k.solved(ctx, n, v, p); err != nil {
			return err
		}
	}
	return k.prove(ctx, n, v)
}

// solved accepts a proof once.
func (k *Keeper) solved(ctx context.Context, n *knowledge, v *Visit, p Proof) error {
	flaw, err := k.verify(ctx, n, v, p)
	if errors.Is(err, ErrCaptchaDown) || errors.Is(err, ErrCaptchaSetup) { // then work is the proof
		k.o.Observer.Failed("asking the captcha service", err)
		c, workErr := k.work(n, v, fallbackHarder+v.harder)
		if workErr != nil {
			return workErr
		}
		return k.refuse(challengeRequired("captcha", c))
	}
	if err != nil {
		return err
	}
	k.o.Observer.Solved(flaw.String())
	if flaw == Sound {
		v.proven = true
		return nil
	}
	k.suspect(v, flaw)
	c, err := k.challenge(n, v, v.harder)
	if err != nil {
		return err
	}
	return k.refuse(challengeFailed(flaw, c))
}

// fallbackHarder is how hard the work is while the captcha service is away.
const fallbackHarder = 3

func (k *Keeper) verify(ctx context.Context, n *knowledge, v *Visit, p Proof) (Flaw, error) {
	now, bound := k.o.Now(), Bound{User: v.User, Sale: v.sale}
	if p.Challenge != "" {
		s, flaw := n.keys.VerifyChallenge(p.Challenge, bound, now)
		if flaw != Sound {
			return flaw, nil
		}
		return s.Spend(ctx, k.once, now)
	}
	if k.o.Captcha == nil {
		return Malformed, nil
	}
	s := Solution{Response: p.Captcha, IP: v.IP, Bound: CaptchaBound(bound)}
	switch err := k.o.Captcha.Verify(ctx, s, now); {
	case err == nil:
	case errors.Is(err, ErrCaptchaUsed):
		return Used, nil
	case errors.Is(err, ErrCaptchaRefused):
		return Unsolved, nil
	default:
		return Sound, err
	}
	first, err := k.once(ctx, s.ID(), time.Duration(n.settings.Challenge.Life))
	if err != nil || first {
		return Sound, err
	}
	return Used, nil
}

// once reports whether nobody has brought this id before, over all instances. While
// the shared store does not answer, each instance knows of its own only.
func (k *Keeper) once(ctx context.Context, id string, ttl time.Duration) (bool, error) {
	rate := limit.Rate{Name: "once", Algorithm: limit.FixedWindow, Quota: 1, Window: max(ttl.Truncate(time.Microsecond), limit.MinWindow)}
	d, err := k.o.Shared.Allow(ctx, "proof:"+id, 1, rate)
	return d.Allowed, err
}
