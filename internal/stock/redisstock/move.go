package redisstock

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// Give implements stock.Counter.
func (c *Counter) Give(ctx context.Context, l stock.Lane, t stock.Transfer) (stock.Transfer, error) {
	if err := t.Check(); err != nil {
		return stock.Transfer{}, err
	}
	args := []string{
		decimal(t.Epoch), strconv.Itoa(t.From), strconv.Itoa(t.To), strconv.FormatUint(t.Number, 10), strconv.Itoa(t.Item), decimal(t.Units),
	}
	word, out, err := c.exec(ctx, c.scripts.give, []string{c.keys(l).meta()}, args)
	if err == nil {
		err = standing("give", word)
	}
	if err != nil {
		return stock.Transfer{}, err
	}
	if len(out) != 3 {
		return stock.Transfer{}, unavailable("give", errReply)
	}
	var n [3]int64
	for i := range out {
		if n[i], err = out[i].AsInt64(); err != nil {
			return stock.Transfer{}, unavailable("give", err)
		}
	}
	t.Number, t.Item, t.Units = uint64(n[0]), int(n[1]), n[2] //nolint:gosec // never negative
	return t, nil
}

// Receive implements stock.Counter.
func (c *Counter) Receive(ctx context.Context, l stock.Lane, t stock.Transfer) error {
	if err := t.Check(); err != nil {
		return err
	}
	args := []string{decimal(t.Epoch), strconv.Itoa(t.From), strconv.FormatUint(t.Number, 10), strconv.Itoa(t.Item), decimal(t.Units)}
	word, _, err := c.exec(ctx, c.scripts.receive, []string{c.keys(l).meta()}, args)
	if err != nil {
		return err
	}
	return standing("receive", word)
}

// Want implements stock.Counter.
func (c *Counter) Want(ctx context.Context, l stock.Lane, epoch int64, d time.Duration) error {
	args := []string{decimal(epoch), decimal(d.Milliseconds())}
	word, _, err := c.exec(ctx, c.scripts.want, []string{c.keys(l).meta()}, args)
	if err != nil {
		return err
	}
	return standing("want", word)
}

var moveField = regexp.MustCompile(`^[oix]\d+$`)

// readMoves reads what meta knows of transfers.
func readMoves(s *stock.Standing, fields map[string]string) error {
	var errs []error
	for name, value := range fields {
		if !moveField.MatchString(name) {
			continue
		}
		n, err := strconv.Atoi(name[1:])
		switch name[:1] {
		case "o":
			t, scanErr := readGiven(value)
			err = errors.Join(err, scanErr)
			t.Epoch, t.To = s.Epoch, n
			if s.Given == nil {
				s.Given = make(map[int]stock.Transfer)
			}
			s.Given[n] = t
		case "i":
			number, parseErr := strconv.ParseUint(value, 10, 64)
			err = errors.Join(err, parseErr)
			if s.Received == nil {
				s.Received = make(map[int]uint64)
			}
			s.Received[n] = number
		case "x":
			units, parseErr := strconv.ParseInt(value, 10, 64)
			err = errors.Join(err, parseErr)
			if n < len(s.Moved) {
				s.Moved[n] = units
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

var errGiven = errors.New("a transfer is malformed")

// readGiven reads number, item and units of a transfer.
func readGiven(value string) (t stock.Transfer, err error) {
	words := strings.Split(value, " ")
	if len(words) != 3 {
		return t, errGiven
	}
	var failed [3]error
	t.Number, failed[0] = strconv.ParseUint(words[0], 10, 64)
	t.Item, failed[1] = strconv.Atoi(words[1])
	t.Units, failed[2] = strconv.ParseInt(words[2], 10, 64)
	if err = errors.Join(failed[:]...); err != nil || t.Item < 0 || t.Units < 1 {
		return stock.Transfer{}, errors.Join(errGiven, err)
	}
	return t, nil
}

// maxSalts bounds the search for a salt; each fits with a probability of one in as
// many as there are masters.
const maxSalts = 10_000

// Salts implements stock.Counter: lane i of a sale goes to master (sale + i) of the
// cluster, in the order of their slots. Without a cluster all salts are the first.
func (c *Counter) Salts(ctx context.Context, first stock.Lane, lanes int) ([]uint32, error) {
	salts := slices.Repeat([]uint32{first.Salt}, lanes)
	if lanes < 2 || c.client.Mode() != rueidis.ClientModeCluster {
		return salts, nil
	}
	masters, err := c.masters(ctx)
	if err != nil || len(masters) < 2 {
		return salts, err
	}
	for i := range salts {
		want := masters[(uint64(first.Sale)+uint64(i))%uint64(len(masters))]
		for {
			slot, err := c.slot(ctx, c.keys(stock.Lane{Sale: first.Sale, Index: i, Salt: salts[i]}).meta())
			if err != nil {
				return nil, err
			}
			if want.has(slot) {
				break
			}
			if salts[i]++; salts[i]-first.Salt == maxSalts {
				return nil, unavailable("salts", errNoSalt)
			}
		}
	}
	return salts, nil
}

var errNoSalt = errors.New("no salt leads to one of the masters")

// master is the slots of one master, as pairs of first and last.
type master [][2]int64

func (m master) has(slot int64) bool {
	return slices.ContainsFunc(m, func(r [2]int64) bool { return r[0] <= slot && slot <= r[1] })
}

func (c *Counter) slot(ctx context.Context, key string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	slot, err := c.client.Do(ctx, c.client.B().ClusterKeyslot().Key(key).Build()).AsInt64()
	if err != nil {
		return 0, unavailable("salts", err)
	}
	return slot, nil
}

// masters returns the masters of a cluster in the order of their first slots.
func (c *Counter) masters(ctx context.Context) ([]master, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ranges, err := c.client.Do(ctx, c.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, unavailable("salts", err)
	}
	byID := make(map[string]master)
	for i := range ranges {
		id, r, err := slotRange(&ranges[i])
		if err != nil {
			return nil, unavailable("salts", err)
		}
		byID[id] = append(byID[id], r)
	}
	var out []master
	for _, m := range byID {
		slices.SortFunc(m, func(a, b [2]int64) int { return int(a[0] - b[0]) })
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b master) int { return int(a[0][0] - b[0][0]) })
	return out, nil
}

// slotRange reads first slot, last slot and the id of the master of a range.
func slotRange(m *rueidis.RedisMessage) (id string, r [2]int64, err error) {
	parts, err := m.ToArray()
	if err != nil || len(parts) < 3 {
		return "", r, errors.Join(errReply, err)
	}
	for i := range r {
		if r[i], err = parts[i].AsInt64(); err != nil {
			return "", r, err
		}
	}
	node, err := parts[2].ToArray()
	if err != nil || len(node) < 3 {
		return "", r, errors.Join(errReply, err)
	}
	id, err = node[2].ToString()
	return id, r, err
}
