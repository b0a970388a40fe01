package gate

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/httplimit"
)

// Options of a Keeper. Ledger, Local, Shared and Now are required.
type Options struct {
	Ledger ledger.Gate
	// Local counts for this instance; Shared for all of them, or for this one where
	// there is no shared store.
	Local, Shared limit.Limiter
	Now           func() time.Time // the ledger's time
	// Exempt are networks of the house itself, see Inside.
	Exempt []netip.Prefix
	// SettingsFile and RangesFile are read again when they change; empty is none. Settings
	// in the ledger stand in the place of the file's.
	SettingsFile, RangesFile string
	// Captcha verifies solutions of a hosted captcha, if set.
	Captcha Verifier
	// CallTimeout bounds one call of the ledger; zero is 2 s.
	CallTimeout time.Duration
	Observer    Observer // nil is none
}

// Observer is told of what happens at the gate. Its methods must not block.
type Observer interface {
	// Refused is told of each refusal, with the layer and the code.
	Refused(layer, code string)
	// Shadowed is told of what a limit in shadow mode would have done.
	Shadowed(layer string)
	// Degraded is told of decisions that a limit made without its store.
	Degraded(layer string)
	// Passed is told of each pass given out.
	Passed()
	// Solved is told of each solution, with its flaw or "sound".
	Solved(outcome string)
	// Struck is told of strikes, Dropped of strikes that found no room.
	Struck(why string, strikes int64)
	Dropped()
	// Banned is told of each listing that the gate made, with its effect.
	Banned(effect string)
	// Known is told of what is in force after each change.
	Known(version int64, listings int)
	// Failed is told of what could not be read or written; it is tried again.
	Failed(what string, err error)
}

// Keeper is the doorkeeper of one instance. It is safe for concurrent use.
type Keeper struct {
	o       Options
	known   atomic.Pointer[knowledge]
	seen    *seen
	strikes chan strike
	nudge   chan struct{}
}

// New returns a Keeper with what the ledger and the files say now. Errors are those
// of the ledger; settings and ranges that cannot be understood are told to the
// Observer, and those of a new house are in force until they can.
func New(ctx context.Context, o Options) (*Keeper, error) {
	if o.Ledger == nil || o.Local == nil || o.Shared == nil || o.Now == nil {
		return nil, errors.New("gate: something of Options is missing")
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 2 * time.Second
	}
	if o.Observer == nil {
		o.Observer = silent{}
	}
	k := &Keeper{o: o, seen: newSeen(o.Now()), strikes: make(chan strike, maxStrikes), nudge: make(chan struct{}, 1)}
	first, err := k.learn(ctx)
	if err != nil {
		return nil, err
	}
	k.known.Store(first)
	o.Observer.Known(first.version, len(first.listings))
	return k, nil
}

// Settings returns the settings in force and whose they are.
func (k *Keeper) Settings() (Settings, ledger.Settings) {
	n := k.known.Load()
	return n.settings, n.entered
}

// Arrive asks the limits of this instance that need not know who comes. The error
// is a *RefusalError with CodeRateLimited.
func (k *Keeper) Arrive(ctx context.Context, class Class, ip netip.Addr) error {
	n := k.known.Load()
	limits := n.arrival[class]
	// The narrowest comes first, so that one address cannot spend what is for all.
	for _, l := range limits {
		subject := arrivalSubject(l.By, class, ip)
		if subject == "" {
			continue
		}
		d, err := k.o.Local.Allow(ctx, subject, 1, l.fixed)
		if err != nil {
			return err
		}
		if !d.Allowed {
			if l.Shadow {
				k.o.Observer.Shadowed(l.Name)
				continue
			}
			return k.refuse(limited(l.Limit, l.fixed, &d))
		}
	}
	return nil
}

func arrivalSubject(by By, class Class, ip netip.Addr) string {
	switch by {
	case ByService:
		return string(class)
	case ByNetwork:
		return prefixText("n:", httplimit.Network(ip))
	case BySubnet:
		return prefixText("sn:", httplimit.Subnet(ip))
	case ByDevice, ByUser, ByUserSale, BySale:
	}
	return ""
}

func prefixText(kind string, p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	var text [64]byte
	return string(p.AppendTo(append(text[:0], kind...)))
}

