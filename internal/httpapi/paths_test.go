package httpapi_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestMovingASale(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{fast: 1, options: httpapi.Options{DefaultPath: sale.PathFast}})
	w.openSale(t, "drop", 5)
	desk := office + "/drop"
	s := want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "GET "+desk, ""))
	require.Equal(t, []string{"fast", "direct"}, []string{s.PreferredPath, s.Path}, "the server's default, which nobody has followed yet")
	heated := w.call(t, w.admin, "POST "+desk+"/preheat", "")
	require.Equal(t, strconv.Quote(strconv.FormatInt(s.Version, 10)), heated.header.Get("Etag"))
	after := want[client.AdminSale](t, http.StatusOK, heated)
	require.Equal(t, "fast", after.Path)
	require.Greater(t, after.Epoch, s.Epoch)
	require.Equal(t, after, want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+desk+"/preheat", "{}")), "repeated, it changes nothing")
	want[client.Order](t, http.StatusAccepted, w.buy(t, buyer(t, "u1"), "drop", "k", one))

	direct := want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+desk+"/path", `{"path":"direct"}`, "If-Match", heated.header.Get("Etag")))
	require.Equal(t, []string{"direct", "direct"}, []string{direct.PreferredPath, direct.Path})
	require.EqualValues(t, 4, w.left(t, "drop"), "who was queued is judged first")
	w.call(t, w.admin, "POST "+desk+"/path", `{"path":"fast"}`, "If-Match", heated.header.Get("Etag")).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	w.call(t, w.admin, "POST "+desk+"/preheat", "").requireCode(t, http.StatusConflict, "illegal_state")
	back := want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+desk+"/path", `{"path":"fast"}`))
	require.Equal(t, []string{"fast", "fast"}, []string{back.PreferredPath, back.Path})

	w.call(t, w.admin, "POST "+desk+"/path", `{"path":"quick"}`).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	w.call(t, w.admin, "POST "+desk+"/path", `{}`).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	w.call(t, w.admin, "POST "+desk+"/path", "").requireCode(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
	w.call(t, w.admin, "POST "+desk+"/preheat", `{"x":1}`).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	for _, act := range []string{"/preheat", "/path"} {
		body := map[string]string{"/path": `{"path":"fast"}`}[act]
		w.call(t, w.admin, "POST "+office+"/none"+act, body).requireCode(t, http.StatusNotFound, "sale_not_found")
		w.call(t, w.shop, "POST "+desk+act, body).requireCode(t, http.StatusForbidden, "forbidden")
	}
	w.counter.Down()
	w.call(t, w.admin, "POST "+desk+"/preheat", "").requireCode(t, http.StatusServiceUnavailable, "unavailable")
	stats := want[client.Stats](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/stats", ""))
	require.Nil(t, stats.Sales[0].Queued, "nobody can tell")
	require.Equal(t, "fast", stats.Sales[0].Path)
}

func TestMovingWithoutAFastPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 5)
	for act, body := range map[string]string{"preheat": "", "path": `{"path":"fast"}`} {
		p := w.call(t, w.admin, "POST "+office+"/drop/"+act, body).requireCode(t, http.StatusConflict, "illegal_state")
		require.Contains(t, p.Hint, "redis.url")
	}
}

// overtaken is a mover whom somebody else is always ahead of.
type overtaken struct{ err error }

func (o overtaken) Preheat(context.Context, string) (sale.Sale, error) { return sale.Sale{}, o.err }

func (o overtaken) Route(context.Context, string, int64, sale.Path) (sale.Sale, error) {
	return sale.Sale{}, fmt.Errorf("move: %w", o.err)
}

