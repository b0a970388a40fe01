package probe

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// flushEvery is how often the processes of PostgreSQL hand in what they have counted,
// at most: what is read more often goes by leaps, and what each did in its last second
// is missing until it works again, or has been idle for ten.
const flushEvery = time.Second

// Settle is how long after a crowd a PostgreSQL should be watched, so that what those of
// its processes hand in that are still at work is not missed.
const Settle = flushEvery + 200*time.Millisecond

// postgres is a PostgreSQL, seen through its statistics.
type postgres struct {
	*session
	counted time.Time // when its counters were last read
	local   *processes
	life    string
}

func newPostgres(address string) (*postgres, error) {
	config, err := parseURL(address)
	if err != nil {
		return nil, err
	}
	session, err := newSession(config)
	return &postgres{session: session}, err
}

func (p *postgres) read(ctx context.Context) (reading, error) {
	fresh, err := p.connect(ctx)
	if err != nil {
		return reading{}, err
	}
	if fresh {
		p.counted = time.Time{} // whether it was started again stands beside its counters
	}
	if fresh && p.local == nil {
		p.local = localProcesses(p.conn)
	}
	var now reading
	looks := []func(context.Context, *reading) error{p.activity, p.wal, p.cpu}
	if at := time.Now(); at.Sub(p.counted) >= flushEvery {
		p.counted = at
		looks = append(looks, p.database, p.size)
	}
	for _, look := range looks {
		if err := look(ctx, &now); err != nil {
			return reading{}, err
		}
	}
	now.life = p.life
	return now, nil
}

// final lets the next reading, which is the last, take the counters too.
func (p *postgres) final() { p.counted = time.Time{} }

// fill reads the row of a statement and adds its figures, if there is one.
func (p *postgres) fill(ctx context.Context, now *reading, name string, into []any, figures func() []figure) error {
	found, remark, err := p.one(ctx, name, nil, into...)
	if remark != "" {
		now.remarks = append(now.remarks, remark)
	}
	if found {
		now.figures = append(now.figures, figures()...)
	}
	return err
}

func (p *postgres) activity(ctx context.Context, now *reading) error {
	var active, idle, locked, disk, connections, hidden float64
	return p.fill(ctx, now, "activity", []any{&active, &idle, &locked, &disk, &connections, &hidden}, func() []figure {
		if hidden > 0 {
			now.remarks = append(now.remarks, "hides from this account what other connections do; grant it pg_read_all_stats, or use the server's account")
			return []figure{{name: "connections", unit: "1", value: connections}}
		}
		return []figure{
			{name: "active", unit: "1", value: active},
			{name: "idle in transaction", unit: "1", value: idle},
			{name: "waiting for locks", unit: "1", value: locked},
			{name: "waiting for disk", unit: "1", value: disk},
			{name: "connections", unit: "1", value: connections},
		}
	})
}

func (p *postgres) wal(ctx context.Context, now *reading) error {
	var written *float64
	return p.fill(ctx, now, "wal", []any{&written}, func() []figure {
		if written == nil {
			return nil
		}
		return []figure{{name: "log written", unit: "bytes/s", kind: rate, value: *written}}
	})
}

func (p *postgres) database(ctx context.Context, now *reading) error {
	var commits, rollbacks, inserted, updated, hit, fetched, deadlocks float64
	var life string
	return p.fill(ctx, now, "database", []any{&commits, &rollbacks, &inserted, &updated, &hit, &fetched, &deadlocks, &life}, func() []figure {
		p.life = life
		return []figure{
			{name: "commits/s", unit: "1/s", kind: late, value: commits},
			{name: "rollbacks/s", unit: "1/s", kind: late, value: rollbacks},
			{name: "rows inserted/s", unit: "1/s", kind: late, value: inserted},
			{name: "rows updated/s", unit: "1/s", kind: late, value: updated},
			{name: "blocks found/s", unit: "1/s", kind: late, value: hit},
			{name: "blocks read/s", unit: "1/s", kind: late, value: fetched},
			{name: "deadlocks/s", unit: "1/s", kind: late, value: deadlocks},
		}
	})
}

func (p *postgres) size(ctx context.Context, now *reading) error {
	var bytes float64
	return p.fill(ctx, now, "size", []any{&bytes}, func() []figure {
		return []figure{{name: "size", unit: "bytes", value: bytes}}
	})
}

// cpu counts what all processes of the server have used, if they run on this machine.
func (p *postgres) cpu(ctx context.Context, now *reading) error {
	if p.local == nil {
		return nil
	}
	var pids []int32
	return p.fill(ctx, now, "processes", []any{&pids}, func() []figure {
		return []figure{{name: "cpu", unit: "cores", kind: rate, value: p.local.used(pids)}}
	})
}

func (p *postgres) refusal(err error) *sale.Error {
	return unreachable("PostgreSQL cannot be reached", "check that it runs and that the URL is right", err)
}
