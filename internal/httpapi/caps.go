package httpapi

import (
	"net/netip"
	"sync"
)

// caps counts what is kept open for callers, by address and by user, and says how
// much is too much.
type caps struct {
	total, perIP, perUser int

	mu     sync.Mutex
	open   int
	byIP   map[netip.Prefix]int
	byUser map[string]int
}

// admission is what became of somebody who wanted one more.
type admission uint8

const (
	admitted admission = iota
	full               // the whole has no room
	tooMany            // one address or user has enough
)

func newCaps(total, perIP, perUser int) *caps {
	return &caps{total: total, perIP: perIP, perUser: perUser, byIP: make(map[netip.Prefix]int), byUser: make(map[string]int)}
}

// admit counts one more in, unless that is too many. The zero address and the
// empty user are not counted by themselves.
func (c *caps) admit(from netip.Prefix, user string) admission {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open >= c.total:
		return full
	case from.IsValid() && c.byIP[from] >= c.perIP, user != "" && c.byUser[user] >= c.perUser:
		return tooMany
	}
	c.open++
	if from.IsValid() {
		c.byIP[from]++
	}
	if user != "" {
		c.byUser[user]++
	}
	return admitted
}

// release undoes an admission.
func (c *caps) release(from netip.Prefix, user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if from.IsValid() {
		if c.byIP[from]--; c.byIP[from] == 0 {
			delete(c.byIP, from)
		}
	}
	if user != "" {
		if c.byUser[user]--; c.byUser[user] == 0 {
			delete(c.byUser, user)
		}
	}
}

// count returns how many there are.
func (c *caps) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}
