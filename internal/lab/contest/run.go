package contest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Options say how large a lab is and where it takes place. The zero value is the lab
// of docs/lab.md.
type Options struct {
	Buyers  int           // in the rush, at least twice the stock; default 2,000
	Stock   int64         // units on sale; default 100
	Seed    uint64        // draws the crowd; 0 draws a seed
	Only    []string      // names of the rows to run; none is all
	Timeout time.Duration // for everything but cleaning up; default 5 min

	// One Redis server, and a PostgreSQL whose user may create databases. Where a URL is
	// empty the server is started from installed binaries and thrown away.
	RedisURL, PostgresURL string

	Binary  string // the doorbuster to try; default: this program
	Version string // for the report

	// Begun and Ended are told of each row; they may be nil.
	Begun func(name string)
	Ended func(*Row)
}

const (
	defaultBuyers  = 2000
	defaultStock   = 100
	defaultTimeout = 5 * time.Minute
	mostBuyers     = 100_000
	// lateBuyers come after the rush beside as many as there are units.
	lateBuyers = 64
	tokenLife  = time.Hour
	sweepTime  = 30 * time.Second
)

// ErrLate is the cause of a lab that has run out of time.
var ErrLate = errors.New("the lab has run out of time")

func (o *Options) fill() error {
	o.Buyers, o.Stock, o.Timeout = cmp.Or(o.Buyers, defaultBuyers), cmp.Or(o.Stock, defaultStock), cmp.Or(o.Timeout, defaultTimeout)
	if o.Seed == 0 {
		o.Seed = drawSeed()
	}
	if o.Begun == nil {
		o.Begun = func(string) {}
	}
	if o.Ended == nil {
		o.Ended = func(*Row) {}
	}
	if o.Stock < 2 || o.Buyers > mostBuyers || int64(o.Buyers) < 2*o.Stock {
		return sale.Invalid("buyers", "this is no rush", fmt.Sprintf("let at least twice as many buyers come as there are units, at most %d, for 2 units at least", mostBuyers))
	}
	if o.Binary != "" {
		return nil
	}
	var err error
	o.Binary, err = os.Executable()
	return err
}

// lab is one run.
type lab struct {
	Options
	dir    string // of logs and data
	ground *ground
	secret []byte // signs the buyers' tokens
	cast   *buyers.Cast
	// strategiesURL is the database of all strategies, empty until one needs it.
	strategiesURL string
	keep          bool  // dir stays, for whoever wants to know why
	left          error // what could not be stopped or removed
}

// Run fills the rows one after the other and returns the report, also together with
// an error that came later. Errors that are *sale.Error say what is wrong with the
// options, or that Redis or PostgreSQL cannot be had; ErrLate and the end of ctx come
// with a report of what was.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err = o.fill(); err != nil {
		return nil, err
	}
	rows, err := choose(o.Only)
	if err != nil {
		return nil, err
	}
	l := &lab{Options: o}
	if l.dir, err = os.MkdirTemp("", "doorbuster-lab-"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, ErrLate)
	defer cancel()
	defer func() { err = errors.Join(err, l.discard(ctx)) }()
	r, err := l.run(ctx, rows)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // not what broke off because of it
	}
	return r, err
}

// run gets what is needed and fills the rows.
func (l *lab) run(ctx context.Context, rows []contender) (*Report, error) {
	err := l.gather()
	if err != nil {
		return nil, err
	}
	var all needs
	for i := range rows {
		all.redis, all.postgres = all.redis || rows[i].redis, all.postgres || rows[i].postgres
	}
	if l.ground, err = prepare(ctx, &l.Options, l.dir, all); err != nil {
		return nil, err
	}
	return l.fill(ctx, rows)
}

// gather calls the crowd together.
func (l *lab) gather() error {
	var err error
	if l.secret, _, err = auth.EnsureSecret(filepath.Join(l.dir, "jwt.key")); err != nil {
		return err
	}
	l.cast, err = buyers.Mint(l.Buyers+int(l.Stock)+lateBuyers, "buyer", buyers.Minting{
		Secret: l.secret, Issuer: "doorbuster", Audience: "doorbuster", Now: time.Now(), Life: tokenLife,
	})
	return err
}

