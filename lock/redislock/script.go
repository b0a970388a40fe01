package redislock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/lock"
)

//go:embed lua/acquire.lua
var acquireSource string

//go:embed lua/release.lua
var releaseSource string

//go:embed lua/renew.lua
var renewSource string

//go:embed lua/inspect.lua
var inspectSource string

//go:embed lua/share.lua
var shareSource string

//go:embed lua/share_acquire.lua
var shareAcquireSource string

//go:embed lua/share_release.lua
var shareReleaseSource string

//go:embed lua/share_renew.lua
var shareRenewSource string

//go:embed lua/share_inspect.lua
var shareInspectSource string

// script is one step. It is sent by its hash, and whole to a server that has
// forgotten it.
type script struct {
	op     string
	source string
	lua    *rueidis.Lua
}

func newScript(op, source string) *script {
	return &script{op: op, source: source, lua: rueidis.NewLuaScript(source)}
}

// scripts are those of a store.
type scripts struct {
	acquire, release, renew, inspect                     *script
	shareAcquire, shareRelease, shareRenew, shareInspect *script
}

// always lets a script run on a server whose memory is full: it takes next to
// none, and what is held must be kept and given back there, too.
const always = "#!lua flags=allow-oom\n"

func newScripts() scripts {
	return scripts{
		acquire:      newScript("acquire", acquireSource),
		release:      newScript("release", always+releaseSource),
		renew:        newScript("renew", always+renewSource),
		inspect:      newScript("inspect", inspectSource),
		shareAcquire: newScript("acquire", shareSource+shareAcquireSource),
		shareRelease: newScript("release", always+shareSource+shareReleaseSource),
		shareRenew:   newScript("renew", always+shareSource+shareRenewSource),
		shareInspect: newScript("inspect", shareSource+shareInspectSource),
	}
}

// run sends a script once; nobody repeats it but the caller.
func (s *Store) run(ctx context.Context, script *script, keys, args []string) (rueidis.RedisMessage, error) {
	msg, err := script.lua.Exec(ctx, s.client, keys, args).ToMessage()
	if err != nil {
		return msg, trouble(script.op, err)
	}
	return msg, nil
}

// confirming is how many calls at once wait for replicas. Each has a connection of
// its own meanwhile.
const confirming = 16

// replicated does the same, and if something was granted or renewed waits for the
// replicas, on the connection of the script: on another one, WAIT speaks of other
// writes.
func (s *Store) replicated(ctx context.Context, script *script, keys, args []string) (rueidis.RedisMessage, error) {
	if s.o.Replicas == 0 {
		return s.run(ctx, script, keys, args)
	}
	select {
	case s.confirming <- struct{}{}:
		defer func() { <-s.confirming }()
	case <-ctx.Done():
		return rueidis.RedisMessage{}, trouble(script.op, ctx.Err())
	}
	conn, giveBack := s.client.Dedicate()
	defer giveBack()
	eval := s.client.B().Eval().Script(script.source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	msg, err := conn.Do(ctx, eval).ToMessage()
	if err != nil {
		return msg, trouble(script.op, err)
	}
	if !granted(&msg) {
		return msg, nil // and it asks again, perhaps often
	}
	wait := s.client.B().Wait().Numreplicas(int64(s.o.Replicas)).Timeout(s.o.ReplicaTimeout.Milliseconds()).Build()
	n, err := conn.Do(ctx, wait).AsInt64()
	switch {
	case err != nil:
		return msg, trouble(script.op, err)
	case n < int64(s.o.Replicas):
		err = fmt.Errorf("%w: %d of %d in %s", lock.ErrReplication, n, s.o.Replicas, s.o.ReplicaTimeout)
		return msg, &lock.StoreError{Op: script.op, Err: err}
	}
	return msg, nil
}

// granted reports whether an answer begins with 1: granted, or renewed.
func granted(msg *rueidis.RedisMessage) bool {
	if list, err := msg.ToArray(); err == nil && len(list) > 0 {
		msg = &list[0]
	}
	n, err := msg.AsInt64()
	return err == nil && n == 1
}

// passing are the beginnings of answers that another time may not be given: a
// fail-over, a restart, a slot on the move, a script that runs.
func passing() []string {
	return []string{"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MOVED", "ASK", "UNBLOCKED", "OOM", "MISCONF"}
}

// trouble says of an error whether it will pass.
func trouble(op string, err error) error {
	out := &lock.StoreError{Op: op, Err: err}
	if said, ok := rueidis.IsRedisErr(err); ok {
		out.Permanent = true
		for _, word := range passing() {
			if strings.HasPrefix(said.Error(), word) {
				out.Permanent = false
			}
		}
	}
	if errors.Is(err, rueidis.ErrClosing) {
		out.Permanent = true
	}
	return out
}

func millis(d time.Duration) int64 { return d.Milliseconds() }
