package redisstock

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// DefaultCallTimeout is how long a call may take where Options say nothing.
const DefaultCallTimeout = time.Second

// DefaultPrefix begins every key where Options say nothing.
const DefaultPrefix = "doorbuster"

// Options of a Counter. The zero value is ready for use.
type Options struct {
	// Prefix begins every key, so that several installations can share a server.
	// Empty is DefaultPrefix. It must not hold braces.
	Prefix string
	// CallTimeout is the deadline of a call whose context has none that is
	// earlier. Zero is DefaultCallTimeout.
	CallTimeout time.Duration
	// Observe is told of each script that ran, if set: its name, how long the call
	// took, and its error, a *redisconn.Error or nil. It must not block.
	Observe func(script string, took time.Duration, err error)
}

// Counter is the fast counter over Redis. It is safe for concurrent use, and
// never sends a call again by itself once the server may have seen it.
type Counter struct {
	client  rueidis.Client
	prefix  string
	timeout time.Duration
	scripts scripts
}

var _ stock.Counter = (*Counter)(nil)

// New returns a counter over client, as redisconn opens one, which stays the
// caller's to close.
func New(client rueidis.Client, o Options) (*Counter, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("redisstock: the prefix %q holds braces, which would change the keys' hash tag", o.Prefix)
	}
	s, err := loadScripts(redisconn.ScriptOptions{Timeout: o.CallTimeout, Observe: o.Observe})
	if err != nil {
		return nil, err
	}
	return &Counter{client: client, prefix: o.Prefix, timeout: o.CallTimeout, scripts: s}, nil
}

//go:embed lua/*.lua
var sources embed.FS

// scripts are the programs in lua/.
type scripts struct {
	take, records, clock               *redisconn.Script
	acts, sync, offset                 *redisconn.Script
	give, receive, want                *redisconn.Script
	freeze, load, set, unfreeze, erase *redisconn.Script
	done, retire                       *redisconn.Script
}

func loadScripts(o redisconn.ScriptOptions) (scripts, error) {
	var s scripts
	for name, script := range map[string]**redisconn.Script{
		"take": &s.take, "records": &s.records, "clock": &s.clock, "acts": &s.acts, "sync": &s.sync, "offset": &s.offset,
		"give": &s.give, "receive": &s.receive, "want": &s.want,
		"freeze": &s.freeze, "load": &s.load, "set": &s.set, "unfreeze": &s.unfreeze, "clear": &s.erase,
		"done": &s.done, "retire": &s.retire,
	} {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return s, fmt.Errorf("redisstock: %w", err)
		}
		*script = redisconn.NewScript(name, string(text), o)
	}
	return s, nil
}

// exec runs a script and returns its reply, whose first element is a word.
func (c *Counter) exec(ctx context.Context, s *redisconn.Script, keys, args []string) (string, []rueidis.RedisMessage, error) {
	msg, err := s.Run(ctx, c.client, keys, args)
	if err != nil {
		return "", nil, unavailable(s.Name(), err)
	}
	out, err := msg.ToArray()
	if err != nil {
		return "", nil, unavailable(s.Name(), err)
	}
	if len(out) == 0 {
		return "", nil, unavailable(s.Name(), errReply)
	}
	word, err := out[0].ToString()
	if err != nil {
		return "", nil, unavailable(s.Name(), err)
	}
	return word, out[1:], nil
}

// errReply says that a script answered what it never answers.
var errReply = errors.New("an answer of another script")

// unavailable wraps whatever the server or the network answered: it is never a
// verdict.
func unavailable(name string, err error) error {
	return fmt.Errorf("%w: %w", stock.ErrUnavailable, redisconn.Trouble(name, err))
}

// standing turns the word by which a script tells of the lane into the error of
// the contract; nil for "ok".
func standing(name, word string) error {
	switch word {
	case "ok":
		return nil
	case "cold":
		return stock.ErrCold
	case "frozen":
		return stock.ErrFrozen
	case "epoch":
		return stock.ErrEpoch
	case "tray":
		return stock.ErrTray
	case "wanted":
		return stock.ErrWanted
	case "stale":
		return stock.ErrStale
	case "item":
		return fmt.Errorf("%w: the lane has other items", stock.ErrInvalid)
	}
	return unavailable(name, errReply)
}
