package httpapi

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	pageLimit    = 100
	maxPageLimit = 500
)

// query returns the query parameters; unknown or repeated ones are refused, so
// that a misspelt filter never shows everything.
func (x *exchange) query(known ...string) (url.Values, error) {
	values, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return nil, sale.Invalid("query", "the query cannot be read", "encode it as in ?state=paid&limit=100")
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return nil, sale.Invalid(name, "this query parameter is unknown", "this path knows "+strings.Join(known, ", "))
		}
		if len(given) > 1 {
			return nil, sale.Invalid(name, "this query parameter is given twice", "send it once")
		}
	}
	return values, nil
}

// limitOf returns how many entries a page may have.
func limitOf(q url.Values) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return pageLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPageLimit {
		return 0, sale.Invalid("limit", "the limit is out of range", "send a whole number from 1 to 500")
	}
	return n, nil
}

// A cursor is opaque to clients: the time and id of the last order shown.
func cursorText(o *sale.Order) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(o.ReservedAt.UnixMilli(), 36) + " " + o.ID.String()))
}

func parseCursor(text string) (ledger.Cursor, error) {
	wrong := sale.Invalid("after", "this is no place in the listing", "send next of the page before")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return ledger.Cursor{}, wrong
	}
	ms, id, _ := strings.Cut(string(raw), " ")
	at, err := strconv.ParseInt(ms, 36, 64)
	if err != nil {
		return ledger.Cursor{}, wrong
	}
	order, err := sale.ParseOrderID(id)
	if err != nil {
		return ledger.Cursor{}, wrong
	}
	return ledger.Cursor{At: time.UnixMilli(at).UTC(), ID: order}, nil
}

// orderFilter reads the filters that every listing of orders has.
func orderFilter(q url.Values) (ledger.OrderFilter, error) {
	var f ledger.OrderFilter
	var err error
	if f.Limit, err = limitOf(q); err != nil {
		return f, err
	}
	if text := q.Get("state"); text != "" {
		f.State = sale.OrderState(text)
		if !slices.Contains(sale.OrderStates(), f.State) {
			return f, sale.Invalid("state", "the state is unknown", "use queued, reserved, paid, cancelled, expired, rejected or refunded")
		}
	}
	if text := q.Get("after"); text != "" {
		f.Before, err = parseCursor(text)
	}
	return f, err
}
