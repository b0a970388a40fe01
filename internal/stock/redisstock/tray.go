package redisstock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// Claim implements stock.Counter. With a wait it has a connection to itself.
func (c *Counter) Claim(ctx context.Context, l stock.Lane, claim stock.Claim) ([]stock.Entry, error) {
	wait := max(0, claim.Wait)
	ctx, cancel := context.WithTimeout(ctx, c.timeout+wait)
	defer cancel()
	tray := c.keys(l).tray()
	head := c.client.B().Xreadgroup().Group(group, claim.Consumer).Count(int64(max(1, claim.Max)))
	var cmd rueidis.Completed
	if ms := wait.Milliseconds(); ms > 0 { // 0 would wait for ever
		cmd = head.Block(ms).Streams().Key(tray).Id(">").Build()
	} else {
		cmd = head.Streams().Key(tray).Id(">").Build()
	}
	streams, err := c.client.Do(ctx, cmd).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		if e, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "UNBLOCKED") {
			return nil, nil // the tray left this server: gone, or moved to another, which the next call finds out
		}
		return nil, trayError("claim", err)
	}
	return entries(streams[tray]), nil
}

// trayError tells a tray that is not there from a server that does not answer.
func trayError(name string, err error) error {
	if e, ok := rueidis.IsRedisErr(err); ok {
		if strings.HasPrefix(e.Error(), "NOGROUP") {
			return stock.ErrCold
		}
	}
	return unavailable(name, err)
}

func entries(in []rueidis.XRangeEntry) []stock.Entry {
	if len(in) == 0 {
		return nil
	}
	out := make([]stock.Entry, len(in))
	for i := range in {
		out[i] = stock.Entry{ID: in[i].ID, Fields: in[i].FieldValues}
	}
	return out
}

// TakeOver implements stock.Counter.
func (c *Counter) TakeOver(ctx context.Context, l stock.Lane, consumer string, idle time.Duration, limit int) ([]stock.Entry, error) {
	limit = max(1, limit)
	var out []stock.Entry
	for cursor := "0-0"; len(out) < limit; {
		page, err := c.autoClaim(ctx, c.keys(l).tray(), takeOver{consumer: consumer, idle: idle, cursor: cursor, limit: limit - len(out)})
		if err != nil {
			if len(out) > 0 { // those are this consumer's now
				return out, nil
			}
			return nil, trayError("take over", err)
		}
		out = append(out, page.found...)
		if cursor = page.next; cursor == "0-0" {
			break
		}
	}
	return out, nil
}

type takeOver struct {
	consumer string
	idle     time.Duration
	cursor   string
	limit    int
}

type takenOver struct {
	found []stock.Entry
	next  string
}

func (c *Counter) autoClaim(ctx context.Context, tray string, t takeOver) (takenOver, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := c.client.B().Xautoclaim().Key(tray).Group(group).Consumer(t.consumer).
		MinIdleTime(decimal(max(0, t.idle.Milliseconds()))).Start(t.cursor).Count(int64(t.limit)).Build()
	parts, err := c.client.Do(ctx, cmd).ToArray()
	if err != nil {
		return takenOver{}, err
	}
	if len(parts) < 3 {
		return takenOver{}, errReply
	}
	var out takenOver
	if out.next, err = parts[0].ToString(); err != nil {
		return takenOver{}, err
	}
	claimed, err := parts[1].AsXRange()
	if err != nil {
		return takenOver{}, err
	}
	gone, err := parts[2].AsStrSlice()
	if err != nil {
		return takenOver{}, err
	}
	out.found = entries(claimed)
	for _, id := range gone {
		out.found = append(out.found, stock.Entry{ID: id})
	}
	slices.SortFunc(out.found, func(a, b stock.Entry) int { return compareIDs(a.ID, b.ID) })
	return out, nil
}

// compareIDs orders the ids of entries as the stream does.
func compareIDs(a, b string) int {
	am, as, _ := strings.Cut(a, "-")
	bm, bs, _ := strings.Cut(b, "-")
	return cmp.Or(compareNumbers(am, bm), compareNumbers(as, bs))
}

func compareNumbers(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// Look implements stock.Counter.
func (c *Counter) Look(ctx context.Context, l stock.Lane, after string, limit int) ([]stock.Entry, error) {
	from := "-"
	if after != "" {
		if err := checkID(after); err != nil {
			return nil, err
		}
		from = "(" + after
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := c.client.B().Xrange().Key(c.keys(l).tray()).Start(from).End("+").Count(int64(max(1, limit))).Build()
	out, err := c.client.Do(ctx, cmd).AsXRange()
	if err != nil {
		return nil, unavailable("look", err)
	}
	return entries(out), nil
}

func checkID(id string) error {
	ms, seq, _ := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	_, errSeq := strconv.ParseUint(seq, 10, 64)
	if err = errors.Join(err, errSeq); err != nil {
		return fmt.Errorf("%w: entry %q", stock.ErrInvalid, id)
	}
	return nil
}

// donePerCall is how many entries one script removes.
const donePerCall = 256

// Done implements stock.Counter. A long list goes in parts.
func (c *Counter) Done(ctx context.Context, l stock.Lane, done []stock.Entry) error {
	for i := range done {
		if err := checkID(done[i].ID); err != nil {
			return err
		}
	}
	k := c.keys(l)
	for part := range slices.Chunk(done, donePerCall) {
		args := make([]string, 0, 2*len(part))
		for i := range part {
			args = append(args, part[i].ID, decimal(stock.CountSlips(&part[i])))
		}
		word, _, err := c.exec(ctx, c.scripts.done, []string{k.meta(), k.tray()}, args)
		if err == nil {
			err = standing("done", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Retire implements stock.Counter.
func (c *Counter) Retire(ctx context.Context, l stock.Lane, consumer string) error {
	word, _, err := c.exec(ctx, c.scripts.retire, []string{c.keys(l).tray()}, []string{consumer})
	if err != nil {
		return err
	}
	return standing("retire", word)
}
