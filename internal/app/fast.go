package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/redisstock"
	"github.com/doorbuster/doorbuster/limit/redislimit"
)

// connectIn is how long a start waits for Redis.
const connectIn = 10 * time.Second

// fast is what the fast path needs; nil where no Redis is configured.
type fast struct {
	counter stock.Counter
	lanes   *settle.Lanes
	keeper  *handover.Keeper
}

// openFast connects to Redis, checks that it can be relied on, and builds what
// works on the fast path, and the limits that instances share.
func (h *house) openFast(ctx context.Context) error {
	cfg := &h.cfg.Redis
	if cfg.URL == "" {
		return nil
	}
	own, cancel := context.WithTimeout(ctx, connectIn)
	defer cancel()
	client, err := redisconn.Open(own, redisconn.Options{URL: cfg.URL, CAFile: cfg.CAFile, CallTimeout: cfg.CallTimeout})
	if err != nil {
		return err
	}
	h.onStop("redis", func() error { client.Close(); return nil })
	report, err := redisconn.Check(own, client, h.book.Now)
	for _, f := range report.Findings {
		level := slog.LevelInfo
		if f.Level == redisconn.Warning {
			level = slog.LevelWarn
		}
		h.log.Log(ctx, level, "what to know of Redis", slog.String("server", f.Addr), slog.String("what", f.Message), slog.String("hint", f.Hint))
	}
	if err != nil {
		return err
	}
	counter, err := redisstock.New(client, redisstock.Options{Prefix: cfg.Prefix, CallTimeout: cfg.CallTimeout})
	if err != nil {
		return err
	}
	h.fast = newFast(h, counter)
	if !h.keepsGate() {
		return nil
	}
	o, err := h.limitOptions(own)
	if err != nil {
		return err
	}
	limits, err := redislimit.New(client, o)
	if err != nil {
		return err
	}
	h.onStop("limits", func() error { limits.Close(); return nil })
	h.limits = limits
	return nil
}

func newFast(h *house, counter stock.Counter) *fast {
	f := &fast{counter: counter}
	f.lanes = settle.NewLanes(h.book, counter, settle.LaneOptions{
		Consumer: consumer(), Clock: time.Now, Batch: h.cfg.Fast.Batch, TakeOver: h.cfg.Fast.TakeOver, CallTimeout: h.cfg.Engine.CallTimeout,
		Trouble:  func(n sale.Number) { f.keeper.Trouble(n) },
		Observer: &laneWatch{Lanes: &h.metrics.Lanes, log: h.log},
	})
	f.keeper = handover.New(h.book, counter, handover.Options{
		Lead: h.cfg.Fast.PreheatLead, Lanes: h.cfg.Fast.Lanes, MaxQueued: int64(h.cfg.Fast.MaxQueued), CallTimeout: h.cfg.Engine.CallTimeout, Clock: time.Now,
		Drain: f.lanes.Judge().Drain, Observer: &keeperWatch{Keeper: &h.metrics.Keeper, log: h.log},
	})
	return f
}

// queued counts the slips of a sale that are not judged yet.
func (f *fast) queued(ctx context.Context, s *sale.Sale) (int64, error) {
	at, err := f.counter.ReadAll(ctx, stock.LanesOf(s))
	if err != nil {
		return 0, err
	}
	var slips int64
	for i := range at {
		slips += at[i].Queued
	}
	return slips, nil
}

// consumer names this start of this process, unlike any other.
func consumer() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%x", host, os.Getpid(), time.Now().UnixNano())
}

// errNoRedis says that a sale cannot be sold here.
var errNoRedis = errors.New("a sale is on the fast path, and this server has no redis.url: name its Redis, or bring the sale to the direct path")

// reachable reports whether the fast counter answers, if a sale needs it.
func (h *house) reachable(ctx context.Context) error {
	views, err := h.engine.Sales(ctx)
	if err != nil {
		return err
	}
	for _, v := range views {
		switch status := v.Status(h.engine.Now()); {
		case v.Path != sale.PathFast:
			continue
		case h.fast != nil:
		case status == sale.StatusEnded || status == sale.StatusClosed:
			continue
		default:
			return fmt.Errorf("%w: %s", errNoRedis, v.Slug)
		}
		for _, l := range stock.LanesOf(&v.Sale) { // whatever a lane holds: a spoilt one is its sale's own trouble
			if _, err := h.fast.counter.Clock(ctx, l); err != nil {
				return fmt.Errorf("the fast counter cannot be reached: %w", err)
			}
		}
	}
	return nil
}

