package stocktest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// memTray is a stream with one group of consumers.
type memTray struct {
	exists    bool
	last      place // of the newest entry that ever was
	delivered place // of the newest entry that was claimed
	entries   []memEntry
	pending   map[place]memClaim
}

type memEntry struct {
	at     place
	fields map[string]string
}

type memClaim struct {
	consumer string
	since    time.Time
}

// place orders entries; its text is their id.
type place struct{ ms, n int64 }

func (p place) String() string { return fmt.Sprintf("%d-%d", p.ms, p.n) }

func (p place) compare(q place) int { return cmp.Or(cmp.Compare(p.ms, q.ms), cmp.Compare(p.n, q.n)) }

func parsePlace(id string) (p place, err error) {
	if _, err = fmt.Sscanf(id, "%d-%d", &p.ms, &p.n); err != nil {
		return place{}, fmt.Errorf("%w: entry %q", stock.ErrInvalid, id)
	}
	return p, nil
}

func (t *memTray) add(now time.Time, fields map[string]string) place {
	next := place{ms: now.UnixMilli()}
	if next.ms <= t.last.ms {
		next = place{ms: t.last.ms, n: t.last.n + 1}
	}
	t.last = next
	t.entries = append(t.entries, memEntry{at: next, fields: fields})
	return next
}

func (t *memTray) find(p place) (int, bool) {
	return slices.BinarySearchFunc(t.entries, p, func(e memEntry, p place) int { return e.at.compare(p) })
}

// after returns entries behind p.
func (t *memTray) after(p place, limit int) []memEntry {
	i, found := t.find(p)
	if found {
		i++
	}
	return t.entries[i:min(len(t.entries), i+limit)]
}

func (t *memTray) claim(p place, consumer string, now time.Time) {
	if t.pending == nil {
		t.pending = make(map[place]memClaim)
	}
	t.pending[p] = memClaim{consumer: consumer, since: now}
}

func (e *memEntry) entry() stock.Entry {
	return stock.Entry{ID: e.at.String(), Fields: maps.Clone(e.fields)}
}

// Claim implements stock.Counter.
func (m *Mem) Claim(ctx context.Context, l stock.Lane, c stock.Claim) ([]stock.Entry, error) {
	var timeout <-chan time.Time
	if c.Wait > 0 {
		timer := time.NewTimer(c.Wait)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		var moved <-chan struct{}
		out, err := call(ctx, m, func() ([]stock.Entry, error) {
			moved = m.moved
			x := m.lane(l)
			if !x.tray.exists {
				return nil, stock.ErrCold
			}
			var out []stock.Entry
			for _, e := range x.tray.after(x.tray.delivered, max(1, c.Max)) {
				x.tray.delivered = e.at
				x.tray.claim(e.at, c.Consumer, m.clock())
				out = append(out, e.entry())
			}
			return out, nil
		})
		if err != nil || len(out) > 0 || c.Wait <= 0 {
			return out, err
		}
		select {
		case <-moved:
		case <-timeout:
			return nil, nil
		case <-ctx.Done():
			return nil, gone(ctx)
		}
	}
}

// wake tells waiting claims that there may be something.
func (m *Mem) wake() {
	close(m.moved)
	m.moved = make(chan struct{})
}

// TakeOver implements stock.Counter.
func (m *Mem) TakeOver(ctx context.Context, l stock.Lane, consumer string, idle time.Duration, limit int) ([]stock.Entry, error) {
	return call(ctx, m, func() ([]stock.Entry, error) {
		t := &m.lane(l).tray
		if !t.exists {
			return nil, stock.ErrCold
		}
		var out []stock.Entry
		for _, p := range slices.SortedFunc(maps.Keys(t.pending), place.compare) {
			if len(out) == max(1, limit) || m.clock().Sub(t.pending[p].since) < idle {
				continue
			}
			i, found := t.find(p)
			if !found { // nobody will ever judge it
				delete(t.pending, p)
				out = append(out, stock.Entry{ID: p.String()})
				continue
			}
			t.claim(p, consumer, m.clock())
			out = append(out, t.entries[i].entry())
		}
		return out, nil
	})
}

// Look implements stock.Counter.
func (m *Mem) Look(ctx context.Context, l stock.Lane, after string, limit int) ([]stock.Entry, error) {
	return call(ctx, m, func() ([]stock.Entry, error) {
		from := place{ms: -1}
		if after != "" {
			var err error
			if from, err = parsePlace(after); err != nil {
				return nil, err
			}
		}
		var out []stock.Entry
		for _, e := range m.lane(l).tray.after(from, max(1, limit)) {
			out = append(out, e.entry())
		}
		return out, nil
	})
}

// Done implements stock.Counter.
func (m *Mem) Done(ctx context.Context, l stock.Lane, entries []stock.Entry) error {
	return do(ctx, m, func() error {
		x := m.lane(l)
		removed := false
		for i := range entries {
			p, err := parsePlace(entries[i].ID)
			if err != nil {
				return err
			}
			delete(x.tray.pending, p)
			at, found := x.tray.find(p)
			if !found {
				continue
			}
			x.tray.entries = slices.Delete(x.tray.entries, at, at+1)
			removed = true
			if x.meta != nil {
				x.meta.queued = max(0, x.meta.queued-stock.CountSlips(&entries[i]))
			}
		}
		if removed && x.meta != nil {
			x.settle()
			x.meta.seq++
		}
		return nil
	})
}

// Retire implements stock.Counter. Consumers without claims leave no trace here.
func (m *Mem) Retire(ctx context.Context, _ stock.Lane, _ string) error {
	return do(ctx, m, func() error { return nil })
}
