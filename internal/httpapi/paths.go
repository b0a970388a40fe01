package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// mover returns what moves sales between paths.
func (x *exchange) mover() (Paths, error) {
	if x.api.paths == nil {
		return nil, sale.IllegalState("this server has no fast path", "name a Redis in redis.url of its configuration and start it again")
	}
	return x.api.paths, nil
}

// adminPreheatSale brings a sale onto the fast path before somebody needs it.
func adminPreheatSale(ctx context.Context, x *exchange) error {
	if err := x.wantNothing(); err != nil {
		return err
	}
	paths, err := x.mover()
	if err != nil {
		return err
	}
	s, err := paths.Preheat(ctx, x.r.PathValue("sale"))
	return x.moved(ctx, &s, err)
}

// adminRouteSale sets the path that a sale prefers and takes it there.
func adminRouteSale(ctx context.Context, x *exchange) error {
	var r client.Route
	if err := decode(x, &r); err != nil {
		return err
	}
	to := sale.Path(r.Path)
	if to != sale.PathFast && to != sale.PathDirect {
		return sale.Invalid("path", "the path is unknown", "use fast or direct")
	}
	version, _, err := ifMatch(x.r.Header)
	if err != nil {
		return err
	}
	paths, err := x.mover()
	if err != nil {
		return err
	}
	s, err := paths.Route(ctx, x.r.PathValue("sale"), version, to)
	return x.moved(ctx, &s, err)
}

// moved answers with a sale that was moved. Whoever is overtaken by another move may
// try again.
func (x *exchange) moved(ctx context.Context, s *sale.Sale, err error) error {
	if errors.Is(err, ledger.ErrBuilding) || errors.Is(err, ledger.ErrSuperseded) || errors.Is(err, ledger.ErrWrongEpoch) {
		return &sale.Error{
			Code: sale.CodeBusy, Message: "the sale is being moved by somebody else", Hint: "look at it again, and repeat the request after Retry-After",
			Retry: true, Err: err,
		}
	}
	if err != nil {
		return err
	}
	x.acted(ctx, sale.ActionReroute, s)
	x.showSale(http.StatusOK, s)
	return nil
}