// laneWatch counts and logs the work on lanes.
type laneWatch struct {
	*obs.Lanes
	log *slog.Logger
}

var _ settle.LaneObserver = (*laneWatch)(nil)

func names(l stock.Lane) (number, lane string) {
	return strconv.FormatUint(uint64(l.Sale), 10), strconv.Itoa(l.Index)
}

func (w *laneWatch) attrs(l stock.Lane, more ...any) []any {
	return append([]any{slog.Any("sale_number", l.Sale), slog.Int("lane", l.Index)}, more...)
}

// Judged implements settle.LaneObserver.
func (w *laneWatch) Judged(_ stock.Lane, slips int, took time.Duration, err error) {
	if err == nil { // else Failed is told of it
		w.Lanes.Judged(slips, took)
	}
}

// Settled implements settle.LaneObserver.
func (w *laneWatch) Settled(l stock.Lane, o *sale.Order, after time.Duration) {
	w.Lanes.Settled(o, after)
	if o.State == sale.Rejected {
		w.log.Warn("a queued order was rejected", w.attrs(l, slog.String("order", o.ID.String()), slog.String("reason", string(o.Reason)))...)
	}
}

// Parked implements settle.LaneObserver.
func (w *laneWatch) Parked(l stock.Lane, letter *ledger.Letter) {
	w.Lanes.Parked()
	w.log.Error("a slip cannot be judged and is a dead letter now", w.attrs(l, slog.String("place", letter.Place), slog.String("cause", letter.Cause))...)
}

// TookOver implements settle.LaneObserver.
func (w *laneWatch) TookOver(l stock.Lane, entries int) {
	w.Lanes.TookOver(entries)
	w.log.Warn("another worker did not finish its slips", w.attrs(l, slog.Int("entries", entries))...)
}

// Trimmed implements settle.LaneObserver.
func (w *laneWatch) Trimmed(l stock.Lane, entries int) {
	w.Lanes.Trimmed(entries)
	w.log.Error("slips were removed from a tray before they were judged; who presents a receipt is judged by it", w.attrs(l, slog.Int("entries", entries))...)
}

// Queued implements settle.LaneObserver.
func (w *laneWatch) Queued(l stock.Lane, slips int64) {
	number, lane := names(l)
	w.Lanes.Queued(number, lane, slips)
}

// Behind implements settle.LaneObserver.
func (w *laneWatch) Behind(l stock.Lane, rows uint64) {
	number, lane := names(l)
	w.Lanes.Behind(number, lane, rows)
}

// Offset implements settle.LaneObserver.
func (w *laneWatch) Offset(l stock.Lane, offset, doubt time.Duration) {
	number, lane := names(l)
	w.Lanes.Offset(number, lane, offset)
	if offset.Abs()-doubt > settle.WarnOffset {
		w.log.Warn("the clocks of Redis and the ledger are apart", w.attrs(l, slog.Duration("by", offset))...)
	}
}

// Released implements settle.LaneObserver.
func (w *laneWatch) Released(l stock.Lane) { w.Lanes.Released(names(l)) }

// Failed implements settle.LaneObserver.
func (w *laneWatch) Failed(l stock.Lane, doing settle.Doing, err error) {
	w.Lanes.Failed(string(doing))
	w.log.Warn("work on a lane failed and is tried again", w.attrs(l, slog.String("doing", string(doing)), slog.Any("error", err))...)
}

// keeperWatch counts and logs what the keeper does.
type keeperWatch struct {
	*obs.Keeper
	log *slog.Logger
}

var _ handover.Observer = (*keeperWatch)(nil)

// Built implements handover.Observer.
func (w *keeperWatch) Built(n sale.Number, why handover.Why, orders int, took time.Duration) {
	w.Keeper.Built(string(why), took)
	w.log.Info("a sale is on the fast path", slog.Any("sale_number", n), slog.String("why", string(why)), slog.Int("orders", orders), slog.Duration("took", took))
}

// WentDirect implements handover.Observer.
func (w *keeperWatch) WentDirect(n sale.Number, why handover.Why) {
	w.Left(string(why))
	w.log.Info("a sale left the fast path", slog.Any("sale_number", n), slog.String("why", string(why)))
}

// Failed implements handover.Observer.
func (w *keeperWatch) Failed(n sale.Number, why handover.Why, err error) {
	w.Keeper.Failed(string(why))
	w.log.Warn("looking after the fast counter failed and is tried again", slog.Any("sale_number", n), slog.String("why", string(why)), slog.Any("error", err))
}
