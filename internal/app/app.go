package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/doorbuster/doorbuster/internal/audit"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/config"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/limit"
)

// The files in the data folder that tell where a server listens.
const (
	APIAddressFile = "api.addr"
	OpsAddressFile = "ops.addr"

	addressFileMode = 0o644
)

var errStopping = errors.New("app: stopping")

// Output is where a server speaks.
type Output struct {
	// Log receives log lines.
	Log io.Writer
	// Notes receives what a person should know at the start: addresses, and the
	// files of new keys. No secret.
	Notes   io.Writer
	Version string
}

// house is everything that runs.
type house struct {
	cfg      *config.Config
	log      *slog.Logger
	metrics  *obs.Metrics
	book     *Book
	auth     *auth.Auth
	engine   *engine.Engine
	feed     *event.Feed
	sweeper  *settle.Sweeper
	fast     *fast         // nil: no fast path
	auditing chan struct{} // one token: an audit for the admin API
	limits   limit.Limiter // shared over Redis; nil without one
	gate     *gate.Keeper  // nil: no gate
	api      *httpapi.API
	made     []string // files of new keys
	stop     []func() // what build started, to be undone in reverse order

	batches  batches
	probe    probe
	stopping atomic.Bool
}

// Run serves until ctx ends, then stops in order within the grace time. It
// returns nil after an orderly stop.
func Run(ctx context.Context, cfg config.Config, out Output) error {
	log, err := obs.NewLogger(out.Log, cfg.Log.Format, cfg.Log.Level)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(cfg.DataDir, folderMode); err != nil {
		return err
	}
	h := &house{cfg: &cfg, log: log, auditing: make(chan struct{}, 1)}
	defer h.undo()
	if err = h.build(ctx, out.Version); err != nil {
		return err
	}
	doors, err := h.listen(ctx)
	if err != nil {
		return err
	}
	defer doors.close()
	if err := h.announce(doors, out.Notes); err != nil {
		return err
	}
	return h.serve(ctx, doors)
}

func (h *house) undo() {
	for _, stop := range slices.Backward(h.stop) {
		stop()
	}
}

func (h *house) onStop(what string, fn func() error) {
	h.stop = append(h.stop, func() {
		if err := fn(); err != nil {
			h.log.Error("stopping failed", slog.String("part", what), slog.Any("error", err))
		}
	})
}

func (h *house) build(ctx context.Context, version string) (err error) {
	registry := prometheus.NewRegistry()
	h.metrics = obs.New(registry, version)
	h.book, err = OpenLedger(ctx, h.cfg.Ledger.URL, Own, h.log)
	if err != nil {
		return err
	}
	h.onStop("ledger", h.book.Close)
	if err = h.identify(ctx); err != nil {
		return err
	}
	if err = h.openFast(ctx); err != nil {
		return err
	}
	h.buildEngine() //nolint:contextcheck // the engine outlives the start; Close ends what it does in the background
	if err = h.buildGate(ctx); err != nil {
		return err
	}
	h.feed = event.NewFeed(h.book, event.Options{CallTimeout: h.cfg.Engine.CallTimeout, Observer: watcher{&h.metrics.Feed, h.log}})
	h.metrics.Sales.Source(h.onSale)
	h.sweeper = settle.New(h.book, settle.Options{
		Interval: h.cfg.Holds.SweepInterval, Batch: h.cfg.Holds.SweepBatch, CallTimeout: h.cfg.Engine.CallTimeout,
		Observer: &sweeps{Sweeper: &h.metrics.Sweeper, log: h.log},
	})
	deps := httpapi.Deps{
		Engine: h.engine, Feed: h.feed, Auth: h.auth, Metrics: h.metrics, Gatherer: registry, Logger: h.log, Audit: h.audit, Ready: h.ready,
		Letters: settle.NewDeadLetters(h.book), Gate: h.gate,
	}
	deps.Paths = handover.NewStranded(h.book)
	if h.fast != nil {
		deps.Paths, deps.Queued = h.fast.keeper, h.fast.queued
	}
	h.api, err = httpapi.New(deps, apiOptions(h.cfg))
	return err
}

func (h *house) buildEngine() {
	h.batches.Engine = &h.metrics.Engine
	o := engine.Options{
		// The lock beside a SQLite file keeps every other server away.
		Alone:    h.book.lock != nil,
		MaxBatch: h.cfg.Engine.MaxBatch, MaxQueue: h.cfg.Engine.MaxQueue, CallTimeout: h.cfg.Engine.CallTimeout,
		Refresh: h.cfg.Engine.Refresh, Clock: time.Now, Observer: &h.batches,
	}
	if h.fast == nil {
		h.engine = engine.New(h.book, nil, o)
		return
	}
	keeper := h.fast.keeper
	o.Trouble, o.Stale, o.WhileFrozen, o.Clear = keeper.Trouble, keeper.Stale, keeper.WhileFrozen, keeper.Clear
	h.engine = engine.New(h.book, h.fast.counter, o)
}

