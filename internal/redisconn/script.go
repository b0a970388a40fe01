package redisconn

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// ScriptOptions are those of a Script. The zero value is ready for use.
type ScriptOptions struct {
	// Timeout is the deadline of a call whose context has none that is earlier.
	// Zero is DefaultCallTimeout.
	Timeout time.Duration
	// Observe is told of each call, if set: the name of the script, how long the
	// call took, and its error, which is nil or an *Error. It must not block.
	Observe func(script string, took time.Duration, err error)
}

// Script is a Lua script. It is sent by its hash, and whole to a server that has
// forgotten it, which is known from an answer that says so; after a lost answer
// it is not sent again. It is safe for concurrent use.
type Script struct {
	name string
	lua  *rueidis.Lua
	o    ScriptOptions
}

// NewScript returns a script, under a name for errors and metrics.
func NewScript(name, source string, o ScriptOptions) *Script {
	if o.Timeout <= 0 {
		o.Timeout = DefaultCallTimeout
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration, error) {}
	}
	return &Script{name: name, lua: rueidis.NewLuaScript(source), o: o}
}

// Name returns the name that the script was given.
func (s *Script) Name() string { return s.name }

// errTags is a mistake of the caller that a single server would forgive.
var errTags = errors.New("redisconn: the keys of a script must share one hash tag")

// Run runs the script once. All keys must hold the same {tag}, or be one, on a
// single server too, so that a mistake does not wait for a cluster to be found.
// A nil answer is a message, not an error. Errors are those of Trouble.
func (s *Script) Run(ctx context.Context, client rueidis.Client, keys, args []string) (rueidis.RedisMessage, error) {
	start := time.Now()
	msg, err := s.run(ctx, client, keys, args)
	s.o.Observe(s.name, time.Since(start), err)
	return msg, err
}

func (s *Script) run(ctx context.Context, client rueidis.Client, keys, args []string) (rueidis.RedisMessage, error) {
	if !oneTag(keys) {
		return rueidis.RedisMessage{}, &Error{Call: s.name, Reason: Failed, NotExecuted: true, Err: errTags}
	}
	if err := ctx.Err(); err != nil { // known before anything was sent
		reason, _ := ofConnection(err)
		return rueidis.RedisMessage{}, &Error{Call: s.name, Reason: reason, NotExecuted: true, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	msg, err := s.lua.Exec(ctx, client, keys, args).ToMessage()
	if err = Trouble(s.name, err); rueidis.IsRedisNil(err) {
		err = nil
	}
	return msg, err
}

// oneTag reports whether keys land in one slot of a cluster by their looks.
func oneTag(keys []string) bool {
	for i := 1; i < len(keys); i++ {
		if hashed(keys[i]) != hashed(keys[0]) {
			return false
		}
	}
	return true
}

// hashed returns the part of a key that decides its slot: what stands between the
// first { and the next }, or all of it if that is nothing.
func hashed(key string) string {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	length := strings.IndexByte(key[open+1:], '}')
	if length <= 0 {
		return key
	}
	return key[open+1 : open+1+length]
}
