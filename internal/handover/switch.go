package handover

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// againAfter is the pause of a command that waits for somebody else's build.
const againAfter = 50 * time.Millisecond

// Preheat loads the counter of a sale now and returns when the sale is on the fast
// path, whoever did it: for as long as ctx lasts it waits for other builders, and tries
// again where others keep the sale locked. Repeated, it changes nothing.
// CodeIllegalState for a sale that does not prefer the fast path, is not published, or
// is over.
func (k *Keeper) Preheat(ctx context.Context, slug string) (sale.Sale, error) {
	for {
		s, now, err := k.bySlug(ctx, slug)
		if err != nil {
			return sale.Sale{}, err
		}
		switch {
		case s.Preferred != sale.PathFast:
			return s, sale.IllegalState("the sale does not prefer the fast path", "set preferred_path to fast first")
		case s.State == sale.Closed || !now.Before(s.EndsAt):
			return s, sale.IllegalState("the sale is over", "only a published sale that has not ended can be preheated")
		case !s.Visible():
			return s, sale.IllegalState("only a published sale that has not ended can be preheated", "publish it first")
		case s.Path == sale.PathFast:
			if why, illErr := k.ill(ctx, &s); why == "" {
				return s, illErr
			}
		}
		after, err := k.build(ctx, &s, WhyPreheat)
		if !overtaken(err) && !errors.Is(err, errRule) && !errors.Is(err, errLate) {
			return after, err
		}
		if err := wait(ctx, againAfter); err != nil {
			return s, err
		}
	}
}

// Route sets the path that a sale prefers, under the version that the caller has
// seen (0 for any), and takes the sale there if it is running: to the fast path by
// a build; to the direct path by freezing and draining first, so that nobody who is
// queued is rejected, or at once where the counter does not answer.
func (k *Keeper) Route(ctx context.Context, slug string, version int64, to sale.Path) (sale.Sale, error) {
	s, now, err := k.bySlug(ctx, slug)
	if err != nil {
		return sale.Sale{}, err
	}
	if s.Preferred != to || s.State == sale.Closed || version != 0 && version != s.Version { // closed: the ledger refuses it
		s, err = k.ledger.ChangeSale(ctx, slug, version, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Preferred: &to}})
		if err != nil {
			return sale.Sale{}, err
		}
	}
	switch {
	case to == sale.PathDirect && s.Path == sale.PathFast:
		return k.direct(ctx, &s, WhyOperator)
	case to == sale.PathFast && s.Path == sale.PathDirect && s.Visible() && s.State != sale.Closed && now.Before(s.EndsAt):
		return k.Preheat(ctx, slug)
	}
	return s, nil
}

func (k *Keeper) bySlug(ctx context.Context, slug string) (sale.Sale, time.Time, error) {
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	s, err := k.ledger.Sale(call, slug)
	if err != nil {
		return sale.Sale{}, time.Time{}, err
	}
	now, err := k.ledger.Now(call)
	return s, now, err
}

// overtaken reports whether somebody else is at it.
func overtaken(err error) bool {
	return errors.Is(err, ledger.ErrBuilding) || errors.Is(err, ledger.ErrSuperseded) || errors.Is(err, ledger.ErrWrongEpoch)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// direct takes a fast sale to the direct path. A counter that does not answer
// cannot be drained, nor a slip that the ledger cannot bear; what is left is judged when
// it can be, if units are left.
func (k *Keeper) direct(ctx context.Context, s *sale.Sale, why Why) (sale.Sale, error) {
	w, err := k.start(ctx, s)
	if err != nil {
		return sale.Sale{}, err
	}
	drained := true
	if err := inTurn(ctx, w.freeze, w.drain); err != nil {
		if !errors.Is(err, stock.ErrUnavailable) && !errors.Is(err, stock.ErrStuck) {
			return sale.Sale{}, err
		}
		drained = false
	}
	if err := w.leave(ctx); err != nil {
		return sale.Sale{}, err
	}
	k.opts.Observer.WentDirect(s.Number, why)
	if drained { // with this build's token, so that the way back need not wait for another's
		if err := w.erase(ctx); err != nil {
			k.failed(ctx, s.Number, why, err) // the lanes are left behind, which the next look finds
		}
	}
	return w.after, nil
}

// WhileFrozen runs do, which is to change the stock or the limit rule of a fast sale,
// while no lane sells and every slip is judged, so that nobody takes what is being cut,
// or by records that count by the old rule. Buyers buy
// from the ledger meanwhile. The lanes are built anew whatever do returns, which is
// what is returned; a build that fails then is the next look's to repeat.
func (k *Keeper) WhileFrozen(ctx context.Context, s *sale.Sale, do func(context.Context) error) error {
	now := *s
	for now.Path == sale.PathFast {
		w, err := k.start(ctx, &now)
		if err == nil {
			err = inTurn(ctx, w.freeze, w.makeWay)
		}
		if err == nil {
			return w.rebuildAfter(ctx, do)
		}
		if !overtaken(err) && !errors.Is(err, stock.ErrStuck) { // stuck, the sale is on the direct path
			return err
		}
		if err = wait(ctx, againAfter); err != nil {
			return err
		}
		if now, err = k.sale(ctx, s.Number); err != nil {
			return err
		}
	}
	return do(ctx)
}

func (w *work) rebuildAfter(ctx context.Context, do func(context.Context) error) error {
	k, started := w.k, w.k.opts.Clock()
	done := do(ctx)
	if err := inTurn(context.WithoutCancel(ctx), w.load, w.finish, w.open); err != nil {
		k.failed(ctx, w.build.Sale.Number, WhyStock, err)
	} else {
		k.opts.Observer.Built(w.build.Sale.Number, WhyStock, w.orders, k.opts.Clock().Sub(started))
	}
	return done
}

// Clear judges what is queued in a closed sale and removes its lanes, and returns when
// they are gone, whoever did it. A sale that is not closed, or never had lanes, is left
// as it is. The sale can then be put away: nobody looks after the lanes of one that is.
func (k *Keeper) Clear(ctx context.Context, s *sale.Sale) error {
	now := *s
	for now.State == sale.Closed && now.BuildToken > 0 {
		gone, err := k.nothingLeft(ctx, &now)
		if err != nil || gone && now.Path == sale.PathDirect {
			return err
		}
		if err = k.clear(ctx, &now); !overtaken(err) && !errors.Is(err, stock.ErrFrozen) {
			return err
		}
		if err = wait(ctx, againAfter); err != nil {
			return err
		}
		if now, err = k.sale(ctx, s.Number); err != nil {
			return err
		}
	}
	return nil
}

// clear puts a sale that is over on the direct path, which replays and tells from
// the ledger, and removes its lanes.
func (k *Keeper) clear(ctx context.Context, s *sale.Sale) error {
	w, err := k.start(ctx, s)
	if err != nil {
		return err
	}
	if err := inTurn(ctx, w.freeze, w.drain, w.leave, w.erase); err != nil {
		return err
	}
	k.opts.Observer.WentDirect(s.Number, WhyOver)
	return nil
}

// erase removes the lanes, which are frozen by this build and drained.
func (w *work) erase(ctx context.Context) error {
	for _, l := range w.lanes {
		call, cancel := w.call(ctx)
		err := w.k.counter.Clear(call, l, w.build.Token)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
