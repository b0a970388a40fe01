package buyers

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

const (
	// How often a buyer asks for a queued order, and how often a payment or a cancel
	// is repeated whose outcome is not known.
	mostPolls    = 1000
	mostNotices  = 5
	shortPause   = time.Second // where the server names none
	longestPause = time.Minute
	// spread keeps a crowd that was told to come again from coming as one.
	spread = 250 * time.Millisecond
)

// Heard judges an answer.
func (c *Script) Heard(s *traffic.Step, a *wire.Answer, err error) traffic.Outcome {
	if err != nil {
		return c.unheard(s, err)
	}
	if a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable {
		return c.turnedOff(s, a)
	}
	switch s.Kind {
	case traffic.Buy:
		return c.heardBuy(s, a)
	case traffic.Poll:
		return c.heardPoll(s, a)
	case traffic.Pay:
		return c.heardPayment(s, a)
	case traffic.Cancel:
		return c.heardCancel(s, a)
	case traffic.Look, traffic.Kinds:
	}
	if a.Status == http.StatusOK || a.Status == http.StatusNotModified {
		return traffic.Outcome{Class: traffic.Looked, Verdict: Seen}
	}
	return c.failed(s, a)
}

// unheard judges that there was no answer.
func (c *Script) unheard(s *traffic.Step, err error) traffic.Outcome {
	out := traffic.Outcome{Class: traffic.Failed, Verdict: NoAnswer}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		out.Verdict = TimedOut
	}
	if s.Kind == traffic.Buy {
		c.books.unknown(s.Buyer)
	}
	c.again(s, &out, shortPause)
	return out
}

// turnedOff judges an answer that says to come again.
func (c *Script) turnedOff(s *traffic.Step, a *wire.Answer) traffic.Outcome {
	code := codeOf(a)
	out := traffic.Outcome{Class: traffic.TurnedOff, Verdict: c.verdict(a.Status, code)}
	known := client.CodeError(out.Verdict)
	if s.Kind == traffic.Buy && (s.Repeated || known != client.ErrBusy && known != client.ErrRateLimited) {
		c.books.unknown(s.Buyer) // whoever said so may not know what became of it
	}
	if code != nil && len(a.RetryAfter) == 0 {
		c.books.fault("P9", "%s was answered %d %s without Retry-After", kindOf(s.Kind), a.Status, out.Verdict)
	}
	c.again(s, &out, pause(a))
	return out
}

// again lets a step be taken once more, unless it was too often.
func (c *Script) again(s *traffic.Step, out *traffic.Outcome, after time.Duration) {
	most := mostNotices
	switch s.Kind {
	case traffic.Buy:
		most = c.options.Conduct.Again
	case traffic.Look:
		return
	case traffic.Poll:
		most = mostPolls
	case traffic.Pay, traffic.Cancel, traffic.Kinds:
	}
	if s.Tries >= most {
		return
	}
	next := *s
	next.Repeated = false
	next.Tries++
	if next.First, next.Again = s.Since(), true; out.Class == traffic.Looked { // still queued: that was an answer
		next.First, next.Again = 0, false
	}
	out.Next = &next
	out.After = after + time.Duration(c.lot(s, traffic.Kinds+traffic.Kind(s.Tries&0x7f)).Int64N(int64(spread)))
}

// pause returns what Retry-After asks for.
func pause(a *wire.Answer) time.Duration {
	seconds, ok := whole(a.RetryAfter)
	if !ok || seconds < 0 {
		return shortPause
	}
	return min(longestPause, time.Duration(min(seconds, 3600))*time.Second)
}

func (c *Script) heardBuy(s *traffic.Step, a *wire.Answer) traffic.Outcome {
	switch a.Status {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
	case http.StatusConflict, http.StatusGone, http.StatusForbidden:
		if code := codeOf(a); code != nil {
			return traffic.Outcome{Class: traffic.Refused, Verdict: c.words.word(code)}
		}
		return c.failed(s, a)
	default:
		return c.failed(s, a)
	}
	o, ok := c.sight(a.Body)
	if !ok {
		c.books.unknown(s.Buyer)
		return traffic.Outcome{Class: traffic.Failed, Verdict: BadAnswer}
	}
	o.click = s.Click
	out := traffic.Outcome{Class: traffic.Accepted, Verdict: Taken}
	if a.Replayed || a.Status == http.StatusOK {
		out.Verdict = Replayed
	}
	if o.state&(Queued|Reserved|Paid) == 0 { // a click repeated late shows what became of it
		out.Class, out.Verdict = traffic.Refused, states()[o.state.bit()]
	}
	entry, news := c.books.tell(s, &o, c.now())
	c.follow(s, &entry, news, &out)
	if out.Next != nil && out.Next.Kind == traffic.Poll {
		out.Next.Receipt = string(a.Receipt)
		if c.options.Conduct.Wait < time.Second {
			out.After = pause(a)
		}
	}
	return out
}

// follow lets happen what follows from the news of an order.
func (c *Script) follow(s *traffic.Step, o *Order, news States, out *traffic.Outcome) {
	switch {
	case news&Reserved != 0:
		out.Next, out.After = c.conduct(s, o)
	case news&Queued != 0 && o.Seen == Queued:
		out.Next = &traffic.Step{Kind: traffic.Poll, Buyer: s.Buyer, Click: s.Click, Order: o.ID}
	}
}

