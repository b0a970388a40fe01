package gate

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
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
	case Malformed, Forged, ForeignUser, UnknownKey, Used:
		k.strike(v, f.String(), forgery)
	case ForeignSale, Unsolved, NotYet:
		k.strike(v, f.String(), careless)
	case Sound, Expired, RetiredKey:
	}
}

// strike gives strikes to the user and the device of a visit, and for forgeries to
// its network. It never blocks.
func (k *Keeper) strike(v *Visit, why string, n int64) {
	if v.free || v.Shop {
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

// count counts strikes and returns what they have led to.
func (k *Keeper) count(ctx context.Context, s *strike) []ledger.Offence {
	rules := &k.known.Load().settings.Bans
	var out []ledger.Offence
	for _, subject := range s.subjects {
		for _, step := range []struct {
			name   string
			at     int64
			effect ledger.Effect
		}{{"ban", rules.BanAt, ledger.EffectDeny}, {"prove", rules.ProveAt, ledger.EffectChallenge}} {
			// A bucket of that many strikes fills up again within Decay.
			rate := limit.Rate{Name: step.name, Algorithm: limit.TokenBucket, Quota: step.at, Window: time.Duration(rules.Decay), OnError: limit.Open}
			d, err := k.o.Shared.Allow(ctx, "strikes:"+string(subject.Kind)+":"+subject.Value, min(s.n, step.at), rate)
			if err != nil {
				k.o.Observer.Failed("counting strikes", err)
				return out
			}
			if !d.Allowed {
				out = append(out, ledger.Offence{
					Subject: subject, Effect: step.effect, Reason: "strikes: " + s.why,
					Base: time.Duration(rules.Base), Max: time.Duration(rules.Max), Memory: time.Duration(rules.Memory),
				})
				break
			}
		}
	}
	return out
}

// punish counts the strikes that wait, and enters what they lead to in one
// transaction.
func (k *Keeper) punish(ctx context.Context, first strike) {
	offences := map[ledger.Subject]ledger.Offence{}
	s := &first
	for len(offences) < ledger.MaxOffences-len(first.subjects)-2 {
		for _, o := range k.count(ctx, s) {
			if old, known := offences[o.Subject]; !known || old.Effect != ledger.EffectDeny {
				offences[o.Subject] = o
			}
		}
		select {
		case next := <-k.strikes:
			s = &next
			continue
		default:
		}
		break
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
