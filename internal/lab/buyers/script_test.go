package buyers_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

const shopKey = "dbk_shop"

// world is a cast with books and a script.
type world struct {
	cast   *buyers.Cast
	books  *buyers.Books
	script *buyers.Script
}

func newWorld(t *testing.T, change func(*buyers.Options)) world {
	t.Helper()
	cast, err := buyers.Mint(5, "crowd", buyers.Minting{
		Secret: bytes.Repeat([]byte("s"), 32), Issuer: "doorbuster", Audience: "doorbuster", Now: time.Now(), Life: time.Hour,
	})
	require.NoError(t, err)
	w := world{cast: cast, books: buyers.NewBooks(cast)}
	o := buyers.Options{
		Sale: "drop", Run: "r1", Seed: 3,
		Start: time.Now().Add(-time.Second), ShopKey: shopKey,
	}
	if change != nil {
		change(&o)
	}
	w.script, err = buyers.New(cast, w.books, o)
	require.NoError(t, err)
	return w
}

// read parses what the script renders as a server would.
func (w *world) read(t *testing.T, s traffic.Step) (request *http.Request, body string) {
	t.Helper()
	s.Target = &wire.Target{Host: "shop.example:81", Prefix: "/base"}
	text := w.script.Request([]byte("before"), &s)
	require.True(t, bytes.HasPrefix(text, []byte("before")), "the request is appended")
	in := bufio.NewReader(bytes.NewReader(text[len("before"):]))
	r, err := http.ReadRequest(in)
	require.NoError(t, err)
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "nothing follows the body")
	assert.Equal(t, "shop.example:81", r.Host)
	return r, string(raw)
}

// order renders an order as the API does.
func order(id, state string) []byte {
	return text(client.Order{ID: id, Sale: "drop", SKU: "unit", Quantity: 2, Amount: 998, Currency: "EUR", State: state})
}

func text[T any](v T) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func problem(code string) []byte {
	return text(client.Problem{Type: "about:blank", Title: "Conflict", Status: 409, Code: code, Detail: `so "it" is`, Hint: "{"})
}

func (w *world) hear(s traffic.Step, a wire.Answer) traffic.Outcome {
	return w.script.Heard(&s, &a, nil)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *buyers.Options) {
		o.Item, o.Quantity, o.Conduct = `a "size"`, 2, buyers.Conduct{Wait: 5 * time.Second}
	})

	r, body := w.read(t, traffic.Step{Kind: traffic.Buy, Buyer: 3, Click: 7})
	assert.Equal(t, "POST /base/v1/sales/drop/orders", r.Method+" "+r.URL.Path)
	assert.Equal(t, "Bearer "+w.cast.Token(3), r.Header.Get("Authorization"))
	assert.Equal(t, "r1-3-7", r.Header.Get("Idempotency-Key"))
	assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
	assert.JSONEq(t, `{"item":"a \"size\"","quantity":2}`, body)

	r, body = w.read(t, traffic.Step{Kind: traffic.Look})
	assert.Equal(t, "GET /base/v1/sales/drop", r.Method+" "+r.URL.Path)
	assert.Empty(t, body)

	r, _ = w.read(t, traffic.Step{Kind: traffic.Poll, Buyer: 1, Order: "ord_1", Receipt: "proof"})
	assert.Equal(t, "GET /base/v1/orders/ord_1", r.Method+" "+r.URL.Path)
	assert.Equal(t, "Bearer "+w.cast.Token(1), r.Header.Get("Authorization"))
	assert.Equal(t, "proof", r.Header.Get("Doorbuster-Receipt"))
	assert.Equal(t, "wait=5", r.Header.Get("Prefer"))

	r, body = w.read(t, traffic.Step{Kind: traffic.Cancel, Buyer: 2, Order: "ord_1"})
	assert.Equal(t, "POST /base/v1/orders/ord_1/cancel", r.Method+" "+r.URL.Path)
	assert.Equal(t, "Bearer "+w.cast.Token(2), r.Header.Get("Authorization"))
	assert.Empty(t, body)

	w.hear(traffic.Step{Kind: traffic.Buy, Buyer: 2}, wire.Answer{Status: 201, Body: order("ord_1", "reserved")})
	r, body = w.read(t, traffic.Step{Kind: traffic.Pay, Buyer: 2, Order: "ord_1"})
	assert.Equal(t, "POST /base/v1/orders/ord_1/payments", r.Method+" "+r.URL.Path)
	assert.Equal(t, "Bearer "+shopKey, r.Header.Get("Authorization"))
	assert.JSONEq(t, `{"payment_id":"charge-ord_1","status":"succeeded","amount":998,"currency":"EUR"}`, body)
	assert.True(t, w.books.Orders()[0].Charged)
}

