package buyers

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// Conduct is what buyers do with what they are told. The zero value takes what it
// gets and leaves it there.
type Conduct struct {
	// Pay and Cancel are the shares of the reserved orders that are paid and given
	// back; the rest is left to the end of its hold.
	Pay, Cancel float64
	// Think is how long a buyer thinks before he does so, on average: half of it at
	// least, half more at most.
	Think time.Duration
	// Again is how often a click comes again, with the same key, that was told to come
	// again or got no answer.
	Again int
	// Wait is how long a poll of a queued order asks the server to wait for its judge,
	// in whole seconds, below the time that the crowd waits for an answer; zero asks for
	// no waiting, and polls when Retry-After says so.
	Wait time.Duration
}

// Check returns what of the conduct makes no sense.
func (w *Conduct) Check() error {
	switch {
	case !(w.Pay >= 0 && w.Cancel >= 0 && w.Pay+w.Cancel <= 1): // NaN is nothing of that
		return errors.New("the shares that pay and cancel are from 0 to 1 together")
	case w.Think < 0 || w.Again < 0:
		return errors.New("the time to think and the number of times that a click comes again are not negative")
	}
	return nil
}

// Options say what a script is about.
type Options struct {
	Sale     string
	Item     string // may be empty where the sale has one
	Quantity int64  // of each click, 1
	// Run is part of every idempotency key, so that a second run is no replay of the
	// first; visible ASCII.
	Run     string
	Seed    uint64
	Start   time.Time // the plan's zero
	ShopKey string    // an API key with scope shop, for Conduct.Pay
	Conduct Conduct
}

// Script is what a crowd does; it is a traffic.Script. Several scripts may share cast
// and books.
type Script struct {
	cast    *Cast
	books   *Books
	options Options
	words   *words

	path string // of the sale, behind the prefix of a server
	head []byte // of a buy, before the token
	body []byte
}

// New returns the script of a crowd. The error says what of the options
// makes no sense.
func New(c *Cast, b *Books, o Options) (*Script, error) {
	if o.Quantity == 0 {
		o.Quantity = 1
	}
	if err := o.Conduct.Check(); err != nil {
		return nil, err
	}
	switch {
	case o.Sale == "":
		return nil, errors.New("buyers: a crowd needs a sale")
	case !visible(o.Run):
		return nil, errors.New("buyers: the name of the run is not visible ASCII")
	case o.Conduct.Pay > 0 && !visible(o.ShopKey):
		return nil, errors.New("buyers: payments need an API key with scope shop")
	}
	body, err := json.Marshal(o.attempt())
	if err != nil {
		return nil, fmt.Errorf("buyers: the body of a buy: %w", err)
	}
	return &Script{
		cast: c, books: b, options: o, words: newWords(),
		path: "/v1/sales/" + url.PathEscape(o.Sale),
		head: []byte("Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\nAuthorization: Bearer "),
		body: body,
	}, nil
}

func (o *Options) attempt() client.Attempt { return client.Attempt{SKU: o.Item, Quantity: o.Quantity} }

// Attempt returns what every click asks for.
func (c *Script) Attempt() client.Attempt { return c.options.attempt() }

