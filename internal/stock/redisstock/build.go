package redisstock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// Freeze implements stock.Counter.
func (c *Counter) Freeze(ctx context.Context, l stock.Lane, token int64) (stock.Standing, error) {
	if token < 1 {
		return stock.Standing{}, fmt.Errorf("%w: token %d", stock.ErrInvalid, token)
	}
	k := c.keys(l)
	for range moves {
		_, frozen, err := c.epoch(ctx, k)
		if err != nil {
			return stock.Standing{}, err
		}
		unfinished := k.buyers(frozen)
		word, out, err := c.exec(ctx, c.scripts.freeze, []string{k.meta(), k.tray(), unfinished}, []string{decimal(token), frozen})
		if err != nil {
			return stock.Standing{}, err
		}
		if word == "again" {
			continue
		}
		if err = standing("freeze", word); err != nil {
			return stock.Standing{}, err
		}
		fields, err := pairs(out)
		if err != nil {
			return stock.Standing{}, unavailable("freeze", err)
		}
		s, err := readMeta(fields)
		if err != nil {
			return stock.Standing{}, unavailable("freeze", err)
		}
		return s, nil
	}
	return stock.Standing{}, unavailable("freeze", errMoved)
}

func pairs(out []rueidis.RedisMessage) (map[string]string, error) {
	fields := make(map[string]string, len(out)/2)
	for i := 0; i+1 < len(out); i += 2 {
		name, err := out[i].ToString()
		if err != nil {
			return nil, err
		}
		if fields[name], err = out[i+1].ToString(); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// Load implements stock.Counter.
func (c *Counter) Load(ctx context.Context, l stock.Lane, token int64, acts []stock.Act) error {
	if err := stock.CheckLoad(l, acts); err != nil {
		return err
	}
	k, epoch := c.keys(l), decimal(token)
	blob, users := packActs(acts)
	args := append([]string{epoch, blob}, users...)
	word, _, err := c.exec(ctx, c.scripts.load, []string{k.meta(), k.buyers(epoch)}, args)
	if err != nil {
		return err
	}
	return standing("load", word)
}

// Set implements stock.Counter.
func (c *Counter) Set(ctx context.Context, l stock.Lane, token int64, s stock.Setting) error {
	if err := s.Check(); err != nil {
		return err
	}
	k := c.keys(l)
	args := append([]string{decimal(token)}, ruleArgs(&s.Rules)...)
	var sold int64
	for i, left := range s.Left {
		sold += s.Stock[i] - left
	}
	args = append(args, strconv.FormatUint(s.Applied, 10), decimal(s.MaxQueued), decimal(s.Offset.Milliseconds()), decimal(sold))
	for i, left := range s.Left {
		args = append(args, decimal(s.Stock[i]), decimal(left))
	}
	word, _, err := c.exec(ctx, c.scripts.set, []string{k.meta(), k.tray()}, args)
	if err != nil {
		return err
	}
	return standing("set", word)
}

// Unfreeze implements stock.Counter.
func (c *Counter) Unfreeze(ctx context.Context, l stock.Lane, token int64) error {
	k, next := c.keys(l), decimal(token)
	return c.moving(ctx, k, "unfreeze", func(epoch string) (string, error) {
		keys := []string{k.meta(), k.buyers(next), k.buyers(epoch)}
		word, _, err := c.exec(ctx, c.scripts.unfreeze, keys, []string{next, epoch})
		return word, err
	})
}

// Clear implements stock.Counter.
func (c *Counter) Clear(ctx context.Context, l stock.Lane, token int64) error {
	k, next := c.keys(l), decimal(token)
	return c.moving(ctx, k, "clear", func(epoch string) (string, error) {
		keys := []string{k.meta(), k.tray(), k.buyers(next), k.buyers(epoch)}
		word, _, err := c.exec(ctx, c.scripts.erase, keys, []string{next, epoch})
		return word, err
	})
}

// moving runs a script whose keys depend on the lane's epoch, again if the lane
// has moved in between.
func (c *Counter) moving(ctx context.Context, k keys, name string, run func(epoch string) (string, error)) error {
	for range moves {
		epoch, _, err := c.epoch(ctx, k)
		if err != nil {
			return err
		}
		word, err := run(epoch)
		if err != nil {
			return err
		}
		if word != "again" {
			return standing(name, word)
		}
	}
	return unavailable(name, errMoved)
}
