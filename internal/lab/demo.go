package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
)

// ErrBroken says that a promise is broken: the crowd was told something that is
// not so, or the audit found what must not be. The report says which.
var ErrBroken = errors.New("a promise is broken")

// errLate is the cause of a demo that has run out of time.
var errLate = errors.New("the demo has run out of time")

// DemoOptions say how large a demo is and where its output goes. The zero value
// is the demo of the README.
type DemoOptions struct {
	Buyers  int           // at the door in one instant; default 10,000
	Stock   int           // units on sale; default 100
	Seed    uint64        // draws the personas; 0 draws a seed
	Hold    time.Duration // how long a unit waits for payment, in whole seconds; default 3 s
	Timeout time.Duration // for all but Keep; default 55 s
	Keep    bool          // go on serving when it is over, until ctx ends; the folder stays
	JSON    bool          // write the report as one JSON object instead of tables
	Binary  string        // the doorbuster to try; default: this program
	Dir     string        // where the temporary folder is made; default: the system's place
	// RedisURL puts the sale on the fast path; empty is the direct path.
	RedisURL string
	// LedgerURL is a ledger of the user's; empty is an embedded one that is thrown away.
	LedgerURL string
	// Progress is the terminal on which a bar is drawn; nil draws none.
	Progress io.Writer

	sale string // its id
}

const (
	defaultBuyers  = 10_000
	defaultStock   = 100
	defaultHold    = 3 * time.Second
	defaultTimeout = 55 * time.Second
	mostBuyers     = 1_000_000
)

func (o *DemoOptions) fill() error {
	if o.Buyers == 0 {
		o.Buyers = defaultBuyers
	}
	if o.Stock == 0 {
		o.Stock = defaultStock
	}
	if o.Buyers < 0 || o.Buyers > mostBuyers || o.Stock < 0 || o.Stock > mostBuyers {
		return fmt.Errorf("buyers and stock are numbers from 1 to %d", mostBuyers)
	}
	for o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) //nolint:gosec // short, to be typed again; not a secret
	}
	if o.Hold == 0 {
		o.Hold = defaultHold
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	o.sale = saleID
	if o.LedgerURL != "" {
		o.sale += fmt.Sprintf("-%x", time.Now().UnixMilli())
	}
	if o.Binary != "" {
		return nil
	}
	var err error
	o.Binary, err = os.Executable()
	return err
}

// Demo runs one sale with a real server and a real crowd, writes the report to
// out, and stops the server. The error wraps ErrBroken if a promise is broken;
// any other error says what kept the demo from its end.
func Demo(ctx context.Context, o DemoOptions, out io.Writer) (DemoReport, error) {
	if err := o.fill(); err != nil {
		return DemoReport{}, err
	}
	dir, err := os.MkdirTemp(o.Dir, "doorbuster-demo-")
	if err != nil {
		return DemoReport{}, err
	}
	report, err := o.demonstrate(ctx, dir, out)
	// What is broken stays for whoever wants to know why.
	if !o.Keep && !errors.Is(err, ErrBroken) {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return report, err
}

// demonstrate runs the demo in an empty folder.
func (o *DemoOptions) demonstrate(ctx context.Context, dir string, out io.Writer) (DemoReport, error) {
	begun := time.Now()
	run, cancel := context.WithTimeoutCause(ctx, o.Timeout, errLate)
	defer cancel()
	g, err := o.visit(run, dir)
	if err != nil {
		return DemoReport{}, err
	}
	s, err := startServer(run, o.Binary, dir, o.parts()...)
	if err != nil {
		return DemoReport{}, errors.Join(err, g.leave(ctx, nil, o.sale))
	}
	end := func() error { return errors.Join(g.leave(ctx, s, o.sale), s.Stop()) }
	report, err := o.play(run, s)
	if err != nil && ctx.Err() != nil { // the user has had enough: no word of the server's
		return report, errors.Join(err, end())
	}
	if err != nil {
		return report, errors.Join(err, end(), s.logged())
	}
	report.Seconds = time.Since(begun).Seconds()
	if err = o.write(&report, out); err == nil && o.Keep {
		err = s.keep(ctx)
	}
	if err = errors.Join(err, end()); err != nil {
		err = errors.Join(err, s.logged())
	}
	if report.Broken() {
		err = errors.Join(fmt.Errorf("%w; the ledger stays in %s", ErrBroken, dir), err)
	}
	return report, err
}

// parts returns the arguments that name the parts of the server.
func (o *DemoOptions) parts() []string {
	var args []string
	if o.LedgerURL != "" {
		args = append(args, "--ledger-url", o.LedgerURL)
	}
	if o.RedisURL != "" {
		args = append(args, "--redis-url", o.RedisURL)
	}
	return args
}

func (o *DemoOptions) write(r *DemoReport, out io.Writer) error {
	if o.JSON {
		return r.writeJSON(out)
	}
	return r.WriteText(out)
}

// keep waits until ctx ends.
func (s *server) keep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.Done():
		return errors.New("the server has ended")
	}
}