// Request appends the request of a step.
func (c *Script) Request(dst []byte, s *traffic.Step) []byte {
	switch s.Kind {
	case traffic.Buy:
		dst = line(dst, s.Target, "POST ", c.path, "/orders")
		dst = append(append(dst, c.head...), c.cast.tokens[s.Buyer]...)
		dst = append(dst, "\r\nIdempotency-Key: "...)
		dst = append(c.appendKey(dst, s), "\r\n\r\n"...)
		return append(dst, c.body...)
	case traffic.Poll:
		dst = bearer(line(dst, s.Target, "GET ", ordersPath, s.Order), c.cast.tokens[s.Buyer])
		if s.Receipt != "" {
			dst = append(append(append(dst, "Doorbuster-Receipt: "...), s.Receipt...), "\r\n"...)
		}
		if wait := c.options.Conduct.Wait; wait >= time.Second {
			dst = append(strconv.AppendInt(append(dst, "Prefer: wait="...), int64(wait/time.Second), 10), "\r\n"...)
		}
	case traffic.Pay:
		return c.payment(dst, s)
	case traffic.Cancel:
		dst = bearer(line(dst, s.Target, "POST ", ordersPath, s.Order, "/cancel"), c.cast.tokens[s.Buyer])
		dst = append(dst, "Content-Length: 0\r\n"...)
	case traffic.Look, traffic.Kinds:
		dst = line(dst, s.Target, "GET ", c.path)
	}
	return append(dst, "\r\n"...)
}

const ordersPath = "/v1/orders/"

// line appends the first lines of a request: the method, the path behind the server's
// prefix, and the host.
func line(dst []byte, to *wire.Target, method string, path ...string) []byte {
	dst = append(append(dst, method...), to.Prefix...)
	for _, part := range path {
		dst = append(dst, part...)
	}
	dst = append(append(dst, " HTTP/1.1\r\nHost: "...), to.Host...)
	return append(dst, "\r\nUser-Agent: doorbuster-bench\r\n"...)
}

func bearer(dst []byte, token string) []byte {
	return append(append(append(dst, "Authorization: Bearer "...), token...), "\r\n"...)
}

func (c *Script) payment(dst []byte, s *traffic.Step) []byte {
	o := c.books.charge(s.Order)
	body, err := json.Marshal(client.Payment{ID: PaymentID(o.ID), Status: "succeeded", Amount: o.Amount, Currency: o.Currency})
	if err != nil { // strings and numbers can always be written
		body = nil
	}
	dst = bearer(line(dst, s.Target, "POST ", ordersPath, s.Order, "/payments"), c.options.ShopKey)
	dst = append(dst, "Content-Type: application/json\r\nContent-Length: "...)
	dst = append(strconv.AppendInt(dst, int64(len(body)), 10), "\r\n\r\n"...)
	return append(dst, body...)
}

// Key returns the idempotency key of a buyer's click.
func (c *Script) Key(buyer int32, click int16) string {
	return string(c.appendKey(nil, &traffic.Step{Buyer: buyer, Click: click}))
}

func (c *Script) appendKey(dst []byte, s *traffic.Step) []byte {
	dst = append(append(dst, c.options.Run...), '-')
	dst = strconv.AppendInt(dst, int64(s.Buyer), 10)
	return strconv.AppendInt(append(dst, '-'), int64(s.Click), 10)
}

// now returns the time since the start.
func (c *Script) now() time.Duration { return time.Since(c.options.Start) }

// conduct returns what a buyer does with an order that has been reserved for him.
func (c *Script) conduct(s *traffic.Step, o *Order) (*traffic.Step, time.Duration) {
	w := &c.options.Conduct
	r := c.lot(s, traffic.Pay)
	at, think := r.Float64(), w.Think/2+time.Duration(r.Float64()*float64(w.Think))
	next := &traffic.Step{Buyer: s.Buyer, Click: s.Click, Order: o.ID}
	switch {
	case at < w.Pay:
		next.Kind = traffic.Pay
	case at < w.Pay+w.Cancel:
		next.Kind = traffic.Cancel
	default:
		return nil, 0
	}
	return next, think
}

// lot returns a source that draws what one buyer does after one click: the same in
// each run with the seed.
func (c *Script) lot(s *traffic.Step, what traffic.Kind) *rand.Rand {
	of := uint64(uint32(s.Buyer))<<24 | uint64(uint16(s.Click))<<8 | uint64(what) //nolint:gosec // bits, not numbers
	return rand.New(rand.NewPCG(c.options.Seed, of))                              //nolint:gosec // drawn to be repeated, not to be secret
}
