package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/lock"
)

// Store is a lock.Store in one Redis, Sentinel group or Cluster. It is safe for
// concurrent use.
type Store struct {
	client  rueidis.Client
	o       Options
	lua     scripts
	sharded bool
	publish string // PUBLISH or SPUBLISH
	life    string // Retention in ms
	claim   string // Claim in ms
	wakes   string // what the channels of Lockers begin with

	mutexes, shared, permits beginnings
	confirming               chan struct{} // see replicated
}

// New returns a store over a client, which stays the caller's to close, after the
// Lockers. Nothing is sent yet. Errors are lock.ErrInvalid.
func New(client rueidis.Client, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, o: o, lua: newScripts(), publish: "PUBLISH", confirming: make(chan struct{}, confirming)}
	if client.Mode() == rueidis.ClientModeCluster {
		s.sharded, s.publish = true, "SPUBLISH"
	}
	s.wakes = o.Prefix + "wake:"
	s.mutexes, s.shared, s.permits = newBeginnings(o.Prefix, "m"), newBeginnings(o.Prefix, "s"), newBeginnings(o.Prefix, "p")
	s.life, s.claim = decimal(millis(o.Retention)), decimal(millis(o.Claim))
	return s, nil
}

// Acquire implements lock.Store.
func (s *Store) Acquire(ctx context.Context, r *lock.Request) (lock.Grant, error) {
	if err := s.outlives(r.Lease); err != nil {
		return lock.Grant{}, err
	}
	k, script := s.key(r.Kind, r.Name), s.lua.acquire
	var args []string
	lease, queue, barging := decimal(millis(r.Lease)), decimal(millis(r.Queue)), flag(r.Barging)
	names := k.mutex()
	if r.Kind == lock.Mutex {
		args = []string{string(r.Owner), lease, s.life, queue, barging, string(r.From), r.Metadata}
	} else {
		script, names = s.lua.shareAcquire, k.share()
		args = append(s.shareArgs(r), lease, queue, barging, string(r.From), decimal(r.Count), decimal(r.Limit), r.Metadata)
	}
	msg, err := s.replicated(ctx, script, names, args)
	if err != nil {
		return lock.Grant{}, err
	}
	return readGrant(&msg)
}

// outlives refuses a lease that the keys might not outlive.
func (s *Store) outlives(lease time.Duration) error {
	if lease > s.o.Retention/2 {
		return fmt.Errorf("%w: a lease of %s with a retention of %s", lock.ErrInvalid, lease, s.o.Retention)
	}
	return nil
}

// Renew implements lock.Store.
func (s *Store) Renew(ctx context.Context, r *lock.Request) (bool, error) {
	if err := s.outlives(r.Lease); err != nil {
		return false, err
	}
	k, lease := s.key(r.Kind, r.Name), decimal(millis(r.Lease))
	var msg rueidis.RedisMessage
	var err error
	if r.Kind == lock.Mutex {
		msg, err = s.replicated(ctx, s.lua.renew, []string{k.base()}, []string{string(r.Owner), lease, s.life, decimal(int64(r.Fence))}) //nolint:gosec // below 2^53
	} else {
		msg, err = s.replicated(ctx, s.lua.shareRenew, k.share(), append(s.shareArgs(r), lease, decimal(r.Count)))
	}
	if err != nil {
		return false, err
	}
	n, err := msg.AsInt64()
	if err != nil {
		return false, trouble("renew", err)
	}
	return n == 1, nil
}

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, r *lock.Request) (lock.Outcome, error) {
	k := s.key(r.Kind, r.Name)
	var msg rueidis.RedisMessage
	var err error
	if r.Kind == lock.Mutex {
		args := []string{
			string(r.Owner), s.here(r), s.claim, s.life, flag(r.Barging), s.publish, s.wakes, decimal(int64(r.Fence)), //nolint:gosec // below 2^53
			receipt(r),
		}
		msg, err = s.run(ctx, s.lua.release, append(k.mutex(), k.channel()), args)
	} else {
		msg, err = s.run(ctx, s.lua.shareRelease, k.share(), append(s.shareArgs(r), flag(r.Barging), receipt(r)))
	}
	if err != nil {
		return lock.Outcome{}, err
	}
	return readOutcome(&msg)
}

// shareArgs are the first six that every share script has.
func (s *Store) shareArgs(r *lock.Request) []string {
	return []string{string(r.Owner), s.here(r), s.claim, s.life, s.publish, s.wakes}
}

// receipt is what a release is remembered by: who was released, and by whom.
func receipt(r *lock.Request) string {
	if r.By == r.Owner.Locker() {
		return string(r.Owner)
	}
	return r.By + " " + string(r.Owner)
}

// here is how the owners begin that learn of a grant from the answer to a release.
// Where replicas must confirm a grant, there are none: every waiter is woken, asks
// for its grant, and waits for the replicas.
func (s *Store) here(r *lock.Request) string {
	if s.o.Replicas > 0 {
		return "."
	}
	return r.By + "."
}

// Inspect implements lock.Store.
func (s *Store) Inspect(ctx context.Context, kind lock.Kind, name string) (lock.Info, error) {
	k := s.key(kind, name)
	var msg rueidis.RedisMessage
	var err error
	if kind == lock.Mutex {
		msg, err = s.run(ctx, s.lua.inspect, k.mutex()[:2], nil)
	} else {
		msg, err = s.run(ctx, s.lua.shareInspect, k.share(), s.shareArgs(&lock.Request{}))
	}
	if err != nil {
		return lock.Info{}, err
	}
	return readInfo(&msg)
}

// Topic implements lock.Store: one for each Locker, or in a Cluster one for each
// name, which lies where the name lies.
func (s *Store) Topic(r *lock.Request) string {
	if s.sharded {
		return s.key(r.Kind, r.Name).channel()
	}
	return s.wakes + r.Owner.Locker()
}

// errUnsubscribed is the end of a subscription by the server, as when a slot
// moves.
var errUnsubscribed = errors.New("redislock: the server has ended the subscription")

// Subscribe implements lock.Store.
func (s *Store) Subscribe(ctx context.Context, topic string, ready func(), wake func(lock.Owner)) error {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(p rueidis.PubSubSubscription) {
		if p.Channel == topic && (p.Kind == "subscribe" || p.Kind == "ssubscribe") {
			ready()
		}
	})
	subscribe := s.client.B().Subscribe().Channel(topic).Build()
	if s.sharded {
		subscribe = s.client.B().Ssubscribe().Channel(topic).Build()
	}
	err := s.client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) { wake(lock.Owner(m.Message)) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		err = errUnsubscribed
	}
	return trouble("subscribe", err)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func flag(on bool) string { //nolint:revive // it spells a flag
	if on {
		return "1"
	}
	return "0"
}

// left turns milliseconds of the server into a time.
func left(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
