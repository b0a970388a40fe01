package gate

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/httplimit"
)

// compiled is a limit that is ready to be asked.
type compiled struct {
	*Limit
	fixed limit.Rate // for a sale without stock
}

// rateFor returns the limit for a visit's sale.
func (l *compiled) rateFor(v *Visit) limit.Rate {
	if l.OfStock == 0 {
		return l.fixed
	}
	r, err := l.rate(v.stock)
	if err != nil { // so much stock that the numbers have no room
		return l.fixed
	}
	return r
}

// subject returns whose spending a limit counts; empty if it is not known.
func (v *Visit) subject(by By) string {
	switch by {
	case ByService:
		return string(Buy)
	case ByNetwork:
		return prefixText("n:", httplimit.Network(v.IP))
	case BySubnet:
		return prefixText("sn:", httplimit.Subnet(v.IP))
	case ByDevice:
		if v.Device.IsZero() {
			return ""
		}
		return "d:" + v.Device.String()
	case ByUser:
		return "u:" + v.User
	case BySale:
		return "s:" + strconv.FormatUint(uint64(v.sale), 10)
	case ByUserSale:
		return "us:" + strconv.FormatUint(uint64(v.sale), 10) + ":" + v.User
	}
	return ""
}

// question is what one limiter is asked about a visit in one call.
type question struct {
	checks []limit.Check
	limits [][]*compiled // of each check
}

// add asks for a limit, together with others of the same subject.
func (q *question) add(v *Visit, l *compiled, subject string) {
	if i := len(q.checks) - 1; i >= 0 && q.checks[i].Subject == subject {
		q.checks[i].Rates = append(q.checks[i].Rates, l.rateFor(v))
		q.limits[i] = append(q.limits[i], l)
		return
	}
	q.checks = append(q.checks, limit.Check{Subject: subject, Cost: 1, Rates: []limit.Rate{l.rateFor(v)}})
	q.limits = append(q.limits, []*compiled{l})
}

// ask asks limits that refuse: those of this instance, then the shared ones, each in
// one call. Nothing of a call is spent if one of its limits refuses.
func (k *Keeper) ask(ctx context.Context, v *Visit, limits []*compiled) error {
	var local, shared question
	for _, l := range limits {
		subject := v.subject(l.By)
		switch {
		case subject == "":
		case l.Shadow, l.Each != "":
			if err := k.askAlone(ctx, v, l); err != nil {
				return err
			}
		case l.Shared:
			shared.add(v, l, subject)
		default:
			local.add(v, l, subject)
		}
	}
	if err := k.put(ctx, v, &local, k.o.Local); err != nil {
		return err
	}
	return k.put(ctx, v, &shared, k.o.Shared)
}

func (k *Keeper) put(ctx context.Context, v *Visit, q *question, to limit.Limiter) error {
	if len(q.checks) == 0 {
		return nil
	}
	decisions, err := to.AllowAll(ctx, q.checks)
	if err != nil {
		return err
	}
	for i := range decisions {
		if err := k.heed(v, &q.checks[i], q.limits[i], &decisions[i]); err != nil {
			return err
		}
	}
	return nil
}

// heed turns the decision about one subject into a refusal, or keeps how it stands.
func (k *Keeper) heed(v *Visit, c *limit.Check, asked []*compiled, d *limit.Decision) error {
	at := 0
	for i := range c.Rates {
		if c.Rates[i].Name == d.Binding.Rate {
			at = i
		}
	}
	if d.Degraded {
		k.o.Observer.Degraded(asked[at].Name)
	}
	if d.Allowed {
		if asked[at].By == ByUser || asked[at].By == ByUserSale {
			v.rate, v.state = c.Rates[at], d.Binding
		}
		return nil
	}
	l := asked[at]
	if d.Reason == limit.Unavailable {
		return silentStore(l)
	}
	if l.Strikes > 0 {
		k.strike(v, "limit_"+l.Name, int64(l.Strikes))
	}
	return k.refuse(limited(l.Limit, c.Rates[at], d))
}

// askAlone asks a limit in shadow mode, or one that counts each user or network, which
// others must not depend on.
func (k *Keeper) askAlone(ctx context.Context, v *Visit, l *compiled) error {
	d, err := k.put1(ctx, v, l)
	if err != nil || d.Allowed {
		return err
	}
	if d.Reason == limit.Unavailable {
		return silentStore(l)
	}
	return k.refuse(limited(l.Limit, l.rateFor(v), &d))
}

func silentStore(l *compiled) error {
	return sale.Unavailable(fmt.Errorf("gate: the store of limit %s does not answer", l.Name))
}

// spend asks one limit and reports whether it is used up, or cannot be asked and is
// closed then.
func (k *Keeper) spend(ctx context.Context, v *Visit, l *compiled) (bool, error) {
	d, err := k.put1(ctx, v, l)
	return err == nil && !d.Allowed, err
}

// put1 asks one limit. One in shadow mode, and one that has no subject here, allows
// everything.
func (k *Keeper) put1(ctx context.Context, v *Visit, l *compiled) (limit.Decision, error) {
	allowed := limit.Decision{Allowed: true}
	subject := v.subject(l.By)
	if subject == "" {
		return allowed, nil
	}
	limiter := k.o.Local
	if l.Shared {
		limiter = k.o.Shared
	}
	var d limit.Decision
	var err error
	if l.Each == "" {
		d, err = limiter.Allow(ctx, subject, 1, l.rateFor(v))
	} else {
		d, err = k.each(ctx, v, l, limiter, subject)
	}
	if err != nil {
		return d, err
	}
	if d.Degraded {
		k.o.Observer.Degraded(l.Name)
	}
	if !d.Allowed && l.Shadow {
		k.o.Observer.Shadowed(l.Name)
		return allowed, nil
	}
	return d, nil
}

// each counts a member of a subject that was not counted lately. What this instance
// remembers saves asking.
func (k *Keeper) each(ctx context.Context, v *Visit, l *compiled, limiter limit.Limiter, subject string) (limit.Decision, error) {
	allowed := limit.Decision{Allowed: true}
	member := v.subject(l.Each)
	if member == "" {
		return allowed, nil
	}
	known := k.seen.key(l.Name, subject, member)
	if k.seen.has(known, k.o.Now()) {
		return allowed, nil
	}
	d, counted, err := k.firstOf(ctx, limiter, "each:"+l.Name+":"+subject+":"+member, limit.Check{Subject: subject, Cost: 1, Rates: []limit.Rate{l.rateFor(v)}})
	if err != nil || counted && !d.Allowed {
		return d, err
	}
	k.seen.add(known, k.o.Now())
	return allowed, nil
}

// eachFor is for how long a member that was counted is not counted again.
const eachFor = 10 * time.Minute

// firstOf spends a check the first time that a marker is brought in eachFor, over all
// who share the limiter. Marker and check are spent together or not at all; counted
// reports whether the check decided, which it does not for a marker that was spent.
func (k *Keeper) firstOf(ctx context.Context, limiter limit.Limiter, marker string, c limit.Check) (d limit.Decision, counted bool, err error) {
	once := limit.Rate{Name: "first", Algorithm: limit.FixedWindow, Quota: 1, Window: eachFor, OnError: limit.Open}
	out, err := limiter.AllowAll(ctx, []limit.Check{{Subject: marker, Cost: 1, Rates: []limit.Rate{once}}, c})
	if err != nil {
		return limit.Decision{}, false, err
	}
	return out[1], out[0].Allowed, nil
}
