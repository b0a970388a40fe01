package redisstock

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// scanCount is how many holders one step of a scan is asked for.
	scanCount = 1000
	// moves is how often a call begins again because the lane has moved to
	// another epoch between its look and its act.
	moves = 5
)

var errMoved = errors.New("the lane changes its epoch all the time")

// Records implements stock.Counter.
func (c *Counter) Records(ctx context.Context, l stock.Lane, user string) (stock.Records, error) {
	k := c.keys(l)
	for range moves {
		epoch, _, err := c.epoch(ctx, k)
		if err != nil {
			return stock.Records{}, err
		}
		word, out, err := c.exec(ctx, c.scripts.records, []string{k.meta(), k.buyers(epoch)}, []string{epoch, user})
		if err != nil {
			return stock.Records{}, err
		}
		switch {
		case word == string(stock.Cold):
			return stock.Records{State: stock.Cold}, nil
		case word == "again":
			continue
		case len(out) != 1:
			return stock.Records{}, unavailable("records", errReply)
		}
		return readUser(l, stock.State(word), epoch, &out[0])
	}
	return stock.Records{}, unavailable("records", errMoved)
}

func readUser(l stock.Lane, state stock.State, epoch string, out *rueidis.RedisMessage) (stock.Records, error) {
	r := stock.Records{State: state}
	text, err := out.ToString()
	if err == nil {
		r.Epoch, err = strconv.ParseInt(epoch, 10, 64)
	}
	if err == nil {
		r.Orders, r.CoolUntil, err = readRecords(l.Sale, text)
	}
	if err != nil {
		return stock.Records{}, unavailable("records", err)
	}
	return r, nil
}

// epoch returns the lane's epoch and the token that freezes it, in decimal; "0"
// and "" where there is none.
func (c *Counter) epoch(ctx context.Context, k keys) (epoch, frozen string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.client.Do(ctx, c.client.B().Hmget().Key(k.meta()).Field("epoch", "frozen").Build()).ToArray()
	if err != nil {
		return "", "", unavailable("read", err)
	}
	if len(out) != 2 {
		return "", "", unavailable("read", errReply)
	}
	epoch, errEpoch := wordOr(&out[0], "0")
	frozen, errFrozen := wordOr(&out[1], "")
	if err = errors.Join(errEpoch, errFrozen); err != nil {
		return "", "", unavailable("read", err)
	}
	return epoch, frozen, nil
}

// wordOr returns a word, or another for one that is not there.
func wordOr(m *rueidis.RedisMessage, missing string) (string, error) {
	word, err := m.ToString()
	if rueidis.IsRedisNil(err) {
		return missing, nil
	}
	return word, err
}

// Holders implements stock.Counter. All of it goes over one connection, which ends with
// its process: the cursors of a scan mean nothing to another one, which would pass over
// holders without a word after a fail-over, or where the lane's slot has moved. The
// standing is read before the users, so whoever was recorded under it is among them.
func (c *Counter) Holders(ctx context.Context, l stock.Lane) (stock.Holders, error) {
	conn, giveBack := c.client.Dedicate()
	defer giveBack()
	k := c.keys(l)
	for range moves {
		before, err := c.readOver(ctx, conn, k)
		if err != nil {
			return stock.Holders{}, err
		}
		if before.State == stock.Cold {
			return stock.Holders{}, stock.ErrCold
		}
		h := stock.Holders{Epoch: before.Epoch, Generation: before.Generation, Seq: before.Seq}
		if h.Hashes, err = c.scan(ctx, conn, k.buyers(decimal(before.Epoch))); err != nil {
			return stock.Holders{}, err
		}
		after, err := c.readOver(ctx, conn, k)
		switch {
		case err != nil:
			return stock.Holders{}, err
		case after.Epoch != before.Epoch:
			continue
		case after.Seq < before.Seq: // a primary that has become a replica keeps its connections
			return stock.Holders{}, stock.ErrStale
		}
		return h, nil
	}
	return stock.Holders{}, unavailable("holders", errMoved)
}

// readOver reads the standing of a lane over a connection.
func (c *Counter) readOver(ctx context.Context, conn rueidis.CoreClient, k keys) (stock.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	fields, err := conn.Do(ctx, conn.B().Hgetall().Key(k.meta()).Build()).AsStrMap()
	var s stock.Standing
	if err == nil {
		s, err = readMeta(fields)
	}
	if err != nil {
		return stock.Standing{}, unavailable("read", err)
	}
	return s, nil
}

func (c *Counter) scan(ctx context.Context, conn rueidis.CoreClient, key string) ([]uint64, error) {
	seen := make(map[uint64]struct{})
	var hashes []uint64
	for cursor := uint64(0); ; {
		next, err := c.scanOnce(ctx, conn, key, cursor, func(user string) {
			hash := sale.UserHash(user)
			if _, twice := seen[hash]; !twice {
				seen[hash] = struct{}{}
				hashes = append(hashes, hash)
			}
		})
		if err != nil || next == 0 {
			return hashes, err
		}
		cursor = next
	}
}

