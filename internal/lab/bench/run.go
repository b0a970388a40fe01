package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/probe"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	// mostPollWait bounds how long a poll asks the server to wait for the judge.
	mostPollWait = 5 * time.Second
	// drainTime is how long the run waits, when the last visit is answered, for what
	// follows without thinking.
	drainTime = 30 * time.Second
	// closeTime bounds closing the sale, also after an interrupt.
	closeTime = 15 * time.Second
	// mostFollowers bounds the connections for what follows a buy.
	mostFollowers = 256
)

// bench is one run.
type bench struct {
	*Options

	name     string // of the run
	plan     []traffic.Visit
	targets  []*wire.Target
	stage    *stage
	cast     *buyers.Cast
	books    *buyers.Books
	script   *buyers.Script
	gauge    traffic.Gauge
	progress *progress
	report   *Report
	queued   int64 // orders that nobody had judged when the bench gave up waiting
}

// Run sends the crowd and returns what was seen, and whether the promises were kept
// (Report.Pass). An error says what kept the run from its end: an instance that cannot
// be reached (a *client.Error), a crowd or sale that cannot be had (a *sale.Error), the
// end of ctx. With an error that came after the crowd there is a report too, which says
// in Unproved what it lacks. A sale that was made for the run is closed in any case.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	b := &bench{Options: &o, name: runName(time.Now())}
	var err error
	if b.plan, err = o.Profile.Plan(o.Seed); err != nil {
		return nil, wrong(err)
	}
	if len(b.plan) == 0 {
		return nil, wrong(errors.New("the crowd is nobody"))
	}
	if err = b.aim(); err != nil {
		return nil, err
	}
	if b.cast, err = o.Cast(o.Profile.Buyers, b.name); err != nil {
		return nil, err
	}
	b.progress = watch(o.Progress, len(b.plan), &b.gauge)
	defer b.progress.stop()
	return b.run(ctx)
}

// aim reads the addresses of the servers.
func (b *bench) aim() error {
	for _, url := range b.URLs {
		t, err := wire.ParseTarget(url)
		if err != nil {
			return sale.Invalid("url", err.Error(), "write it like http://127.0.0.1:8080")
		}
		b.targets = append(b.targets, t)
	}
	return nil
}

func (b *bench) run(ctx context.Context) (report *Report, err error) {
	if b.stage, err = b.open(ctx, b.name); b.stage != nil {
		defer func() { err = errors.Join(err, b.end(ctx)) }()
	}
	if err != nil {
		return nil, err
	}
	if err = b.prepare(); err != nil {
		return nil, err
	}
	if err = b.beKnown(ctx); err != nil {
		return nil, err
	}
	b.report.Server = b.serverVersion(ctx)
	watched, err := b.watchParts(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := b.send(ctx)
	if err != nil {
		watched.Stop()
		return nil, err
	}
	err = b.settle(ctx)
	r := b.report
	r.Probes, r.Notes = watched.Stop()
	r.figures(seen)
	r.judged(b.books)
	if err == nil {
		err = b.prove(ctx)
	}
	b.warn()
	if err != nil {
		r.Unproved = err.Error()
	}
	return r, err
}

// beKnown tries a buyer's token at every server: one that knows no token of the crowd,
// as an instance with a key of its own, would turn its share of it away.
func (b *bench) beKnown(ctx context.Context) error {
	for _, url := range b.URLs {
		c, err := client.New(client.Options{URL: url, Token: b.cast.Token(0), Retry: client.Retry{Tries: 1}})
		if err != nil {
			return err
		}
		call, cancel := context.WithTimeout(ctx, b.Timeout)
		_, err = c.Orders(call, client.OrderQuery{Limit: 1})
		cancel()
		if client.CodeOf(err) == client.ErrUnauthenticated {
			return sale.Invalid("url", url+" does not know the tokens of this crowd",
				"start all instances with one key (auth.jwt.secret_file), or sign with theirs: --jwt-key, --issuer, --audience")
		}
	}
	return nil
}

// prepare makes what the crowd does and begins the report.
func (b *bench) prepare() error {
	b.Conduct.Wait = pollWait(b.Timeout)
	b.books = buyers.NewBooks(b.cast)
	b.progress.books.Store(b.books)
	b.progress.start.Store(&b.stage.start)
	var err error
	b.script, err = buyers.New(b.cast, b.books, buyers.Options{
		Sale: b.stage.sale.ID, Item: b.firstItem(), Run: b.name, Seed: b.Seed, Start: b.stage.start, ShopKey: b.Key, Conduct: b.Conduct,
	})
	if err != nil {
		return err
	}
	r := &Report{
		Version: b.Version, URL: strings.Join(b.URLs, " "), Sale: b.stage.sale.ID, Path: b.stage.sale.Path,
		Profile: b.Name, Shape: shapeOf(&b.Profile, &b.Conduct), Command: b.Command, Seed: b.Seed, Buyers: b.Profile.Buyers,
	}
	for i := range b.stage.sale.Items {
		r.Stock += b.stage.sale.Items[i].Stock
	}
	b.report = r
	return nil
}

// pollWait returns how long a poll asks the server to wait: so much less than the crowd
// waits for an answer that the answer comes in time.
func pollWait(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return mostPollWait
	}
	return min(mostPollWait, timeout/2).Truncate(time.Second)
}

