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
	spend, err := k.permit(ctx, n, v, p)
	if err != nil {
		return Issued{}, err
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
	if err = k.pace(ctx, n, v, nonce); err != nil {
		return Issued{}, err
	}
	// Last, so that whoever is told to come again still has his solution.
	if err = spend(); err != nil {
		return Issued{}, err
	}
	out := Issued{Pass: Pass{Sale: v.sale, User: v.User, Nonce: nonce, NotBefore: from, Expires: from.Add(2 * life), Proved: v.proven}}
	if out.Text, err = n.keys.SignPass(out.Pass, now); err != nil {
		return Issued{}, err
	}
	if n.settings.Sales[v.slug].HiddenPath {
		out.Path = Path(v.key, v.User, nonce)
	}
	k.o.Observer.Passed()
	return out, nil
}

// pace bounds how many passes of a sale are given out a second. Asking again for the
// same one is free.
func (k *Keeper) pace(ctx context.Context, n *knowledge, v *Visit, nonce string) error {
	most := n.settings.Pass.PerSecond
	if most == 0 || v.free {
		return nil
	}
	rate := limit.Rate{Name: "pass", Algorithm: limit.TokenBucket, Quota: most, Window: time.Second}
	d, counted, err := k.firstOf(ctx, k.o.Shared, "pass:"+nonce, limit.Check{
		Subject: "passes:" + strconv.FormatUint(uint64(v.sale), 10), Cost: 1, Rates: []limit.Rate{rate},
	})
	switch {
	case err != nil:
		return err
	case counted && !d.Allowed:
		return k.refuse(limited(&Limit{Name: "pass"}, rate, &d))
	}
	return nil
}

// permit asks everything that a pass depends on, and returns what makes the proof
// count, once.
func (k *Keeper) permit(ctx context.Context, n *knowledge, v *Visit, p Proof) (spend func() error, err error) {
	nothing := func() error { return nil }
	own := v.Pass
	v.Pass = "" // one to be renewed, or none
	if _, err := k.Enter(v); err != nil {
		return nil, err
	}
	if r := v.refusal; r != nil && r.Err.Code == sale.CodePassRequired {
		v.refusal = nil // that is what he asks for
	}
	if !v.free {
		if err := k.ask(ctx, v, n.refusing); err != nil {
			return nil, err
		}
	}
	if v.refusal != nil {
		return nil, k.refuse(v.refusal)
	}
	if own != "" && v.harder == 0 {
		if old, flaw := n.keys.VerifyPass(own, v.User, v.sale, k.o.Now()); flaw == Sound {
			v.proven = old.Proved // the proof of that one
		}
	}
	if p == (Proof{}) || v.proven || v.free {
		return nothing, k.prove(ctx, n, v, "")
	}
	return k.solved(ctx, n, v, p)
}

// solved accepts a proof, and returns what makes it count: a proof counts once.
func (k *Keeper) solved(ctx context.Context, n *knowledge, v *Visit, p Proof) (spend func() error, err error) {
	id, flaw, err := k.verify(ctx, n, v, p)
	if errors.Is(err, ErrCaptchaDown) || errors.Is(err, ErrCaptchaSetup) { // then work is the proof
		k.o.Observer.Failed("asking the captcha service", err)
		c, workErr := k.work(n, v, fallbackHarder+v.harder)
		if workErr != nil {
			return nil, workErr
		}
		return nil, k.refuse(challengeRequired("captcha", c))
	}
	if err != nil {
		return nil, err
	}
	if flaw != Sound {
		return func() error { return nil }, k.flawed(ctx, n, v, flaw)
	}
	v.proven = true
	return func() error {
		first, err := k.once(ctx, id)
		if err != nil {
			return err
		}
		if first {
			k.o.Observer.Solved(Sound.String())
			return nil
		}
		v.proven = false
		return k.flawed(ctx, n, v, Used)
	}, nil
}

// flawed refuses a proof and asks for another one, as hard as everything that speaks
// against the visit makes it. Where no proof is asked for, a bad one is none.
func (k *Keeper) flawed(ctx context.Context, n *knowledge, v *Visit, f Flaw) error {
	k.o.Observer.Solved(f.String())
	k.suspect(v, f)
	return k.prove(ctx, n, v, f.String())
}

// fallbackHarder is how hard the work is while the captcha service is away.
const fallbackHarder = 3

// verify looks at a proof and returns its id.
func (k *Keeper) verify(ctx context.Context, n *knowledge, v *Visit, p Proof) (id string, f Flaw, err error) {
	now, bound := k.o.Now(), Bound{User: v.User, Sale: v.sale}
	if p.Challenge != "" {
		s, flaw := n.keys.VerifyChallenge(p.Challenge, bound, now)
		return s.ID, flaw, nil
	}
	if k.o.Captcha == nil {
		return "", Malformed, nil
	}
	s := Solution{Response: p.Captcha, IP: v.IP, Bound: CaptchaBound(bound)}
	switch err := k.o.Captcha.Verify(ctx, s, now); {
	case err == nil:
		return s.ID(), Sound, nil
	case errors.Is(err, ErrCaptchaUsed):
		return "", Used, nil
	case errors.Is(err, ErrCaptchaRefused):
		return "", Unsolved, nil
	default:
		return "", Sound, err
	}
}

// onceFor is longer than any proof lives. It is the same for all of them: a window that
// shrinks would be over early.
const onceFor = 2 * time.Hour

// once reports whether nobody has brought this id before, over all instances. While
// the shared store does not answer, each instance knows of its own only.
func (k *Keeper) once(ctx context.Context, id string) (bool, error) {
	rate := limit.Rate{Name: "once", Algorithm: limit.FixedWindow, Quota: 1, Window: onceFor}
	d, err := k.o.Shared.Allow(ctx, "proof:"+id, 1, rate)
	return d.Allowed, err
}