// onSale returns the sales whose stock the metrics tell; none while the ledger
// fails.
func (h *house) onSale() []sale.Sale {
	ctx, cancel := context.WithTimeout(context.Background(), h.cfg.Engine.CallTimeout)
	defer cancel()
	views, err := h.engine.Sales(ctx)
	if err != nil {
		return nil
	}
	out := make([]sale.Sale, len(views))
	for i, v := range views {
		out[i] = v.Sale
	}
	return out
}

// identify sets up who may come in, and writes development keys where needed.
func (h *house) identify(ctx context.Context) error {
	source, made, err := tokenSource(h.cfg)
	if err != nil {
		return err
	}
	if made != "" {
		h.made = append(h.made, made)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.onStop("key set", func() error { cancel(); return nil })
	key, err := source.Load(own, time.Now, func(err error) {
		h.log.Warn("the key set of the token issuer cannot be fetched", slog.Any("error", err))
	})
	if err != nil {
		return badTokenKey(err)
	}
	tokens, err := auth.NewVerifier(auth.VerifierOptions{
		Keys: []auth.Key{key}, Issuer: h.cfg.Auth.JWT.Issuer, Audience: h.cfg.Auth.JWT.Audience, Now: time.Now,
	})
	if err != nil {
		return err
	}
	keys, err := auth.NewKeyRing(h.book)
	if err != nil {
		return err
	}
	h.auth = auth.New(tokens, keys)
	h.onStop("auth", func() error { h.auth.Close(); return nil })
	if !config.Loopback(h.cfg.API.Listen) {
		return refuseAdminKey(ctx, h.book, h.cfg.API.Listen)
	}
	made, err = ensureAdminKey(ctx, h.book, h.cfg.DataDir)
	if made != "" {
		h.made = append(h.made, made)
	}
	return err
}

// audit recounts one sale for the admin API.
func (h *house) audit(ctx context.Context, slug string) ([]byte, error) {
	s, err := h.book.Sale(ctx, slug)
	if err != nil {
		return nil, err
	}
	select { // one at a time: it keeps a snapshot, of which builds need some too
	case h.auditing <- struct{}{}:
		defer func() { <-h.auditing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	report, err := audit.Run(ctx, h.book, audit.Options{Sales: []sale.Number{s.Number}, Running: true})
	if err != nil {
		return nil, err
	}
	return json.Marshal(report)
}

// ready tells the truth about whether this instance can sell: the ledger takes a
// write transaction. One look serves everybody who asks within a moment.
func (h *house) ready(ctx context.Context) error {
	if h.stopping.Load() {
		return errStopping
	}
	if err := h.batches.trouble(); err != nil {
		return err
	}
	return h.probe.look(ctx, func(ctx context.Context) error {
		if err := h.book.Store.Update(ctx, func(ledger.Tx) error { return nil }); err != nil {
			return err
		}
		return h.reachable(ctx)
	})
}

// announce writes the addresses for other programs and tells a person.
func (h *house) announce(d *doors, notes io.Writer) error {
	for file, listener := range map[string]net.Listener{APIAddressFile: d.api, OpsAddressFile: d.ops} {
		if listener == nil {
			continue
		}
		if err := writeFile(filepath.Join(h.cfg.DataDir, file), listener.Addr().String(), addressFileMode); err != nil {
			return fmt.Errorf("the address cannot be written: %w", err)
		}
	}
	for _, path := range h.made {
		_, _ = fmt.Fprintf(notes, "wrote a new key to %s\n", path)
	}
	api := "no API"
	if d.api != nil {
		api = "API on http://" + d.api.Addr().String()
	}
	_, err := fmt.Fprintf(notes, "%s, ops on http://%s, data in %s\n", api, d.ops.Addr(), h.cfg.DataDir)
	return err
}

// serve runs every part until ctx ends or a part fails.
func (h *house) serve(ctx context.Context, d *doors) error {
	// The parts outlive ctx: accepted requests need them until they are answered.
	work, cease := context.WithCancel(context.WithoutCancel(ctx))
	defer cease()
	parts, failed := errgroup.WithContext(work)
	parts.Go(func() error { return d.serveAPI(h.api.Public()) })
	parts.Go(func() error { return d.serveOps(h.api.Ops()) })
	parts.Go(func() error { return h.feed.Run(work) })
	if h.gate != nil {
		parts.Go(func() error { return h.gate.Run(work) })
	}
	if h.cfg.Has(config.RoleWorker) {
		parts.Go(func() error { return h.sweeper.Run(work) })
	}
	if h.fast != nil {
		// Whoever meets a lane out of order can look after it.
		parts.Go(func() error { return h.fast.keeper.Run(work) })
		if h.cfg.Has(config.RoleWorker) {
			parts.Go(func() error { return h.fast.lanes.Run(work) })
		}
	}
	select {
	case <-ctx.Done():
		h.log.Info("stopping")
	case <-failed.Done():
	}
	h.stopping.Store(true)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.Shutdown.Grace)
	defer cancel()
	h.feed.Close()   // ends the event streams, which would keep the listener open
	h.api.EndWaits() // and answers who waits for the judge
	err := d.shutdownAPI(grace)
	err = errors.Join(err, h.engine.Close(grace))
	cease()
	err = errors.Join(err, d.shutdownOps(grace), parts.Wait())
	if err == nil {
		h.log.Info("stopped")
	}
	return err
}