// fill fills all rows.
func (l *lab) fill(ctx context.Context, rows []contender) (*Report, error) {
	r := &Report{
		Version: l.Version, StartedAt: time.Now(), Seed: l.Seed, Buyers: l.Buyers, Stock: l.Stock,
		Redis: l.ground.redisIs, Postgres: l.ground.postgresIs,
	}
	for i := range rows {
		l.Begun(rows[i].Name)
		row, clicks := l.row(ctx, &rows[i])
		if ctx.Err() != nil {
			r.cutOff(rows[i:])
			r.Seconds = time.Since(r.StartedAt).Seconds()
			return r, ctx.Err()
		}
		r.Clicks = max(r.Clicks, clicks)
		r.Rows = append(r.Rows, row)
		r.Seconds = time.Since(r.StartedAt).Seconds()
		r.judge()
		l.Ended(&row)
	}
	if l.keep = len(r.Broken()) > 0; l.keep {
		r.Kept = l.dir
	}
	return r, nil
}

// row fills one row. One that was to fail and did not, or whose fault did not happen, is
// given a second chance with another crowd: accidents are a matter of who meets whom.
func (l *lab) row(ctx context.Context, c *contender) (Row, int) {
	row, clicks := l.try(ctx, c, l.Seed)
	if row.Trouble != "" || ctx.Err() != nil || !row.void() && (row.As || c.Expect != Fails) {
		return row, clicks
	}
	again, _ := l.try(ctx, c, l.Seed+1)
	again.Note = strings.TrimPrefix(again.Note+fmt.Sprintf("; nothing happened with seed %d, so the row was repeated", l.Seed), "; ")
	return again, clicks
}

func (l *lab) try(ctx context.Context, c *contender, seed uint64) (Row, int) {
	row := c.Row
	row.Seed = seed
	clicks, err := l.measure(ctx, c, &row)
	if err != nil {
		row.Trouble = err.Error()
	}
	row.judge()
	return row, clicks
}

// measure opens the house, sends the crowd, and enters what was seen.
func (l *lab) measure(ctx context.Context, c *contender, row *Row) (clicks int, _ error) {
	h := c.house(l)
	defer func() {
		last, done := context.WithTimeout(context.WithoutCancel(ctx), sweepTime)
		defer done()
		if closeErr := h.close(last); closeErr != nil {
			l.left = errors.Join(l.left, fmt.Errorf("%s leaves something behind: %w", c.Name, closeErr))
		}
	}()
	addrs, err := h.open(ctx)
	if err != nil {
		return 0, err
	}
	crowd := profile(l.Buyers)
	plan, err := crowd.Plan(row.Seed)
	if err != nil {
		return 0, err
	}
	v, err := l.visit(c.Name, addrs, row.Seed, h)
	if err != nil {
		return 0, err
	}
	seen, told, err := v.rush(ctx, plan, c.kill)
	if err != nil {
		return 0, err
	}
	row.measure(seen, v.script.lastSale())
	if judged := waits(v.books.Judged()); judged.Answers > 0 {
		row.Judged = &judged
	}
	if err = v.late(ctx, int32(l.Buyers)); err != nil { //nolint:gosec // at most mostBuyers
		return 0, err
	}
	books, audited, err := h.recount(ctx)
	if err != nil {
		return 0, fmt.Errorf("recount: %w", err)
	}
	row.recount(books, v.books.Orders(), l.Stock, int64(l.cast.Size()))
	if row.Struck, row.ToldAtKill = audited.struck, told; told > 0 {
		row.Struck++
	}
	if c.Expect == Clean {
		heard := v.broken()
		row.Broken = audited.broken + heard.broken
		row.Note = strings.Trim(audited.note+"; "+heard.note, "; ")
	}
	return count(plan), nil
}

// count returns how many buys a plan sends.
func count(plan []traffic.Visit) int {
	n := 0
	for i := range plan {
		if plan[i].Kind == traffic.Buy {
			n++
		}
	}
	return n
}

// folder makes a folder of the run's; what a row before has left there is removed.
func (l *lab) folder(name string) (string, error) {
	dir := filepath.Join(l.dir, name)
	return dir, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
}

// discard stops the stores and removes all that was made, but for the folder with the
// logs if Doorbuster broke a promise.
func (l *lab) discard(ctx context.Context) error {
	last, done := context.WithTimeout(context.WithoutCancel(ctx), sweepTime)
	defer done()
	err := l.left
	if l.strategiesURL != "" {
		err = errors.Join(err, l.ground.drop(last, database))
	}
	if l.ground != nil {
		err = errors.Join(err, l.ground.discard())
	}
	if l.keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}
