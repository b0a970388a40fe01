package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// badInput is a body with the answer that it deserves.
type badInput struct {
	body   string
	status int
	code   string
	field  string
}

// C54, C55, C56: what a buy may not say. Nothing of it may move a single unit.
func badAttempts() []badInput {
	const invalid, quantity, malformed = "invalid_request", "invalid_quantity", "malformed_json"
	return []badInput{
		// Quantities.
		{`{"quantity":-5}`, 422, quantity, "quantity"},
		{`{"quantity":0}`, 422, quantity, "quantity"},
		{`{"quantity":-0}`, 422, quantity, "quantity"},
		{`{}`, 422, quantity, "quantity"},
		{`{"item":"unit"}`, 422, quantity, "quantity"},
		{`{"quantity":null}`, 422, quantity, "quantity"},
		{`{"quantity":""}`, 422, quantity, "quantity"},
		{`{"quantity":"3"}`, 422, quantity, "quantity"},
		{`{"quantity":true}`, 422, quantity, "quantity"},
		{`{"quantity":[1]}`, 422, quantity, "quantity"},
		{`{"quantity":{}}`, 422, quantity, "quantity"},
		{`{"quantity":1.5}`, 422, quantity, "quantity"},
		{`{"quantity":2.0}`, 422, quantity, "quantity"},
		{`{"quantity":1e0}`, 422, quantity, "quantity"},
		{`{"quantity":1e3}`, 422, quantity, "quantity"},
		{`{"quantity":1e400}`, 422, quantity, "quantity"},
		{`{"quantity":2147483647}`, 422, quantity, "quantity"},
		{`{"quantity":2147483648}`, 422, quantity, "quantity"},
		{`{"quantity":4294967297}`, 422, quantity, "quantity"},
		{`{"quantity":9007199254740993}`, 422, quantity, "quantity"},
		{`{"quantity":9223372036854775807}`, 422, quantity, "quantity"},
		{`{"quantity":9223372036854775808}`, 422, quantity, "quantity"},
		{`{"quantity":18446744073709551617}`, 422, quantity, "quantity"},
		// Names.
		{`{"Quantity":1}`, 422, invalid, "Quantity"},
		{`{"quantity":1,"QUANTITY":1}`, 422, invalid, "QUANTITY"},
		{`{"quantity":1,"quantity":2}`, 422, invalid, "quantity"},
		{`{"quantity":1,"quantity":1}`, 422, invalid, "quantity"},
		{`{"quantity":1,"quantit\u0079":2}`, 422, invalid, "quantity"},
		{`{"quantity":1,"price":1}`, 422, invalid, "price"},
		{`{"quantity":1,"user":"u2"}`, 422, invalid, "user"},
		{`{"quantity":1,"attendees":["a","b"]}`, 422, invalid, "attendees"},
		{`{"quantity":1,"":1}`, 422, invalid, ""},
		// Other members.
		{`{"quantity":1,"item":7}`, 422, invalid, "item"},
		{`{"quantity":1,"item":["unit"]}`, 422, invalid, "item"},
		{`{"quantity":1,"expected_amount":1000}`, 422, invalid, "currency"},
		{`{"quantity":1,"currency":"EUR"}`, 422, invalid, "currency"},
		{`{"quantity":1,"expected_amount":1000,"currency":"eur"}`, 422, invalid, "currency"},
		{`{"quantity":1,"expected_amount":-1,"currency":"EUR"}`, 422, invalid, "expected_amount"},
		{`{"quantity":1,"expected_amount":1000.0,"currency":"EUR"}`, 422, invalid, "expected_amount"},
		{`{"quantity":1,"expected_amount":"1000","currency":"EUR"}`, 422, invalid, "expected_amount"},
		// Whole bodies.
		{`null`, 422, invalid, ""},
		{`[]`, 422, invalid, ""},
		{`[{"quantity":1}]`, 422, invalid, ""},
		{`"quantity"`, 422, invalid, ""},
		{`1`, 422, invalid, ""},
		{`{"quantity":1}{"quantity":1}`, 422, invalid, ""},
		{`{"quantity":1} x`, 422, invalid, ""},
		{`{"quantity":1},`, 422, invalid, ""},
		{` `, 400, malformed, ""},
		{`{`, 400, malformed, ""},
		{`{"quantity":1`, 400, malformed, ""},
		{`{"quantity":0x10}`, 400, malformed, ""},
		{`{"quantity":NaN}`, 400, malformed, ""},
		{`{"quantity":+1}`, 400, malformed, ""},
		{`{"quantity":01}`, 400, malformed, ""},
		{`{"quantity":1,}`, 400, malformed, ""},
		{`{'quantity':1}`, 400, malformed, ""},
		{`{quantity:1}`, 400, malformed, ""},
		{`{"quantity":1/*one*/}`, 400, malformed, ""},
		{"{\"quantity\":1,\"item\":\"\xff\"}", 400, malformed, ""},
		{"\xef\xbb\xbf" + `{"quantity":1}`, 400, malformed, ""},
		{`quantity=1`, 400, malformed, ""},
		{strings.Repeat("[", 5000), 422, invalid, ""},
	}
}

func TestBadAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 10)
	u1 := buyer(t, "u1")
	for _, c := range badAttempts() {
		p := w.buy(t, u1, "drop", "k", c.body).requireCode(t, c.status, c.code)
		require.Equal(t, c.field, p.Field, c.body)
	}
	require.EqualValues(t, 10, w.left(t, "drop"))
	own := want[client.Page[client.Order]](t, http.StatusOK, w.call(t, u1, "GET /v1/orders", ""))
	require.Empty(t, own.Data)
}

func TestGoodAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 100)
	for i, body := range []string{
		`{"quantity":1}`, " \r\n\t{\"quantity\"\n: 1 } \n", `{"item":"unit","quantity":2}`, `{"quantity":1,"item":null}`, `{"quantity":1,"item":""}`,
		`{"quantity":1,"item":"un\u0069t"}`, `{"quantity":1,"expected_amount":null}`, `{"quantity":2,"expected_amount":2000,"currency":"EUR"}`,
	} {
		a := w.buy(t, buyer(t, string(rune('a'+i))), "drop", "k", body)
		require.Equal(t, http.StatusCreated, a.status, "%s: %s", body, a.body)
	}
}

func TestBodyRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 10)
	u1 := buyer(t, "u1")
	const path = "/v1/sales/drop/orders"
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonp", "", "json"} {
		w.call(t, u1, "POST "+path, one, "Idempotency-Key", "k", "Content-Type", kind).requireCode(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	w.call(t, u1, "POST "+path, one, "Idempotency-Key", "k", "Content-Encoding", "gzip").requireCode(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
	w.call(t, u1, "POST "+path, "", "Idempotency-Key", "k").requireCode(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
	w.call(t, u1, "POST "+path, "", "Idempotency-Key", "k", "Content-Type", "application/json").requireCode(t, http.StatusBadRequest, "malformed_json")
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON"} {
		a := w.call(t, u1, "POST "+path, one, "Idempotency-Key", "k", "Content-Type", kind)
		require.Less(t, a.status, 300, kind)
	}
	const limit = 16 << 10
	padded := func(n int) string { return one + strings.Repeat(" ", n-len(one)) }
	require.Equal(t, http.StatusOK, w.buy(t, u1, "drop", "k", padded(limit)).status)
	a := w.buy(t, u1, "drop", "k", padded(limit+1))
	a.requireCode(t, http.StatusRequestEntityTooLarge, "body_too_large")
	require.Equal(t, http.StatusRequestEntityTooLarge, w.buy(t, u1, "drop", "k", padded(1<<20)).status)
	require.EqualValues(t, 9, w.left(t, "drop"))
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 10)
	u1 := buyer(t, "u1")
	o := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "abc", one))
	require.Equal(t, o, want[client.Order](t, http.StatusOK, w.buy(t, u1, "drop", `"abc"`, one)), `"abc" and abc are one key`)
	other := want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u2"), "drop", "abc", one))
	require.NotEqual(t, o.ID, other.ID, "the key of another buyer is another key")
	require.Equal(t, http.StatusCreated, w.buy(t, u1, "drop", "ABC", one).status, "keys are compared byte for byte")

	const path = "/v1/sales/drop/orders"
	w.call(t, u1, "POST "+path, one).requireCode(t, http.StatusBadRequest, "idempotency_key_required")
	w.buy(t, u1, "drop", "", one).requireCode(t, http.StatusBadRequest, "idempotency_key_required")
	w.call(t, u1, "POST "+path, one, "Idempotency-Key", "a", "Idempotency-Key", "a").requireCode(t, http.StatusBadRequest, "invalid_header")
	w.call(t, u1, "POST "+path, one, "Idempotency-Key", "a", "Doorbuster-Pass", "p").requireCode(t, http.StatusBadRequest, "invalid_header")
	for _, bad := range []string{`"abc`, `"a"b"`, `"a\b"`, `"abc\"`, `""`, `"`, "a b", `"a b"`, "é", strings.Repeat("k", 129)} {
		p := w.buy(t, u1, "drop", bad, one).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
		require.Equal(t, "Idempotency-Key", p.Field, bad)
	}
	h := func(v string) http.Header { return http.Header{"Idempotency-Key": {v}} }
	for text, want := range map[string]string{`"a\"b"`: `a"b`, `"a\\b"`: `a\b`, `a"b`: `a"b`, strings.Repeat("k", 128): strings.Repeat("k", 128)} {
		got, err := httpapi.IdempotencyKey(h(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestPreferWait(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{options: httpapi.Options{Timeout: 17900 * time.Millisecond}})
	w.openSale(t, "drop", 20)
	for prefer, applied := range map[string]string{
		"wait=10": "wait=10", "wait=20": "wait=17", "wait=99": "wait=17", "wait=2147483647": "wait=17", "wait=2147483648": "", "respond-async, wait=5": "wait=5", "Wait = 3": "wait=3", `wait="4"`: "wait=4",
		"wait=-1": "", "wait=x": "", "return=minimal": "", "": "",
	} {
		a := w.call(t, buyer(t, "u"+prefer), "POST /v1/sales/drop/orders", one, "Idempotency-Key", "k", "Prefer", prefer)
		require.Equal(t, http.StatusCreated, a.status)
		require.Equal(t, applied, a.header.Get("Preference-Applied"), prefer)
	}
}

// C54 and C55 for everything else that takes numbers.
func TestBadBodiesElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 10)
	o := want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u1"), "drop", "k", one))
	good := func(change string) string {
		base := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(`{"sale":"new","starts_at":"2026-11-27T08:00:00Z","ends_at":"2026-11-27T20:00:00Z","per_user_limit":2,"currency":"EUR","items":[{"item":"a","price":1,"stock":1}]}`), &base))
		over := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(change), &over))
		for k, v := range over {
			base[k] = v
			if string(v) == `"-"` {
				delete(base, k)
			}
		}
		raw, err := json.Marshal(base)
		require.NoError(t, err)
		return string(raw)
	}
	pay := "/v1/orders/" + o.ID + "/payments"
	cases := []struct{ method, path, body, field string }{
		{"POST", pay, `{"payment_id":"p","status":"succeeded","currency":"EUR"}`, "amount"},
		{"POST", pay, `{"payment_id":"p","status":"succeeded","amount":null,"currency":"EUR"}`, "amount"},
		{"POST", pay, `{"payment_id":"p","status":"succeeded","amount":-1,"currency":"EUR"}`, "amount"},
		{"POST", pay, `{"payment_id":"p","status":"succeeded","amount":1000.0,"currency":"EUR"}`, "amount"},
		{"POST", pay, `{"payment_id":"p","status":"succeeded","amount":9007199254740992,"currency":"EUR"}`, "amount"},
		{"POST", pay, `{"payment_id":"p","status":"paid","amount":1000,"currency":"EUR"}`, "status"},
		{"POST", pay, `{"payment_id":"","status":"succeeded","amount":1000,"currency":"EUR"}`, "payment_id"},
		{"POST", pay, `{"status":"succeeded","amount":1000,"currency":"EUR"}`, "payment_id"},
		{"POST", pay, `{"payment_id":"p","status":"succeeded","amount":1000,"currency":"euro"}`, "currency"},
		{"POST", "/v1/orders/" + o.ID + "/refund", `{}`, "restock"},
		{"POST", "/v1/orders/" + o.ID + "/refund", `{"restock":"true"}`, "restock"},
		{"POST", "/v1/orders/" + o.ID + "/refund", `{"restock":true,"amount":-5}`, "amount"},
		{"POST", "/v1/admin/sales/drop/restock", `{}`, "add"},
		{"POST", "/v1/admin/sales/drop/restock", `{"add":1,"stock":2}`, "add"},
		{"POST", "/v1/admin/sales/drop/restock", `{"add":1.0}`, "add"},
		{"POST", "/v1/admin/sales/drop/restock", `{"add":9223372036854775807}`, "add"},
		{"POST", "/v1/admin/sales/drop/restock", `{"add":9007199254740991}`, "stock"},
		{"POST", "/v1/admin/sales/drop/restock", `{"add":-11}`, "stock"},
		{"POST", "/v1/admin/sales/drop/pause", `{"hard":true}`, "hard"},
		{"PATCH", "/v1/admin/sales/drop", `{"stock":5}`, "stock"},
		{"PATCH", "/v1/admin/sales/drop", `{"per_user_limit":0}`, "per_user_limit"},
		{"PATCH", "/v1/admin/sales/drop", `{"hold_seconds":0}`, "hold_seconds"},
		{"PATCH", "/v1/admin/sales/drop", `{"hold_seconds":-1}`, "hold_seconds"},
		{"PATCH", "/v1/admin/sales/drop", `{"hold_seconds":9223372036854775807}`, "hold_seconds"},
		{"PATCH", "/v1/admin/sales/drop", `{"cool_down_seconds":9300000000}`, "cool_down_seconds"},
		{"PATCH", "/v1/admin/sales/drop", `{"limit_rule":"none"}`, "limit_rule"},
		{"PATCH", "/v1/admin/sales/drop", `{"preferred_path":"scenic"}`, "preferred_path"},
		{"PATCH", "/v1/admin/sales/drop", `{"path":"fast"}`, "path"},
		{"PATCH", "/v1/admin/sales/drop", `{"ends_at":"2026-11-27"}`, "ends_at"},
		{"PATCH", "/v1/admin/sales/drop", `{"items":[{"price":1}]}`, "items.item"},
		{"PATCH", "/v1/admin/sales/drop", `{"items":[{"item":"unit","price":-1}]}`, "items.price"},
		{"PATCH", "/v1/admin/sales/drop", `{"items":[{"item":"unit","stock":1}]}`, "items.stock"},
		{"POST", "/v1/admin/sales", good(`{"sale":"-"}`), "sale"},
		{"POST", "/v1/admin/sales", good(`{"sale":"New"}`), "sale"},
		{"POST", "/v1/admin/sales", good(`{"sale":" new"}`), "sale"},
		{"POST", "/v1/admin/sales", good(`{"per_user_limit":"-"}`), "per_user_limit"},
		{"POST", "/v1/admin/sales", good(`{"per_user_limit":0}`), "per_user_limit"},
		{"POST", "/v1/admin/sales", good(`{"per_user_limit":-1}`), "per_user_limit"},
		{"POST", "/v1/admin/sales", good(`{"per_user_limit":null}`), "per_user_limit"},
		{"POST", "/v1/admin/sales", good(`{"currency":"-"}`), "currency"},
		{"POST", "/v1/admin/sales", good(`{"preferred_path":"Fast"}`), "preferred_path"},
		{"POST", "/v1/admin/sales", good(`{"starts_at":"-"}`), "starts_at"},
		{"POST", "/v1/admin/sales", good(`{"starts_at":"2026-11-27T08:00:00"}`), "starts_at"},
		{"POST", "/v1/admin/sales", good(`{"starts_at":1796724000}`), "starts_at"},
		{"POST", "/v1/admin/sales", good(`{"ends_at":"2026-11-27T08:00:00Z"}`), "ends_at"},
		{"POST", "/v1/admin/sales", good(`{"time_zone":"Mars"}`), "time_zone"},
		{"POST", "/v1/admin/sales", good(`{"items":[]}`), "items"},
		{"POST", "/v1/admin/sales", good(`{"items":null}`), "items"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a","stock":1}]}`), "items.price"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a","price":1}]}`), "items.stock"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a","price":1,"stock":1},{"item":"b","price":null,"stock":1}]}`), "items.price"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a","price":-1,"stock":1}]}`), "items.price"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a","price":9007199254740991,"stock":1}]}`), "items.price"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a","price":1,"stock":9007199254740992}]}`), "items.stock"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a","price":1,"stock":1},{"item":"a","price":1,"stock":1}]}`), "items"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a b","price":1,"stock":1}]}`), "item"},
		{"POST", "/v1/admin/sales", good(`{"items":[{"item":"a","price":1,"stock":1,"sold":0}]}`), "items.sold"},
		{"POST", "/v1/admin/sales", good(`{"version":1}`), "version"},
	}
	for _, c := range cases {
		who := w.admin
		if strings.Contains(c.path, "/orders/") {
			who = w.shop
		}
		p := w.call(t, who, c.method+" "+c.path, c.body, "If-Match", "*").requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
		require.Equal(t, c.field, p.Field, "%s %s", c.path, c.body)
	}
	require.Equal(t, http.StatusCreated, w.call(t, w.admin, "POST /v1/admin/sales", good(`{}`)).status)
	got, err := w.book.Order(t.Context(), mustID(t, o.ID))
	require.NoError(t, err)
	require.Equal(t, sale.Reserved, got.State)
	require.EqualValues(t, 9, w.left(t, "drop"))
}

func mustID(tb testing.TB, text string) sale.OrderID {
	tb.Helper()
	id, err := sale.ParseOrderID(text)
	require.NoError(tb, err)
	return id
}

// Whatever is sent, the answer is a clean attempt or a coded refusal, and what is
// accepted says the same when it is read by another reader.
func FuzzDecodeAttempt(f *testing.F) {
	for _, c := range badAttempts() {
		f.Add([]byte(c.body))
	}
	f.Add([]byte(`{"item":"unit","quantity":2,"expected_amount":2000,"currency":"EUR","on_behalf_of":"u","client_ip":"::1"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var a client.Attempt
		err := httpapi.DecodeAttempt(body, &a)
		if err != nil {
			require.Contains(t, []sale.Code{sale.CodeInvalid, sale.CodeInvalidQuantity, "malformed_json"}, sale.CodeOf(err))
			return
		}
		require.Positive(t, a.Quantity)
		var again client.Attempt
		require.NoError(t, json.Unmarshal(body, &again), "an accepted body must be JSON to others too")
		require.Equal(t, again, a)
	})
}