func (c *Script) heardPoll(s *traffic.Step, a *wire.Answer) traffic.Outcome {
	if a.Status != http.StatusOK {
		if a.Status == http.StatusNotFound && s.Receipt != "" {
			c.books.fault("P5", "order %s was queued, and with its receipt not found", s.Order)
		}
		return c.failed(s, a)
	}
	o, ok := c.sight(a.Body)
	if !ok || o.id != s.Order {
		return traffic.Outcome{Class: traffic.Failed, Verdict: BadAnswer}
	}
	o.click = s.Click
	out := traffic.Outcome{Class: traffic.Looked, Verdict: states()[o.state.bit()]}
	entry, news := c.books.tell(s, &o, c.now())
	if o.state == Queued {
		c.again(s, &out, pause(a))
		return out
	}
	c.follow(s, &entry, news, &out)
	return out
}

func (c *Script) heardPayment(s *traffic.Step, a *wire.Answer) traffic.Outcome {
	if a.Status != http.StatusOK {
		return c.failed(s, a)
	}
	var outcome []byte
	var o sight
	found := false
	read := members(a.Body, func(name, value []byte) bool {
		switch string(name) {
		case "outcome":
			outcome = plain(value)
		case "order":
			o, found = c.sight(value)
		}
		return true
	})
	if !read || outcome == nil || !found {
		return traffic.Outcome{Class: traffic.Failed, Verdict: BadAnswer}
	}
	out := traffic.Outcome{Class: traffic.Settled, Verdict: c.words.word(outcome)}
	o.click = s.Click
	if o.id != s.Order {
		o.click = bornLate
	}
	c.books.outcome(s.Order, out.Verdict)
	c.books.tell(s, &o, c.now())
	return out
}

func (c *Script) heardCancel(s *traffic.Step, a *wire.Answer) traffic.Outcome {
	switch a.Status {
	case http.StatusOK:
	case http.StatusConflict:
		// The hold ran out while he thought.
		if code := codeOf(a); string(code) == string(client.ErrIllegalState) {
			return traffic.Outcome{Class: traffic.Settled, Verdict: c.words.word(code)}
		}
		return c.failed(s, a)
	default:
		return c.failed(s, a)
	}
	o, ok := c.sight(a.Body)
	if !ok || o.id != s.Order {
		return traffic.Outcome{Class: traffic.Failed, Verdict: BadAnswer}
	}
	o.click = s.Click
	c.books.tell(s, &o, c.now())
	return traffic.Outcome{Class: traffic.Settled, Verdict: states()[o.state.bit()]}
}

// failed judges an answer that is no business answer to its step.
func (c *Script) failed(s *traffic.Step, a *wire.Answer) traffic.Outcome {
	verdict := c.verdict(a.Status, codeOf(a))
	if a.Status >= http.StatusInternalServerError {
		if s.Kind == traffic.Buy {
			c.books.unknown(s.Buyer)
		}
		// A server in front of ours may say that it got no answer.
		if a.Status != http.StatusBadGateway && a.Status != http.StatusGatewayTimeout {
			c.books.fault("P9", "%s was answered %d %s", kindOf(s.Kind), a.Status, verdict)
		}
	}
	return traffic.Outcome{Class: traffic.Failed, Verdict: verdict}
}

func (c *Script) verdict(status int, code []byte) string {
	if code == nil {
		return c.words.status(status)
	}
	return c.words.word(code)
}

// kindOf names a kind of step.
func kindOf(k traffic.Kind) string {
	return [traffic.Kinds + 1]string{"a look", "a buy", "a poll", "a payment", "a cancel", "a step"}[min(k, traffic.Kinds)]
}

// codeOf returns the code of a problem document, nil if the body is none.
func codeOf(a *wire.Answer) []byte {
	var code []byte
	members(a.Body, func(name, value []byte) bool {
		if string(name) != "code" {
			return true
		}
		code = plain(value)
		return false
	})
	if len(code) == 0 {
		return nil
	}
	return code
}

// bornLate is the click of an order that came of a late payment.
const bornLate = -1

// sight is what an answer says of an order.
type sight struct {
	id, currency, reason string
	state                States
	quantity, amount     int64
	click                int16
}

const longestID = 128

// sight reads an order. Without an id that can stand in a path and a state that the
// API knows it is none.
func (c *Script) sight(body []byte) (sight, bool) {
	var o sight
	var id []byte
	numbers := true
	read := members(body, func(name, value []byte) bool {
		ok := true
		switch string(name) {
		case "order":
			id = plain(value)
		case "state":
			o.state = StateOf(string(plain(value)))
		case "quantity":
			o.quantity, ok = whole(value)
		case "amount":
			o.amount, ok = whole(value)
		case "currency":
			o.currency = c.words.word(plain(value))
		case "reason":
			o.reason = c.words.word(plain(value))
		}
		numbers = numbers && ok
		return true
	})
	if !read || !numbers || o.state == 0 || len(id) > longestID || !segment(id) {
		return sight{}, false
	}
	o.id = string(id)
	return o, true
}

// segment reports whether a text can stand in a path as it is.
func segment(text []byte) bool {
	for _, b := range text {
		if (b < '0' || b > '9') && (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && b != '_' && b != '-' && b != '.' {
			return false
		}
	}
	return len(text) > 0
}
