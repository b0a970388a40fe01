package redisstock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// maxRow is how many acts one row of the journal may stand for; they cannot be
// taken apart.
const maxRow = 1000

// Apply implements stock.Counter. A long stretch goes in parts of stock.MaxActs, each
// of which ends at the number of a row.
func (c *Counter) Apply(ctx context.Context, l stock.Lane, a stock.Acts) (uint64, error) {
	if err := a.Check(l); err != nil {
		return 0, err
	}
	for {
		part := a
		part.Acts, a.Acts = cutRows(a.Acts)
		if len(part.Acts) > maxRow {
			return 0, fmt.Errorf("%w: %d acts of one row", stock.ErrInvalid, len(part.Acts))
		}
		if len(a.Acts) > 0 {
			part.To = part.Acts[len(part.Acts)-1].Seq
		}
		applied, err := c.act(ctx, l, strconv.FormatUint(part.From, 10), part)
		if err != nil || len(a.Acts) == 0 || applied != part.To {
			return applied, err
		}
		a.From = part.To
	}
}

// cutRows returns the first acts, as few as hold whole rows and fill a call, and
// the rest.
func cutRows(acts []stock.Act) (first, rest []stock.Act) {
	end := min(stock.MaxActs, len(acts))
	for end > 0 && end < len(acts) && acts[end].Seq == acts[end-1].Seq {
		end++
	}
	return acts[:end], acts[end:]
}

// Return implements stock.Counter.
func (c *Counter) Return(ctx context.Context, l stock.Lane, epoch int64, acts []stock.Act) error {
	for i := range acts {
		if acts[i].Kind != stock.ActReturn {
			return fmt.Errorf("%w: act %d is %q, only returns go ahead of the journal", stock.ErrInvalid, i, acts[i].Kind)
		}
	}
	if err := stock.CheckActs(l, acts); err != nil {
		return err
	}
	for {
		end := min(stock.MaxActs, len(acts))
		if _, err := c.act(ctx, l, "", stock.Acts{Epoch: epoch, Acts: acts[:end]}); err != nil {
			return err
		}
		if acts = acts[end:]; len(acts) == 0 {
			return nil
		}
	}
}

// act runs acts.lua; from is empty ahead of the journal.
func (c *Counter) act(ctx context.Context, l stock.Lane, from string, a stock.Acts) (uint64, error) {
	k, epoch := c.keys(l), decimal(a.Epoch)
	blob, users := packActs(a.Acts)
	args := append([]string{epoch, from, strconv.FormatUint(a.To, 10), blob}, users...)
	word, out, err := c.exec(ctx, c.scripts.acts, []string{k.meta(), k.buyers(epoch)}, args)
	if err == nil {
		err = standing("apply", word)
	}
	if err != nil {
		return 0, err
	}
	n, err := number("apply", out)
	return uint64(n), err //nolint:gosec // never negative
}

func packActs(acts []stock.Act) (blob string, users []string) {
	b := make([]byte, 0, len(acts)*(recordSize+1+timeSize))
	users = make([]string, len(acts))
	for i := range acts {
		b = appendAct(b, &acts[i])
		users[i] = acts[i].User
	}
	return string(b), users
}

// number reads the one number of a script's reply.
func number(name string, out []rueidis.RedisMessage) (int64, error) {
	if len(out) != 1 {
		return 0, unavailable(name, errReply)
	}
	n, err := out[0].AsInt64()
	if err != nil {
		return 0, unavailable(name, err)
	}
	return n, nil
}

// Sync implements stock.Counter.
func (c *Counter) Sync(ctx context.Context, l stock.Lane, epoch int64, r stock.Rules) (int64, error) {
	args := append([]string{decimal(epoch)}, ruleArgs(&r)...)
	for _, total := range r.Stock {
		args = append(args, decimal(total))
	}
	word, out, err := c.exec(ctx, c.scripts.sync, []string{c.keys(l).meta()}, args)
	if err == nil {
		err = standing("sync", word)
	}
	if err != nil {
		return 0, err
	}
	return number("sync", out)
}

// ruleArgs returns version, state, starts, ends, limit and terms.
func ruleArgs(r *stock.Rules) []string {
	return []string{
		decimal(r.Version), string(r.State), decimal(r.StartsAt.UnixMilli()), decimal(r.EndsAt.UnixMilli()),
		decimal(r.PerUserLimit), decimal(r.Terms),
	}
}

// SetOffset implements stock.Counter.
func (c *Counter) SetOffset(ctx context.Context, l stock.Lane, epoch int64, offset time.Duration) error {
	args := []string{decimal(epoch), decimal(offset.Milliseconds())}
	word, _, err := c.exec(ctx, c.scripts.offset, []string{c.keys(l).meta()}, args)
	if err != nil {
		return err
	}
	return standing("offset", word)
}
