package redislock

import (
	"strings"

	"github.com/doorbuster/doorbuster/lock"
)

// keys are what a name needs. They lie in one slot.
type keys struct {
	kind string // what they begin with
	name string // with the tag
}

// key returns those of a name. A name with a hash tag keeps it; any other one is
// the tag. The two cannot meet: one goes on with '=', the other with '{'.
func (s *Store) key(kind lock.Kind, name string) keys {
	out := keys{kind: s.o.Prefix + "m"}
	switch kind {
	case lock.Mutex:
	case lock.ReadWrite:
		out.kind = s.o.Prefix + "s"
	case lock.Permits:
		out.kind = s.o.Prefix + "p"
	}
	if strings.Contains(name, "{") {
		out.name = "=" + name
	} else {
		out.name = "{" + name + "}"
	}
	return out
}

func (k keys) base() string    { return k.kind + ":" + k.name }
func (k keys) queue() string   { return k.kind + "q:" + k.name }
func (k keys) waiters() string { return k.kind + "w:" + k.name }
func (k keys) holders() string { return k.kind + "h:" + k.name }
func (k keys) channel() string { return k.kind + "c:" + k.name }

// mutex and shared are the KEYS of the scripts.
func (k keys) mutex() []string { return []string{k.base(), k.queue(), k.waiters()} }

func (k keys) shared() []string {
	return []string{k.base(), k.holders(), k.queue(), k.waiters(), k.channel()}
}

// Key returns the hash that a mutex's owner (field o) and lease end (field e, in
// milliseconds of the server's time) are in, for scripts that guard a write in the
// same slot: they change something only while the owner is still the one of the
// lease. That needs no fence.
func (s *Store) Key(name string) string { return s.key(lock.Mutex, name).base() }
