package redislock

import (
	"strings"

	"github.com/doorbuster/doorbuster/lock"
)

// keys are what a name needs. They lie in one slot.
type keys struct {
	of   *beginnings
	name string // with the tag
}

// beginnings are how the keys of a kind begin.
type beginnings struct{ base, queue, waiters, holders, channel string }

func newBeginnings(prefix, letter string) beginnings {
	b := prefix + letter
	return beginnings{base: b + ":", queue: b + "q:", waiters: b + "w:", holders: b + "h:", channel: b + "c:"}
}

// key returns those of a name. A name with a hash tag keeps it; any other one is
// the tag. The two cannot meet: one goes on with '=', the other with '{'.
func (s *Store) key(kind lock.Kind, name string) keys {
	out := keys{of: &s.mutexes}
	switch kind {
	case lock.Mutex:
	case lock.ReadWrite:
		out.of = &s.shared
	case lock.Permits:
		out.of = &s.permits
	}
	if strings.Contains(name, "{") {
		out.name = "=" + name
	} else {
		out.name = "{" + name + "}"
	}
	return out
}

func (k keys) base() string    { return k.of.base + k.name }
func (k keys) channel() string { return k.of.channel + k.name }

// mutex and share are the KEYS of the scripts.
func (k keys) mutex() []string {
	return append(make([]string, 0, 4), k.base(), k.of.queue+k.name, k.of.waiters+k.name)
}

func (k keys) share() []string {
	return []string{k.base(), k.of.holders + k.name, k.of.queue + k.name, k.of.waiters + k.name, k.channel()}
}

// Key returns the hash that a mutex's owner (field o) and lease end (field e, in
// milliseconds of the server's time) are in, for scripts that guard a write in the
// same slot: they change something only while the owner is still the one of the
// lease. That needs no fence.
func (s *Store) Key(name string) string { return s.key(lock.Mutex, name).base() }