// Inside reports whether a connection comes from the house itself. It is asked about
// the peer of the connection, never about an address that somebody claims.
func (k *Keeper) Inside(peer netip.Addr) bool {
	for _, p := range k.o.Exempt {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}

// Enter looks at lists, pass and path in memory, and returns the idempotency key of
// the pass, empty without one. An error is a *RefusalError of a pass that stands for no
// order. What else is against the visit is told by Admit, after the engine had the
// chance to find an order.
func (k *Keeper) Enter(v *Visit) (key string, err error) {
	n, now := k.known.Load(), k.o.Now()
	v.free = v.Inside
	decides, proves := n.lists.of(v, now)
	switch {
	case decides == nil:
	case decides.Effect == ledger.EffectDeny:
		v.refusal = banned("list", decides.ExpiresAt, now)
	default:
		v.free = true
	}
	if proves && !v.free {
		v.harder = listedHarder
	}
	rules := n.settings.Sales[v.slug]
	if v.Pass == "" {
		if (rules.Pass || rules.HiddenPath) && v.refusal == nil && !v.Shop {
			v.refusal = passRequired()
		}
		return "", nil
	}
	pass, flaw := n.keys.VerifyPass(v.Pass, v.User, v.sale, now)
	switch flaw {
	case Sound:
		v.proven = pass.Proved && v.harder == 0 // whom a list names proves himself anew
	case Expired:
		if v.refusal == nil {
			v.refusal = passInvalid(flaw)
		}
	case Malformed, UnknownKey, RetiredKey, Forged, Unsolved, ForeignUser, ForeignSale, NotYet, Used:
		k.suspect(v, flaw)
		return "", k.refuse(passInvalid(flaw))
	}
	if (rules.HiddenPath || v.Path != "") && v.refusal == nil && !PathMatches(v.key, v.User, pass.Nonce, v.Path) {
		v.refusal = elsewhere()
	}
	return pass.Nonce, nil
}

// listedHarder is how much harder the challenge of a listed buyer is.
const listedHarder = 3

// Admit asks the limits that need to know who comes, the shared ones over all
// instances. The error is a *RefusalError, that of a context which ended, or trouble
// with a limit.
func (k *Keeper) Admit(ctx context.Context, v *Visit) error {
	n := k.known.Load()
	if !v.free {
		// First of all, so that refusals that cost a look-up are as few as attempts.
		if err := k.ask(ctx, v, n.refusing); err != nil {
			return err
		}
	}
	if v.refusal != nil {
		return k.refuse(v.refusal)
	}
	return k.prove(ctx, n, v, "")
}

// prove asks whoever has not proved anything yet for a proof, if there is a reason;
// flawed is what was wrong with the one he brought, if he did.
func (k *Keeper) prove(ctx context.Context, n *knowledge, v *Visit, flawed string) error {
	mode := n.settings.Challenge.Mode
	if own := n.settings.Sales[v.slug].Challenge; own != "" {
		mode = own
	}
	if v.proven || v.free || v.Shop || mode == challengeNever {
		return nil
	}
	layer := ""
	switch {
	case flawed != "":
		layer = "challenge"
	case mode == challengeAlways:
		layer = "always"
	case v.harder > 0:
		layer = "list"
	}
	by, harder, err := k.pressure(ctx, n, v)
	if err != nil {
		return err
	}
	if layer == "" {
		layer = by
	}
	if layer == "" {
		return nil
	}
	c, err := k.challenge(n, v, v.harder+harder)
	if err != nil {
		return err
	}
	r := challengeRequired(layer, c)
	if flawed != "" {
		r.Err.Message = "the solution opens nothing: " + flawed
	}
	return k.refuse(r)
}

// pressure asks the limits that ask for proofs, all at once, and returns the first
// that does, and how much harder all of them make the challenge.
func (k *Keeper) pressure(ctx context.Context, n *knowledge, v *Visit) (layer string, harder int, err error) {
	refused := make([]bool, len(n.proving))
	if k.o.Shared == k.o.Local { // memory is quicker than goroutines
		for i, l := range n.proving {
			if refused[i], err = k.spend(ctx, v, l); err != nil {
				return "", 0, err
			}
		}
	} else {
		var work errgroup.Group
		for i, l := range n.proving {
			work.Go(func() (err error) {
				refused[i], err = k.spend(ctx, v, l)
				return err
			})
		}
		if err = work.Wait(); err != nil {
			return "", 0, err
		}
	}
	for i, l := range n.proving {
		if !refused[i] {
			continue
		}
		harder += l.Harder
		if l.Then == Prove && layer == "" {
			layer = l.Name
		}
	}
	return layer, harder, nil
}

// challenge makes one for a visit; nil where a captcha is to be solved instead.
func (k *Keeper) challenge(n *knowledge, v *Visit, harder int) (*Challenge, error) {
	if n.settings.Challenge.Captcha && k.o.Captcha != nil {
		return nil, nil //nolint:nilnil // no challenge of ours is an answer
	}
	return k.work(n, v, harder)
}

// work makes a proof of work for a visit.
func (k *Keeper) work(n *knowledge, v *Visit, harder int) (*Challenge, error) {
	now := k.o.Now()
	c, err := n.keys.NewChallenge(Bound{User: v.User, Sale: v.sale}, Difficulty(v.Load, harder), now.Add(time.Duration(n.settings.Challenge.Life)), now)
	return &c, err
}

// refuse counts a refusal and returns it.
func (k *Keeper) refuse(r *RefusalError) error {
	k.o.Observer.Refused(r.Layer, string(r.Err.Code))
	return r
}

// silent observes nothing.
type silent struct{}

func (silent) Refused(string, string) {}
func (silent) Shadowed(string)        {}
func (silent) Degraded(string)        {}
func (silent) Passed()                {}
func (silent) Solved(string)          {}
func (silent) Struck(string, int64)   {}
func (silent) Dropped()               {}
func (silent) Banned(string)          {}
func (silent) Known(int64, int)       {}
func (silent) Failed(string, error)   {}
