package redisstock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// takeHead is how many arguments of take.lua come before the users.
const takeHead = 7

// Take implements stock.Counter.
func (c *Counter) Take(ctx context.Context, call stock.Call) (stock.Reply, error) {
	if err := call.Check(); err != nil {
		return stock.Reply{}, err
	}
	k, epoch := c.keys(call.Lane), decimal(call.Epoch)
	word, out, err := c.exec(ctx, c.scripts.take, []string{k.meta(), k.tray(), k.buyers(epoch)}, takeArgs(&call, epoch))
	if err != nil {
		return stock.Reply{}, err
	}
	reply, err := readReply(&call, stock.State(word), out)
	if err != nil {
		return stock.Reply{}, unavailable("take", err)
	}
	return reply, nil
}

func takeArgs(c *stock.Call, epoch string) []string {
	args := make([]string, takeHead, takeHead+len(c.Attempts))
	size := 0
	for i := range c.Attempts {
		size += stock.SlipSize(c.Attempts[i].User)
		args = append(args, c.Attempts[i].User)
	}
	slips, flags := make([]byte, 0, size), ""
	for i := range c.Attempts {
		a := &c.Attempts[i]
		s := stock.Slip{ID: a.ID, User: a.User, Item: a.Item, Quantity: a.Units(), MAC: a.MAC}
		if a.Item < 0 || a.Item >= sale.MaxItems {
			s.Item = noItem
		}
		slips = stock.AppendSlip(slips, &s)
		if a.OtherTerms && flags == "" {
			flags = takeFlags(c.Attempts)
		}
	}
	args[0], args[1], args[2] = epoch, decimal(c.Terms), strconv.FormatUint(c.Seen, 10)
	args[3], args[4] = decimal(c.AskedAt.UnixMilli()), decimal(stock.MaxDrift.Milliseconds())
	args[5], args[6] = flags, string(slips)
	return args
}

func takeFlags(attempts []stock.Attempt) string {
	b := make([]byte, len(attempts))
	for i := range attempts {
		b[i] = '0'
		if attempts[i].OtherTerms {
			b[i] = '1'
		}
	}
	return string(b)
}

// The places of the reply of take.lua after its word.
const (
	replySeq = iota
	replyGeneration
	replyVersion
	replyNow
	replyVerdicts
	replyExtras
	replyLeft
)

func readReply(c *stock.Call, state stock.State, out []rueidis.RedisMessage) (stock.Reply, error) {
	r := stock.Reply{State: state}
	if state == stock.Cold {
		return r, nil
	}
	if len(out) < replyLeft {
		return r, errReply
	}
	var head [replyVerdicts]int64
	var err error
	for i := range head {
		if head[i], err = out[i].AsInt64(); err != nil {
			return r, err
		}
	}
	r.Seq, r.Generation = uint64(head[replySeq]), uint64(head[replyGeneration]) //nolint:gosec // never negative
	r.Version, r.At = head[replyVersion], time.UnixMilli(head[replyNow]).UTC()
	var left []int64 // nil where nothing was ever set
	if items := len(out) - replyLeft; items > 0 {
		left = make([]int64, items)
	}
	for i := range left {
		if left[i], err = out[replyLeft+i].AsInt64(); err != nil {
			return r, err
		}
	}
	switch state {
	case stock.Open:
		err = readResults(c, &r, left, out)
	case stock.Frozen, stock.WrongEpoch, stock.Stale, stock.WrongTerms, stock.Full:
	case stock.Cold:
	default:
		err = errReply
	}
	r.Left = left
	for i := range left {
		left[i] = max(0, left[i])
	}
	return r, err
}

var errVerdicts = errors.New("the verdicts do not fit the attempts")

// results reads the answers to the attempts of one call.
type results struct {
	call   *stock.Call
	at     time.Time
	left   []int64 // after the call; may be below zero
	then   []int64 // when the attempt at hand was decided
	extras string
}

// readResults puts the answers into r. What an item had left when an attempt met
// it is not sent: it is what is left now and what was taken since.
func readResults(c *stock.Call, r *stock.Reply, left []int64, out []rueidis.RedisMessage) error {
	verdicts, err := out[replyVerdicts].ToString()
	if err != nil {
		return err
	}
	in := results{call: c, at: r.At, left: left, then: append([]int64(nil), left...)}
	if in.extras, err = out[replyExtras].ToString(); err != nil {
		return err
	}
	if len(verdicts) != len(c.Attempts) {
		return errVerdicts
	}
	for i := range c.Attempts {
		if a := &c.Attempts[i]; verdicts[i] == 'T' && in.known(a.Item) {
			in.then[a.Item] += a.Quantity
		}
	}
	r.Results = make([]stock.Result, len(verdicts))
	for i := range r.Results {
		if r.Results[i], err = in.result(&c.Attempts[i], verdicts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (in *results) known(item int) bool { return item >= 0 && item < len(in.left) }

func (in *results) result(a *stock.Attempt, letter byte) (stock.Result, error) {
	var r stock.Result
	if in.known(a.Item) {
		r.Left = max(0, in.left[a.Item])
	}
	switch letter {
	case 'T':
		r.Verdict = sale.Taken
		r.Record = stock.Record{ID: a.ID, Item: a.Item, Quantity: a.Quantity, Counted: a.Quantity, TakenAt: in.at}
		if !in.known(a.Item) {
			return r, errVerdicts
		}
		in.then[a.Item] -= a.Quantity
		return r, nil
	case 'R', 'M':
		r.Verdict = sale.Replayed
		if letter == 'M' {
			r.Verdict = sale.KeyMismatch
		}
		raw, err := in.extra(recordSize)
		if err == nil {
			r.Record = readRecord(in.call.Lane.Sale, raw)
		}
		return r, err
	case 'D':
		r.Verdict = sale.CoolDown
		raw, err := in.extra(timeSize)
		if err == nil {
			r.RetryAt = readMillis(raw)
		}
		return r, err
	case 'S':
		r.Verdict, r.Left = sale.SoldOut, 0
		return r, nil
	case 'F':
		if !in.known(a.Item) {
			return r, errVerdicts
		}
		r.Verdict, r.Left = sale.Insufficient, in.then[a.Item]
		return r, nil
	}
	if r.Verdict = refusal(letter); r.Verdict == "" {
		return r, errVerdicts
	}
	return r, nil
}

// extra returns the next bytes that come besides the verdicts.
func (in *results) extra(size int) (string, error) {
	if len(in.extras) < size {
		return "", errVerdicts
	}
	raw := in.extras[:size]
	in.extras = in.extras[size:]
	return raw, nil
}

// refusal returns the verdict of a letter of take.lua that says nothing more.
func refusal(letter byte) sale.Verdict {
	switch letter {
	case 'C':
		return sale.ClosedNow
	case 'E':
		return sale.Ended
	case 'N':
		return sale.NotStarted
	case 'P':
		return sale.PausedNow
	case 'I':
		return sale.NoSuchItem
	case 'Q':
		return sale.BadQuantity
	case 'O':
		return sale.TermsChanged
	case 'L':
		return sale.LimitReached
	}
	return ""
}