func TestMoverWhoIsOvertakenMayTryAgain(t *testing.T) {
	t.Parallel()
	for _, err := range []error{ledger.ErrBuilding, ledger.ErrSuperseded, ledger.ErrWrongEpoch} {
		w := buildWorld(t, settings{paths: overtaken{err}})
		w.openSale(t, "drop", 5)
		w.call(t, w.admin, "POST "+office+"/drop/preheat", "").requireCode(t, http.StatusServiceUnavailable, "busy")
		a := w.call(t, w.admin, "POST "+office+"/drop/path", `{"path":"direct"}`)
		a.requireCode(t, http.StatusServiceUnavailable, "busy")
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
}

// An act that a lane has not confirmed is accepted, and names the lane.
func TestOutstandingLanes(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{fast: 2})
	w.openFast(t, "drop", 50)
	desk := office + "/drop"
	act := func(line, body string, headers ...string) {
		t.Helper()
		w.counter.Down()
		a := w.call(t, w.admin, line, body, headers...)
		w.counter.Up()
		s := want[client.AdminSale](t, http.StatusAccepted, a)
		require.Equal(t, []int{0, 1}, s.Outstanding)
		require.Equal(t, "0, 1", a.header.Get("Doorbuster-Outstanding"))
		require.NotEmpty(t, a.header.Get("Etag"))
		now := want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "GET "+desk, ""))
		require.Equal(t, now.Version, s.Version, "the change is made")
		require.Nil(t, now.Outstanding)
	}
	act("POST "+desk+"/pause", "")
	act("POST "+desk+"/resume", "")
	act("PATCH "+desk, `{"title":"Changed"}`, "If-Match", "*")
	w.counter.Down() // which keeps what needs the lanes at rest from being made at all
	w.call(t, w.admin, "PATCH "+desk, `{"limit_rule":"ever_paid"}`, "If-Match", "*").requireCode(t, http.StatusServiceUnavailable, "unavailable")
	w.counter.Up()
	whole := w.call(t, w.admin, "POST "+desk+"/pause", "")
	require.Nil(t, want[client.AdminSale](t, http.StatusOK, whole).Outstanding)
	require.Empty(t, whole.header.Get("Doorbuster-Outstanding"))
	act("POST "+desk+"/close", "")
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 5)
	w.openFast(t, "other", 5)
	const letters = "/v1/admin/deadletters"
	list := func(query string) client.Page[client.DeadLetter] {
		t.Helper()
		return want[client.Page[client.DeadLetter]](t, http.StatusOK, w.call(t, w.admin, "GET "+letters+query, ""))
	}
	require.Empty(t, list("").Data)

	// The database refuses the first one's order, another was never one of ours.
	s, err := w.book.Sale(t.Context(), "drop")
	require.NoError(t, err)
	other, err := w.book.Sale(t.Context(), "other")
	require.NoError(t, err)
	bought := want[client.Order](t, http.StatusAccepted, w.buy(t, buyer(t, "u1"), "drop", "k", one))
	w.frail.refuse("u1")
	require.NoError(t, w.book.Park(t.Context(), s.Number, []ledger.Letter{letterOf(&s, 1, "u1")}))
	forged := ledger.Letter{ID: ledger.LetterID{2}, Place: "lane 0, entry 2-0", Cause: "it cannot be read", Raw: []byte("what is this")}
	require.NoError(t, w.book.Park(t.Context(), s.Number, []ledger.Letter{forged}))
	require.NoError(t, w.book.Park(t.Context(), other.Number, []ledger.Letter{letterOf(&other, 3, "u3")}))

	all := list("")
	require.Len(t, all.Data, 3)
	first := all.Data[0]
	require.Equal(t, client.DeadLetter{
		ID: ledger.LetterID{1}.String(), Sale: "drop", Place: "lane 0, entry 1-0, slip 0", Cause: "the database refuses it", State: "open",
		Raw: []byte{1, 0xff}, ParkedAt: first.ParkedAt,
		Attempt: &client.LetterAttempt{Order: bought.ID, User: "u1", SKU: "unit", Quantity: 1, TakenAt: s.UpdatedAt},
	}, first)
	require.Nil(t, all.Data[1].Attempt, "it stands for nothing")
	raw := w.call(t, w.admin, "GET "+letters+"?limit=1&sale=drop&after="+first.ID, "").body
	require.Contains(t, string(raw), base64.StdEncoding.EncodeToString(forged.Raw))
	require.Len(t, list("?sale=other").Data, 1)
	page := list("?limit=2")
	require.Equal(t, all.Data[2:], list("?limit=2&after="+page.Next).Data)

	path := func(n byte, act string) string {
		return "POST " + letters + "/" + ledger.LetterID{n}.String() + "/" + act
	}
	w.call(t, w.admin, path(1, "replay"), "").requireCode(t, http.StatusConflict, "illegal_state")
	w.frail.refuse("")
	for range 2 {
		o := want[client.Order](t, http.StatusOK, w.call(t, w.admin, path(1, "replay"), ""))
		require.Equal(t, []string{bought.ID, "reserved", "u1"}, []string{o.ID, o.State, o.User})
	}
	w.call(t, w.admin, path(1, "drop"), "").requireCode(t, http.StatusConflict, "illegal_state")
	w.call(t, w.admin, path(2, "replay"), "{}").requireCode(t, http.StatusConflict, "illegal_state")
	w.store.Advance(time.Second)
	for range 2 {
		dropped := want[client.DeadLetter](t, http.StatusOK, w.call(t, w.admin, path(2, "drop"), ""))
		require.Equal(t, "dropped", dropped.State)
		require.NotNil(t, dropped.ClosedAt)
	}
	require.Len(t, list("?state=replayed").Data, 1)
	require.Len(t, list("?state=dropped&sale=drop").Data, 1)
	require.Equal(t, "other", list("?state=open").Data[0].Sale)
	require.Contains(t, w.log.String(), "decision=replayed letter="+first.ID)

	for _, act := range []string{"replay", "drop"} {
		w.call(t, w.admin, path(9, act), "").requireCode(t, http.StatusNotFound, "letter_not_found")
		w.call(t, w.admin, "POST "+letters+"/dlq_x/"+act, "").requireCode(t, http.StatusNotFound, "letter_not_found")
		w.call(t, w.admin, path(1, act), `{"x":1}`).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
		w.call(t, w.shop, path(1, act), "").requireCode(t, http.StatusForbidden, "forbidden")
	}
	for query, field := range map[string]string{"?state=gone": "state", "?after=x": "after", "?limit=0": "limit", "?user=u1": "user"} {
		p := w.call(t, w.admin, "GET "+letters+query, "").requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
		require.Equal(t, field, p.Field)
	}
	w.call(t, w.admin, "GET "+letters+"?sale=none", "").requireCode(t, http.StatusNotFound, "sale_not_found")
	w.call(t, w.shop, "GET "+letters, "").requireCode(t, http.StatusForbidden, "forbidden")
}
