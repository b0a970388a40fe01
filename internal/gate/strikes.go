package gate

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/httplimit"
)

// strike is a sign of a machine.
type strike struct {
	subjects []ledger.Subject
	why      string
	n        int64
}

const (
	// maxStrikes is how many wait to be counted; what is beyond is dropped.
	maxStrikes = 4096
	// forgery is how many strikes something costs that no honest client sends.
	forgery = 10
	// careless is how many something costs that an honest client may send once.
	careless = 2
)

// suspect gives strikes for a pass or solution with a flaw.
func (k *Keeper) suspect(v *Visit, f Flaw) {
	switch f {
	case Forged, ForeignUser:
		k.strike(v, f.String(), forgery)
	case Malformed, ForeignSale, Unsolved:
		k.strike(v, f.String(), careless)
	case Sound, Expired, NotYet, RetiredKey, UnknownKey, Used:
		// An honest client sends these, too: late, early, or once more after an answer
		// that was lost; and a key may be so new that this instance has not heard of it.
	}
}

// strike gives strikes to the user and the device of a visit, and for forgeries to
// its network. It never blocks. Whom a list denies already gets none.
func (k *Keeper) strike(v *Visit, why string, n int64) {
	if v.free || v.Shop || v.refusal != nil && v.refusal.Err.Code == sale.CodeBanned {
		return
	}
	s := strike{subjects: []ledger.Subject{{Kind: ledger.SubjectUser, Value: v.User}}, why: why, n: n}
	if !v.Device.IsZero() {
		s.subjects = append(s.subjects, ledger.Subject{Kind: ledger.SubjectDevice, Value: v.Device.String()})
	}
	if p := httplimit.Network(v.IP); p.IsValid() && n >= forgery {
		s.subjects = append(s.subjects, ledger.Subject{Kind: ledger.SubjectNetwork, Value: p.String()})
	}
	select {
	case k.strikes <- s:
		k.o.Observer.Struck(why, n)
	default:
		k.o.Observer.Dropped()
	}
}

// rates are the buckets of strikes: one of at strikes fills up again within Decay.
func (b *BanRules) rates() (ban, prove limit.Rate) {
	rate := func(name string, at int64) limit.Rate {
		return limit.Rate{Name: name, Algorithm: limit.TokenBucket, Quota: at, Window: time.Duration(b.Decay), OnError: limit.Open}
	}
	return rate("ban", b.BanAt), rate("prove", b.ProveAt)
}

// count counts strikes and returns what they have led to. A network is never denied
// by what one of the many behind it did: the most it gets is to prove itself.
func (k *Keeper) count(ctx context.Context, s *strike) []ledger.Offence {
	rules := &k.known.Load().settings.Bans
	ban, prove := rules.rates()
	out := make([]ledger.Offence, 0, len(s.subjects))
	for _, subject := range s.subjects {
		offence := ledger.Offence{
			Subject: subject, Reason: "strikes: " + s.why,
			Base: time.Duration(rules.Base), Max: time.Duration(rules.Max), Memory: time.Duration(rules.Memory),
		}
		name := "strikes:" + string(subject.Kind) + ":" + subject.Value
		switch {
		case subject.Kind != ledger.SubjectNetwork && k.full(ctx, name, s.n, ban):
			offence.Effect = ledger.EffectDeny
		case k.full(ctx, name, s.n, prove):
			offence.Effect = ledger.EffectChallenge
		default:
			continue
		}
		out = append(out, offence)
	}
	return out
}

// full spends strikes and reports whether there was no room for them.
func (k *Keeper) full(ctx context.Context, subject string, n int64, r limit.Rate) bool {
	d, err := k.o.Shared.Allow(ctx, subject, min(n, r.Quota), r)
	if err != nil {
		k.o.Observer.Failed("counting strikes", err)
		return false
	}
	return !d.Allowed
}

// punishEvery bounds how long what strikes have led to waits to be entered, however
// many more there are.
const punishEvery = 100 * time.Millisecond

// punish counts the strikes that wait, and enters what they lead to in one
// transaction.
func (k *Keeper) punish(ctx context.Context, first strike) {
	offences := map[ledger.Subject]ledger.Offence{}
	enough := time.NewTimer(punishEvery)
	defer enough.Stop()
	s, more := &first, true
	for more && len(offences) < ledger.MaxOffences-3 { // a strike has three subjects at most
		for _, o := range k.count(ctx, s) {
			if old, known := offences[o.Subject]; !known || old.Effect != ledger.EffectDeny {
				offences[o.Subject] = o
			}
		}
		select {
		case <-enough.C:
			more = false
		default:
			select {
			case next := <-k.strikes:
				s = &next
			default:
				more = false
			}
		}
	}
	if len(offences) == 0 {
		return
	}
	list := make([]ledger.Offence, 0, len(offences))
	for _, o := range offences {
		list = append(list, o)
	}
	ctx, cancel := context.WithTimeout(ctx, k.o.CallTimeout)
	defer cancel()
	made, err := k.o.Ledger.Ban(ctx, list)
	if err != nil {
		k.o.Observer.Failed("entering bans", err)
		return
	}
	for i := range made {
		k.o.Observer.Banned(string(made[i].Effect))
	}
	k.Nudge()
}
