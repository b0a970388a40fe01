package probe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Options say what is watched. What is left empty is not.
type Options struct {
	// Ops are the URLs of ops listeners (ops.listen), such as http://127.0.0.1:9090. The
	// first is told of as "server", the others as "server 2" and so on.
	Ops []string
	// Key is an API key with the scope ops, which listeners ask for that are not on
	// loopback.
	Key string
	// Redis is as redis.url, and Prefix as redis.prefix; empty is "doorbuster".
	Redis, Prefix string
	// Postgres is as ledger.url. The account needs no more than to connect; what it may
	// not see is missing.
	Postgres string
	// Nginx is the URL of a location with stub_status.
	Nginx string
	// Sale is the name of the sale whose stock is followed; empty is none.
	Sale string
	// Every is the time between two readings; 0 is 250 ms.
	Every time.Duration
	// Start is the zero of the series, which may be to come. Zero is now.
	Start time.Time
	// Before is how long before Start the crowd comes.
	Before time.Duration
}

const (
	defaultEvery = 250 * time.Millisecond
	// reachIn bounds the first readings, connections included.
	reachIn = 10 * time.Second
	// readIn bounds every other one.
	readIn = 2 * time.Second
)

// source is something that tells of itself.
type source interface {
	// read asks once. It is called by one goroutine at a time. An error leaves a gap;
	// it names no password.
	read(ctx context.Context) (reading, error)
	// refusal says what an operator can do about a first reading that failed.
	refusal(err error) *sale.Error
	close()
}

// Probe is watching.
type Probe struct {
	start   time.Time
	every   time.Duration
	watched []*watched
	cancel  context.CancelFunc
	stop    chan struct{}
	stopped sync.Once
	work    sync.WaitGroup
}

// watched is a source and what it has told.
type watched struct {
	source
	*recorder
}

// Start reads every source once and goes on until Stop, or until ctx ends. A source
// that cannot be reached is an error: a *sale.Error of CodeUnavailable, or of CodeInvalid
// if the options are wrong. Then nothing is watched.
func Start(ctx context.Context, o Options) (*Probe, error) {
	if o.Every <= 0 {
		o.Every = defaultEvery
	}
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	p := &Probe{start: o.Start, every: o.Every, stop: make(chan struct{})}
	reach, done := context.WithTimeout(ctx, reachIn)
	defer done()
	err := p.open(reach, &o)
	if err == nil {
		err = p.first(reach)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.begin(ctx)
	return p, nil
}

// begin reads again and again, until Stop or the end of ctx.
func (p *Probe) begin(ctx context.Context) {
	ctx, p.cancel = context.WithCancel(ctx)
	for _, w := range p.watched {
		p.work.Go(func() { p.watch(ctx, w) })
	}
}

// open makes the sources. Those over HTTP connect in their first reading.
func (p *Probe) open(ctx context.Context, o *Options) error {
	add := func(name string, s source, err error) error {
		if err == nil {
			p.watched = append(p.watched, &watched{source: s, recorder: newRecorder(name, -o.Before)})
		}
		return err
	}
	for i, ops := range o.Ops {
		name := "server"
		if i > 0 {
			name = fmt.Sprintf("server %d", i+1)
		}
		s, err := newServer(ops, o.Key, o.Sale)
		if err = add(name, s, err); err != nil {
			return err
		}
	}
	var counter rueidis.Client
	if o.Redis != "" {
		s, err := openRedis(ctx, o.Redis)
		if err = add("redis", s, err); err != nil {
			return err
		}
		counter = s.client
	}
	if o.Postgres != "" {
		s, err := newPostgres(o.Postgres)
		if err = add("postgres", s, err); err != nil {
			return err
		}
		if o.Sale != "" {
			book, err := newStock(o, s.config, counter)
			if err = add("stock", book, err); err != nil {
				return err
			}
		}
	}
	if o.Nginx != "" {
		s, err := newNginx(o.Nginx)
		if err = add("nginx", s, err); err != nil {
			return err
		}
	}
	return add("crowd", newCrowd(), nil)
}

// first reads all sources at once. Of several errors one is returned: that is enough
// for a person to act on.
func (p *Probe) first(ctx context.Context) error {
	failed := make([]error, len(p.watched))
	var work sync.WaitGroup
	for i, w := range p.watched {
		work.Go(func() {
			if err := p.read(ctx, w); err != nil {
				failed[i] = w.refusal(err)
			}
		})
	}
	work.Wait()
	return cmp.Or(failed...)
}

// watch reads a source in every interval, and once more at the end.
func (p *Probe) watch(ctx context.Context, w *watched) {
	defer w.end()
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for last := false; !last && !w.full; {
		select {
		case <-ctx.Done():
			return
		case <-p.stop:
			last = true
			if s, ok := w.source.(interface{ final() }); ok {
				s.final()
			}
		case <-tick.C:
		}
		asked := time.Since(p.start)
		limited, cancel := context.WithTimeout(ctx, readIn)
		err := p.read(limited, w)
		cancel()
		if err != nil && ctx.Err() == nil {
			w.failed(asked, err)
		}
		select {
		case <-tick.C: // it came meanwhile: what is slow has a rest until the next
		default:
		}
	}
}

func (p *Probe) read(ctx context.Context, w *watched) error {
	asked := time.Now()
	now, err := w.read(ctx)
	if err == nil {
		w.heard(asked.Add(time.Since(asked)/2).Sub(p.start), &now)
	}
	return err
}

// Stop reads every source a last time, which takes two seconds at the most, and returns
// what was told: the series by source, the notes by time. It may be called again.
func (p *Probe) Stop() ([]Series, []Note) {
	p.stopped.Do(func() {
		close(p.stop)
		p.work.Wait()
		p.cancel()
		p.close()
	})
	var series []Series
	var notes []Note
	for _, w := range p.watched {
		for _, s := range w.series {
			series = append(series, *s)
		}
		notes = append(notes, w.notes...)
	}
	slices.SortStableFunc(notes, func(a, b Note) int { return cmp.Compare(a.At, b.At) })
	return series, notes
}

func (p *Probe) close() {
	for _, w := range p.watched {
		w.close()
	}
}