func TestJudging(t *testing.T) {
	t.Parallel()
	buy := traffic.Step{Kind: traffic.Buy, Buyer: 1}
	poll := traffic.Step{Kind: traffic.Poll, Buyer: 1, Order: "ord_1", Receipt: "proof"}
	pay := traffic.Step{Kind: traffic.Pay, Buyer: 1, Order: "ord_1"}
	cancel := traffic.Step{Kind: traffic.Cancel, Buyer: 1, Order: "ord_1"}
	paid := text(client.PaymentResult{Outcome: "paid", Order: client.Order{ID: "ord_1", State: "paid", Quantity: 2, Amount: 998, Currency: "EUR"}})
	again := buy
	again.Repeated = true
	for name, c := range map[string]struct {
		step    traffic.Step
		answer  wire.Answer
		class   traffic.Class
		verdict string
		fault   string
		unsure  bool
	}{
		"reserved":               {step: buy, answer: wire.Answer{Status: 201, Body: order("ord_1", "reserved")}, class: traffic.Accepted, verdict: "taken"},
		"queued":                 {step: buy, answer: wire.Answer{Status: 202, Body: order("ord_1", "queued")}, class: traffic.Accepted, verdict: "taken"},
		"replayed":               {step: buy, answer: wire.Answer{Status: 200, Replayed: true, Body: order("ord_1", "reserved")}, class: traffic.Accepted, verdict: "replayed"},
		"replayed while queued":  {step: buy, answer: wire.Answer{Status: 202, Replayed: true, Body: order("ord_1", "queued")}, class: traffic.Accepted, verdict: "replayed"},
		"replayed when over":     {step: buy, answer: wire.Answer{Status: 200, Replayed: true, Body: order("ord_1", "rejected")}, class: traffic.Refused, verdict: "rejected"},
		"sold out":               {step: buy, answer: wire.Answer{Status: 409, Body: problem("sold_out")}, class: traffic.Refused, verdict: "sold_out"},
		"ended":                  {step: buy, answer: wire.Answer{Status: 410, Body: problem("ended")}, class: traffic.Refused, verdict: "ended"},
		"a code of tomorrow":     {step: buy, answer: wire.Answer{Status: 409, Body: problem("not_today")}, class: traffic.Refused, verdict: "not_today"},
		"a code made of nothing": {step: buy, answer: wire.Answer{Status: 409, Body: problem("no/code")}, class: traffic.Refused, verdict: "other"},
		"no pass":                {step: buy, answer: wire.Answer{Status: 403, Body: problem("pass_required")}, class: traffic.Refused, verdict: "pass_required"},
		"no right":               {step: buy, answer: wire.Answer{Status: 401, Body: problem("unauthenticated")}, class: traffic.Failed, verdict: "unauthenticated"},
		"a refusal of nobody":    {step: buy, answer: wire.Answer{Status: 409, Body: []byte("<html>")}, class: traffic.Failed, verdict: "status_409"},
		"nonsense":               {step: buy, answer: wire.Answer{Status: 201, Body: []byte(`{"order":"ord_1"}`)}, class: traffic.Failed, verdict: "bad_answer", unsure: true},
		"an id that is a path":   {step: buy, answer: wire.Answer{Status: 201, Body: order("../x", "reserved")}, class: traffic.Failed, verdict: "bad_answer", unsure: true},
		"busy":                   {step: buy, answer: wire.Answer{Status: 503, RetryAfter: []byte("2"), Body: problem("busy")}, class: traffic.TurnedOff, verdict: "busy"},
		"busy, asked again":      {step: again, answer: wire.Answer{Status: 503, RetryAfter: []byte("2"), Body: problem("busy")}, class: traffic.TurnedOff, verdict: "busy", unsure: true},
		"busy for ever":          {step: buy, answer: wire.Answer{Status: 503, Body: problem("busy")}, class: traffic.TurnedOff, verdict: "busy", fault: "P9"},
		"unavailable":            {step: buy, answer: wire.Answer{Status: 503, RetryAfter: []byte("2"), Body: problem("unavailable")}, class: traffic.TurnedOff, verdict: "unavailable", unsure: true},
		"too many":               {step: buy, answer: wire.Answer{Status: 429, RetryAfter: []byte("1"), Body: problem("rate_limited")}, class: traffic.TurnedOff, verdict: "rate_limited"},
		"an internal error":      {step: buy, answer: wire.Answer{Status: 500}, class: traffic.Failed, verdict: "status_500", fault: "P9", unsure: true},
		"a proxy's error":        {step: buy, answer: wire.Answer{Status: 502}, class: traffic.Failed, verdict: "status_502", unsure: true},
		"looked":                 {step: traffic.Step{Kind: traffic.Look}, answer: wire.Answer{Status: 200}, class: traffic.Looked, verdict: "seen"},
		"nothing to look at":     {step: traffic.Step{Kind: traffic.Look}, answer: wire.Answer{Status: 404, Body: problem("sale_not_found")}, class: traffic.Failed, verdict: "sale_not_found"},
		"judged":                 {step: poll, answer: wire.Answer{Status: 200, Body: order("ord_1", "reserved")}, class: traffic.Looked, verdict: "reserved"},
		"not judged":             {step: poll, answer: wire.Answer{Status: 200, Body: order("ord_1", "queued")}, class: traffic.Looked, verdict: "queued"},
		"vanished":               {step: poll, answer: wire.Answer{Status: 404, Body: problem("order_not_found")}, class: traffic.Failed, verdict: "order_not_found", fault: "P5"},
		"another order":          {step: poll, answer: wire.Answer{Status: 200, Body: order("ord_2", "reserved")}, class: traffic.Failed, verdict: "bad_answer"},
		"paid":                   {step: pay, answer: wire.Answer{Status: 200, Body: paid}, class: traffic.Settled, verdict: "paid"},
		"no word on a charge":    {step: pay, answer: wire.Answer{Status: 200, Body: []byte(`{}`)}, class: traffic.Failed, verdict: "bad_answer"},
		"cancelled":              {step: cancel, answer: wire.Answer{Status: 200, Body: order("ord_1", "cancelled")}, class: traffic.Settled, verdict: "cancelled"},
		"too late to cancel":     {step: cancel, answer: wire.Answer{Status: 409, Body: problem("illegal_state")}, class: traffic.Settled, verdict: "illegal_state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			out := w.hear(c.step, c.answer)
			assert.Equal(t, c.class, out.Class)
			assert.Equal(t, c.verdict, out.Verdict)
			assert.Equal(t, c.unsure, w.books.Unsure(1))
			faults := w.books.Faults()
			if c.fault == "" {
				assert.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			assert.Equal(t, c.fault, faults[0].Promise)
		})
	}
}

func TestUnanswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *buyers.Options) { o.Conduct.Again = 1 })
	s := traffic.Step{Kind: traffic.Buy, Buyer: 4, Click: 1}
	out := w.script.Heard(&s, nil, os.ErrDeadlineExceeded)
	assert.Equal(t, buyers.TimedOut, out.Verdict)
	assert.True(t, w.books.Unsure(4))
	require.NotNil(t, out.Next)
	assert.Equal(t, s.Click, out.Next.Click, "the same click comes again")

	out = w.script.Heard(out.Next, nil, errors.New("reset"))
	assert.Equal(t, buyers.NoAnswer, out.Verdict)
	assert.Nil(t, out.Next, "it was enough")
}

func TestComesAgain(t *testing.T) {
	t.Parallel()
	busy := wire.Answer{Status: 503, RetryAfter: []byte("2"), Body: problem("busy")}
	s := traffic.Step{Kind: traffic.Buy, Buyer: 4, Click: 1}

	w := newWorld(t, nil)
	assert.Nil(t, w.hear(s, busy).Next, "not unless it was asked for")

	w = newWorld(t, func(o *buyers.Options) { o.Conduct.Again = 2 })
	for range 2 {
		out := w.hear(s, busy)
		require.NotNil(t, out.Next)
		assert.GreaterOrEqual(t, out.After, 2*time.Second)
		assert.Less(t, out.After, 2500*time.Millisecond)
		s = *out.Next
	}
	assert.Nil(t, w.hear(s, busy).Next)
}

func TestQueuedIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *buyers.Options) { o.Conduct = buyers.Conduct{Pay: 1, Think: time.Second} })
	out := w.hear(traffic.Step{Kind: traffic.Buy, Buyer: 1, Click: 2}, wire.Answer{Status: 202, RetryAfter: []byte("1"), Receipt: []byte("proof"), Body: order("ord_1", "queued")})
	require.NotNil(t, out.Next)
	assert.Equal(t, traffic.Step{Kind: traffic.Poll, Buyer: 1, Click: 2, Order: "ord_1", Receipt: "proof"}, *out.Next)
	assert.Equal(t, time.Second, out.After, "Retry-After is honoured")
	assert.EqualValues(t, 1, w.books.Live().Waiting)

	// The second half of a double click follows nothing: the first one does.
	again := w.hear(traffic.Step{Kind: traffic.Buy, Buyer: 1, Click: 2}, wire.Answer{Status: 202, Replayed: true, Body: order("ord_1", "queued")})
	assert.Nil(t, again.Next)

	out = w.hear(*out.Next, wire.Answer{Status: 200, RetryAfter: []byte("1"), Body: order("ord_1", "queued")})
	require.NotNil(t, out.Next)
	assert.Equal(t, traffic.Poll, out.Next.Kind)
	assert.Equal(t, "proof", out.Next.Receipt)

	out = w.hear(*out.Next, wire.Answer{Status: 200, Body: order("ord_1", "reserved")})
	require.NotNil(t, out.Next)
	assert.Equal(t, traffic.Pay, out.Next.Kind)
	assert.GreaterOrEqual(t, out.After, time.Second/2)
	assert.Less(t, out.After, 3*time.Second/2)
	assert.Zero(t, w.books.Live().Waiting)
	assert.EqualValues(t, 1, w.books.Judged().TotalCount())
	assert.GreaterOrEqual(t, w.books.Judged().Min(), int64(900_000), "from the instant at which the click was due")

	// Nor does a replay that finds it judged.
	again = w.hear(traffic.Step{Kind: traffic.Buy, Buyer: 1, Click: 2}, wire.Answer{Status: 200, Replayed: true, Body: order("ord_1", "reserved")})
	assert.Nil(t, again.Next)

	held := w.books.Orders()
	require.Len(t, held, 1)
	assert.Equal(t, buyers.Queued|buyers.Reserved, held[0].Seen)
	assert.Equal(t, [traffic.Kinds]uint32{traffic.Buy: 3, traffic.Poll: 2}, held[0].Told)
}

