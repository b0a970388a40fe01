package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/doorbuster/doorbuster/internal/config"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit/httplimit"
)

// doors are the two listeners and their servers. A process without the role gate
// has no API: api is nil, and its server has nothing to do.
type doors struct {
	api, ops             net.Listener
	apiServer, opsServer *http.Server
}

const opsTimeout = 2 * time.Minute // a CPU profile takes 30 s by default

func (h *house) listen(ctx context.Context) (*doors, error) {
	var lc net.ListenConfig
	var api net.Listener
	ops, err := lc.Listen(ctx, "tcp", h.cfg.Ops.Listen)
	if err != nil {
		return nil, fmt.Errorf("the ops listener cannot listen (ops.listen): %w", err)
	}
	if h.cfg.Has(config.RoleGate) {
		if api, err = lc.Listen(ctx, "tcp", h.cfg.API.Listen); err != nil {
			return nil, errors.Join(fmt.Errorf("the API cannot listen (api.listen): %w", err), ops.Close())
		}
		if h.cfg.API.ProxyProtocol == config.On {
			api = httpapi.ProxyProtocol(api, httplimit.NewProxies(h.cfg.API.TrustedProxies...), 0)
		}
	}
	t := &h.cfg.API.Timeouts
	quiet := slog.NewLogLogger(h.log.Handler(), slog.LevelDebug)
	return &doors{
		api: api, ops: ops,
		apiServer: &http.Server{
			ReadHeaderTimeout: t.ReadHeader, ReadTimeout: t.Read, WriteTimeout: t.Write, IdleTimeout: t.Idle,
			MaxHeaderBytes: h.cfg.API.MaxHeaderBytes, Protocols: http1(), ErrorLog: quiet, ConnContext: httpapi.ConnContext,
		},
		opsServer: &http.Server{
			ReadHeaderTimeout: t.ReadHeader, ReadTimeout: t.Read, WriteTimeout: opsTimeout, IdleTimeout: t.Idle,
			Protocols: http1(), ErrorLog: quiet,
		},
	}, nil
}

// http1 keeps HTTP/2 off: the API needs nothing of it, and less can be attacked.
func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

func (d *doors) serveAPI(handler http.Handler) error {
	if d.api == nil {
		return nil
	}
	d.apiServer.Handler = handler
	return served(d.apiServer.Serve(d.api))
}

func (d *doors) serveOps(handler http.Handler) error {
	d.opsServer.Handler = handler
	return served(d.opsServer.Serve(d.ops))
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (d *doors) shutdownAPI(ctx context.Context) error { return d.apiServer.Shutdown(ctx) }
func (d *doors) shutdownOps(ctx context.Context) error { return d.opsServer.Shutdown(ctx) }

// close cuts off whatever is still open.
func (d *doors) close() {
	_ = d.apiServer.Close()
	_ = d.opsServer.Close()
	_ = d.ops.Close()
	if d.api != nil {
		_ = d.api.Close()
	}
}

func apiOptions(cfg *config.Config) httpapi.Options {
	api := &cfg.API
	proxies := make([]string, len(api.TrustedProxies))
	for i, p := range api.TrustedProxies {
		proxies[i] = p.String()
	}
	return httpapi.Options{
		Origins: api.CORSOrigins, TrustedProxies: proxies,
		MaxBody: int64(api.MaxBodyBytes), Timeout: api.Timeouts.Request,
		MaxWait: cfg.Fast.MaxWait, DefaultPath: sale.Path(cfg.Fast.DefaultPath),
		Buy: httpapi.Limit(api.Limits.Buy), Read: httpapi.Limit(api.Limits.Read),
		Pay: httpapi.Limit(api.Limits.Pay), Admin: httpapi.Limit(api.Limits.Admin),
		Streams: httpapi.StreamLimits{Total: api.Streams.Total, PerIP: api.Streams.PerIP, PerUser: api.Streams.PerUser},
		Captcha: captchaOf(cfg),
		OpsKeys: !config.Loopback(cfg.Ops.Listen),
	}
}
