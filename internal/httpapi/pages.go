package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// pages keeps what is shown to everybody, rendered once for all: a view never
// changes, so its pointer and status tell whether the bytes are still right.
type pages struct {
	mu    sync.RWMutex
	sales map[string]*page
	list  *page
}

// page is a rendered body with its headers.
type page struct {
	views    []*engine.View
	statuses []sale.Status
	body     []byte
	etag     []string
	length   []string
}

// maxPages bounds the pages kept; beyond it they are rendered anew.
const maxPages = 4096

func newPage(views []*engine.View, statuses []sale.Status, body []byte) *page {
	sum := sha256.Sum256(body)
	return &page{
		views: views, statuses: statuses, body: body,
		etag:   []string{`"` + hex.EncodeToString(sum[:12]) + `"`},
		length: []string{strconv.Itoa(len(body))},
	}
}

// shows reports whether the page shows these views with their status at now.
func (p *page) shows(views []*engine.View, now time.Time) bool {
	if p == nil || len(p.views) != len(views) {
		return false
	}
	for i, v := range views {
		if p.views[i] != v || p.statuses[i] != v.Status(now) {
			return false
		}
	}
	return true
}

func (p *pages) sale(v *engine.View, now time.Time) *page {
	p.mu.RLock()
	kept := p.sales[v.Slug]
	p.mu.RUnlock()
	if kept.shows([]*engine.View{v}, now) {
		return kept
	}
	status := v.Status(now)
	fresh := newPage([]*engine.View{v}, []sale.Status{status}, render(publicSale(&v.Sale, status)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sales == nil || len(p.sales) >= maxPages {
		p.sales = make(map[string]*page)
	}
	p.sales[v.Slug] = fresh
	return fresh
}

func (p *pages) all(views []*engine.View, now time.Time) *page {
	p.mu.RLock()
	kept := p.list
	p.mu.RUnlock()
	if kept.shows(views, now) {
		return kept
	}
	statuses := make([]sale.Status, len(views))
	shown := client.Page[client.Sale]{Data: make([]client.Sale, len(views))}
	for i, v := range views {
		statuses[i] = v.Status(now)
		shown.Data[i] = publicSale(&v.Sale, statuses[i])
	}
	fresh := newPage(views, statuses, render(shown))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = fresh
	return fresh
}

func listSales(ctx context.Context, x *exchange) error {
	views, err := x.api.engine.Sales(ctx)
	if err != nil {
		return err
	}
	now := x.api.engine.Now()
	x.show(x.api.pages.all(views, now), now)
	return nil
}

func getSale(ctx context.Context, x *exchange) error {
	v, err := x.api.engine.Sale(ctx, x.r.PathValue("sale"))
	if err != nil {
		return err
	}
	now := x.api.engine.Now()
	x.show(x.api.pages.sale(v, now), now)
	return nil
}

// show answers with a page, or says that the client has it already.
func (x *exchange) show(p *page, now time.Time) {
	h := x.w.Header()
	h["Cache-Control"] = x.api.fixed.brief
	h["Etag"] = p.etag
	h[headerTime] = []string{strconv.FormatInt(now.UnixMilli(), 10)}
	if noneMatch(x.r.Header, p.etag[0]) {
		x.empty(http.StatusNotModified)
		return
	}
	h["Content-Length"] = p.length
	x.reply(http.StatusOK, typeJSON, p.body)
}