// stage is everything that a sale needs but for the crowd.
type stage struct {
	server *server
	admin  *client.Client
	buyers *client.Client // without a token
	door   *pool
	till   *pool
	secret []byte // signs buyers' tokens
}

// play lets the sale happen and compares the books. ctx ends with the time or
// with the user's patience.
func (o *DemoOptions) play(ctx context.Context, s *server) (DemoReport, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.Done():
			cancel(errors.New("the server has ended in the middle of the sale"))
		case <-ctx.Done():
		}
	}()
	st, err := o.build(s)
	if err != nil {
		return DemoReport{}, err
	}
	defer st.door.close()
	defer st.till.close()
	c, err := o.gather(st)
	if err != nil {
		return DemoReport{}, err
	}
	stop := o.watch(st, c)
	defer stop()
	if err = st.door.warm(ctx, st.buyers); err != nil {
		return DemoReport{}, fmt.Errorf("open the connections: %w", err)
	}
	if c.opens, err = o.open(ctx, st.admin, c.sale); err != nil {
		return DemoReport{}, fmt.Errorf("open the sale: %w", err)
	}
	c.run(ctx, workers(st.door.size))
	stop()
	if ctx.Err() != nil {
		return DemoReport{}, o.missing(c, context.Cause(ctx))
	}
	return o.judge(ctx, st, c)
}

// workers returns how many buyers ask at once over this many connections: some
// are left for the second half of double clicks.
func workers(connections int) int { return max(1, connections*3/4) }

// build makes the clients.
func (o *DemoOptions) build(s *server) (*stage, error) {
	key, err := s.Read(adminKey)
	if err != nil {
		return nil, err
	}
	st := &stage{server: s, door: newPool(doorConnections(o.Buyers)), till: newPool(shopConnections)}
	if st.secret, err = auth.ReadSecret(filepath.Join(s.Dir, "jwt.key")); err != nil {
		return nil, err
	}
	// A try may have to stand in line for a connection.
	once := client.Retry{Tries: 1, TryTimeout: o.Timeout}
	if st.buyers, err = client.New(client.Options{URL: s.URL, HTTPClient: st.door.http, Retry: once}); err != nil {
		return nil, err
	}
	st.admin, err = client.New(client.Options{URL: s.URL, Token: key, HTTPClient: st.till.http})
	return st, err
}

// saleID is the id of the demo's sale on a ledger of its own. On a shared one it goes
// on so that no other demo has it.
const saleID = "demo"

// gather calls the crowd together.
func (o *DemoOptions) gather(st *stage) (*crowd, error) {
	c := &crowd{
		sale: o.sale, buyers: cast(o.Seed, o.Buyers), late: castLate(o.Stock),
		door: st.buyers, till: st.admin, shop: st.admin, books: newBooks(int64(o.Stock)),
	}
	now := time.Now()
	for _, group := range [][]buyer{c.buyers, c.late} {
		for i := range group {
			token, err := auth.Mint(st.secret, auth.Claims{
				User: group[i].user, Issuer: "doorbuster", Audience: "doorbuster", IssuedAt: now, Expires: now.Add(time.Hour),
			})
			if err != nil {
				return nil, err
			}
			group[i].token = token
		}
	}
	return c, nil
}

const (
	// openIn is the time between publishing the sale and its start.
	openIn     = 400 * time.Millisecond
	saleLength = 24 * time.Hour
	unitPrice  = 49_900
	buyerLimit = 2
	// coolDown is short, so that a buyer whom a slow machine made lose two holds
	// is back before the demo ends.
	coolDown = 5
)

// open enters and publishes the sale and returns its start.
func (o *DemoOptions) open(ctx context.Context, admin *client.Client, id string) (time.Time, error) {
	opens := time.Now().Add(openIn).Truncate(time.Millisecond)
	hold, cool := int64(o.Hold/time.Second), int64(coolDown)
	path := "direct"
	if o.RedisURL != "" {
		path = "fast"
	}
	_, err := admin.CreateSale(ctx, client.NewSale{
		PreferredPath: path,
		ID:            id, Title: "Doorbuster demo", Currency: "EUR",
		StartsAt: instant(opens), EndsAt: instant(opens.Add(saleLength)),
		PerUserLimit: buyerLimit, HoldSeconds: &hold, CoolDownSeconds: &cool,
		Items: []client.NewItem{{SKU: "unit", Title: "One unit", Price: unitPrice, Stock: int64(o.Stock)}},
	})
	if err != nil {
		return opens, err
	}
	_, err = admin.Publish(ctx, id)
	if err == nil && o.RedisURL != "" {
		_, err = admin.Preheat(ctx, id)
	}
	return opens, err
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// missing says what a demo that was cut off lacks.
func (o *DemoOptions) missing(c *crowd, cause error) error {
	return fmt.Errorf("%w: %d of %d units are paid, %d of %d buyers at the door have an answer (seed %d)",
		cause, c.books.paidUnits(), o.Stock, c.answered.Load(), o.Buyers, o.Seed)
}