func TestConductFollowsTheSeed(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) (kinds string) {
		w := newWorld(t, func(o *buyers.Options) { o.Seed, o.Conduct = seed, buyers.Conduct{Pay: 0.5, Cancel: 0.25} })
		for click := range int16(400) {
			id := "ord_" + strings.Repeat("x", int(click%50)) + string(rune('a'+click/50))
			out := w.hear(traffic.Step{Kind: traffic.Buy, Click: click}, wire.Answer{Status: 201, Body: order(id, "reserved")})
			switch {
			case out.Next == nil:
				kinds += "-"
			case out.Next.Kind == traffic.Pay:
				kinds += "p"
			default:
				assert.Equal(t, traffic.Cancel, out.Next.Kind)
				kinds += "c"
			}
			assert.Zero(t, out.After, "who does not think acts at once")
		}
		return kinds
	}
	one := draw(1)
	assert.Equal(t, one, draw(1))
	assert.NotEqual(t, one, draw(2))
	assert.InDelta(t, 200, strings.Count(one, "p"), 40)
	assert.InDelta(t, 100, strings.Count(one, "c"), 40)
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := buyers.Options{Sale: "drop", Run: "r"}
	for want, o := range map[string]buyers.Options{
		"needs a sale":                  {Run: "r"},
		"the name of the run":           {Sale: "drop"},
		"shares":                        {Sale: "drop", Run: "r", Conduct: buyers.Conduct{Cancel: 1.5}},
		"an API key with scope shop":    {Sale: "drop", Run: "r", Conduct: buyers.Conduct{Pay: 0.5}},
		"from 0 to 1 together":          {Sale: "drop", Run: "r", ShopKey: "k", Conduct: buyers.Conduct{Pay: 0.6, Cancel: 0.6}},
		"the run is not visible ASCII":  {Sale: "drop", Run: "a\r\nb"},
		"that pay and cancel are from ": {Sale: "drop", Run: "r", Conduct: buyers.Conduct{Pay: -1}},
	} {
		_, err := buyers.New(w.cast, w.books, o)
		require.ErrorContains(t, err, want)
	}
	_, err := buyers.New(w.cast, w.books, good)
	assert.NoError(t, err)
}

// TestWaitsGoOn: a click that comes again has waited since it was due for the first time,
// and so has the order that it becomes; a poll of an order that is still queued waits for
// an answer of its own.
func TestWaitsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *buyers.Options) { o.Start, o.Conduct = time.Now().Add(-time.Hour), buyers.Conduct{Again: 3} })
	busy := wire.Answer{Status: 503, RetryAfter: []byte("2"), Body: problem("busy")}
	due := time.Hour - 9*time.Minute
	s := traffic.Step{Kind: traffic.Buy, Buyer: 1, Due: due}
	for range 2 {
		next := w.hear(s, busy).Next
		require.NotNil(t, next)
		next.Due = s.Due + 4*time.Minute
		s = *next
		assert.Equal(t, due, s.Since())
	}
	next := w.script.Heard(&s, nil, errors.New("reset")).Next
	require.NotNil(t, next)
	assert.Equal(t, due, next.Since())
	s = *w.hear(*next, wire.Answer{Status: 202, Body: order("ord_1", "queued")}).Next
	s.Due = time.Hour
	assert.Equal(t, time.Hour, s.Since(), "a poll is another step")
	turned := w.hear(s, busy).Next
	assert.Equal(t, time.Hour, turned.Since())
	again := w.hear(*turned, wire.Answer{Status: 200, Body: order("ord_1", "queued")}).Next
	assert.False(t, again.Again)
	w.hear(*again, wire.Answer{Status: 200, Body: order("ord_1", "reserved")})
	assert.InDelta(t, 9*time.Minute.Microseconds(), w.books.Judged().Max(), float64(30*time.Second.Microseconds()))
}