func (c *Counter) scanOnce(ctx context.Context, conn rueidis.CoreClient, key string, cursor uint64, each func(user string)) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	page, err := conn.Do(ctx, conn.B().Hscan().Key(key).Cursor(cursor).Count(scanCount).Build()).AsScanEntry()
	if err != nil {
		return 0, unavailable("holders", err)
	}
	for i := 0; i < len(page.Elements); i += 2 { // the others are the records
		each(page.Elements[i])
	}
	return page.Cursor, nil
}

// Read implements stock.Counter.
func (c *Counter) Read(ctx context.Context, l stock.Lane) (stock.Standing, error) {
	out, err := c.ReadAll(ctx, []stock.Lane{l})
	if err != nil {
		return stock.Standing{}, err
	}
	return out[0], nil
}

// ReadAll implements stock.Counter.
func (c *Counter) ReadAll(ctx context.Context, lanes []stock.Lane) ([]stock.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	asked := make(rueidis.Commands, 0, 2*len(lanes))
	for _, l := range lanes { // in this order: a lane that comes to be in between has none of it
		asked = append(asked, c.client.B().Hgetall().Key(c.keys(l).meta()).Build(), c.client.B().XinfoGroups().Key(c.keys(l).tray()).Build())
	}
	answers := c.client.DoMulti(ctx, asked...)
	out := make([]stock.Standing, len(lanes))
	for i := range lanes {
		fields, err := answers[2*i].AsStrMap()
		if err == nil {
			out[i], err = readMeta(fields)
		}
		judged := false
		if err == nil {
			judged, err = hasJudges(&answers[2*i+1])
		}
		if err != nil {
			return nil, unavailable("read", err)
		}
		if !judged {
			out[i] = stock.Standing{State: stock.Cold, Epoch: out[i].Epoch, FrozenBy: out[i].FrozenBy}
		}
	}
	return out, nil
}

// hasJudges reports whether a tray is there, and the group that judges it. A lane that has
// lost either sells nothing that anybody would judge.
func hasJudges(answer *rueidis.RedisResult) (bool, error) {
	groups, err := answer.ToArray()
	if e, ok := rueidis.IsRedisErr(err); ok && strings.Contains(e.Error(), "no such key") {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i := range groups {
		fields, err := groups[i].AsMap()
		if err != nil {
			return false, err
		}
		name := fields["name"]
		if word, err := name.ToString(); err != nil || word == group {
			return true, err
		}
	}
	return false, nil
}

// readMeta reads the fields of meta; none is a cold lane.
func readMeta(fields map[string]string) (stock.Standing, error) {
	if len(fields) == 0 {
		return stock.Standing{State: stock.Cold}, nil
	}
	var errs []error
	number := func(name string) int64 {
		n, err := strconv.ParseInt(fields[name], 10, 64)
		errs = append(errs, err)
		return n
	}
	s := stock.Standing{
		State: stock.Open, Epoch: number("epoch"), Version: number("version"),
		Applied: uint64(number("applied")), Seq: uint64(number("seq")), Generation: uint64(number("gen")), //nolint:gosec // never negative
		Queued: number("queued"), Taken: number("taken"), Returned: number("returned"),
		Offset: time.Duration(number("offset")) * time.Millisecond,
	}
	if _, frozen := fields["frozen"]; frozen {
		s.State, s.FrozenBy = stock.Frozen, number("frozen")
		if _, counted := fields["steps"]; counted { // else a builder of an older version has it
			s.Steps = number("steps")
		}
	}
	for i := range min(number("items"), sale.MaxItems) {
		s.Stock = append(s.Stock, number("s"+decimal(i)))
		s.Left = append(s.Left, number("l"+decimal(i)))
		s.Moved = append(s.Moved, 0)
	}
	errs = append(errs, readMoves(&s, fields))
	return s, errors.Join(errs...)
}

// Clock implements stock.Counter.
func (c *Counter) Clock(ctx context.Context, l stock.Lane) (time.Time, error) {
	_, out, err := c.exec(ctx, c.scripts.clock, []string{c.keys(l).meta()}, nil)
	if err != nil {
		return time.Time{}, err
	}
	if len(out) != 2 {
		return time.Time{}, unavailable("clock", errReply)
	}
	sec, err := out[0].AsInt64()
	if err != nil {
		return time.Time{}, unavailable("clock", err)
	}
	micro, err := out[1].AsInt64()
	if err != nil {
		return time.Time{}, unavailable("clock", err)
	}
	return time.Unix(sec, micro*1000).UTC(), nil
}