// firstItem names what is bought where the sale has several items; empty where it has
// one.
func (b *bench) firstItem() string {
	if items := b.stage.sale.Items; len(items) > 1 {
		return items[0].SKU
	}
	return ""
}

func (b *bench) watchParts(ctx context.Context) (*probe.Probe, error) {
	o := b.Probe
	o.Key, o.Sale, o.Start, o.Before = b.Key, b.stage.sale.ID, b.stage.start, max(0, -b.plan[0].At)
	return probe.Start(ctx, o)
}

// send carries out the plan.
func (b *bench) send(ctx context.Context) (*traffic.Record, error) {
	b.progress.say(gathering)
	last := b.plan[len(b.plan)-1].At
	o := traffic.Options{
		Connections: b.Connections, Followers: min(mostFollowers, max(1, b.Profile.Buyers)), Timeout: b.Timeout,
		Slot: grain(last - b.plan[0].At), Start: b.stage.start, Gauge: &b.gauge, Drain: drainTime + 2*b.Conduct.Think,
	}
	seen, err := traffic.Run(ctx, b.targets, b.plan, b.script, o)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return seen, nil
}

// settle waits until no order is queued any more.
func (b *bench) settle(ctx context.Context) error {
	b.progress.say("waiting until nothing is queued")
	var err error
	if b.queued, err = b.stage.judged(ctx); err != nil || b.Probe.Postgres == "" {
		return err
	}
	settled := time.NewTimer(probe.Settle)
	defer settled.Stop()
	select {
	case <-settled.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// prove compares the crowd's books with the server's account and asks for an audit.
func (b *bench) prove(ctx context.Context) error {
	b.progress.say("comparing the books")
	told := b.books.Orders()
	r := b.report
	again, missing := b.replays(ctx, told)
	if missing != nil {
		r.warn("not every click could be repeated in the end: %v", missing)
	}
	a, err := b.account(ctx)
	if err != nil {
		return fmt.Errorf("read the server's account: %w", err)
	}
	k := reckoning{
		cast: b.cast, books: b.books, told: told, account: a, item: b.firstItem(), ours: b.stage.ours,
		refused: r.count("buy", "sold_out") + soldOutLater(told), queued: b.queued,
	}
	for i := range r.Pace {
		k.answers += r.Pace[i].Answers
	}
	r.Checks = append(k.checks(), again)
	r.Sold, r.Stock, r.Path = a.sold(), a.stock(), a.sale.Path
	b.progress.say("auditing")
	found, err := b.stage.admin.Audit(ctx, r.Sale)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	r.Audit = &found
	return b.judge(&k, missing)
}

func (b *bench) account(ctx context.Context) (*account, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	a, err := b.stage.read(ctx)
	if err == nil && b.Conduct.Pay > 0 {
		err = b.stage.readRefunds(ctx, a)
	}
	return a, err
}

// judged enters how long judgements took.
func (r *Report) judged(b *buyers.Books) {
	if h := b.Judged(); h.TotalCount() > 0 {
		r.Judged = &Judged{Orders: h.TotalCount(), Waited: quantilesOf(h), Waits: distribution(h)}
	}
}

// end closes the sale, if it is ours, whatever has happened to ctx.
func (b *bench) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := b.stage.close(ctx, b.Options); err != nil {
		return fmt.Errorf("close the sale %s: %w", b.stage.sale.ID, err)
	}
	return nil
}
