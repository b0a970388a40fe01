package memlock

import "github.com/doorbuster/doorbuster/lock"

// past remembers for each name who was released last, of so many releases.
type past struct {
	last map[key]release
	ring [1024]key
	n    int
}

type release struct {
	owner lock.Owner
	by    string
	n     int // counts releases
}

func (p *past) add(k key, r *lock.Request) {
	slot := &p.ring[p.n%len(p.ring)]
	if old, ok := p.last[*slot]; ok && old.n == p.n-len(p.ring) {
		delete(p.last, *slot)
	}
	*slot = k
	p.last[k] = release{r.Owner, r.By, p.n}
	p.n++
}

// is reports whether a request repeats the last release of its name.
func (p *past) is(k key, r *lock.Request) bool {
	last, ok := p.last[k]
	return ok && last.owner == r.Owner && last.by == r.By
}
