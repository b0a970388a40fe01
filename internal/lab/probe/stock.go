package probe

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// stock is the stock of one sale as the ledger and the lanes of the fast counter tell
// it, read together. Their difference, the drift, is what the lanes have let go and the
// judge has not yet sold: it grows while slips queue and is 0 when all is judged. A
// drift that stays is a fault, which an audit names.
type stock struct {
	*session
	slug    string
	prefix  string
	counter rueidis.Client // nil: only the ledger
}

func newStock(o *Options, config *pgx.ConnConfig, counter rueidis.Client) (*stock, error) {
	session, err := newSession(config)
	return &stock{session: session, slug: o.Sale, prefix: cmp.Or(o.Prefix, "doorbuster"), counter: counter}, err
}

func (s *stock) read(ctx context.Context) (reading, error) {
	if _, err := s.connect(ctx); err != nil {
		return reading{}, err
	}
	var number, put, sold int64
	var salts []byte
	var fast bool
	found, remark, err := s.one(ctx, "stock", []any{s.slug}, &number, &salts, &put, &sold, &fast)
	switch {
	case err != nil:
		return reading{}, err
	case remark != "":
		return reading{remarks: []string{remark}}, nil
	case !found:
		return reading{}, nil // the sale is still to come
	}
	left := put - sold
	now := reading{figures: []figure{
		{name: "sold", unit: "1", value: float64(sold)},
		{name: "left in the ledger", unit: "1", value: float64(left)},
	}}
	if s.counter == nil || len(salts) == 0 {
		return now, nil
	}
	lanes, there, err := s.lanes(ctx, number, salts)
	if err != nil {
		return reading{}, err
	}
	switch {
	case there:
		now.figures = append(now.figures,
			figure{name: "left in the lanes", unit: "1", value: float64(lanes.left)},
			figure{name: "queued slips", unit: "1", value: float64(lanes.queued)},
			figure{name: "drift", unit: "1", value: float64(left - lanes.left)},
		)
	case fast:
		now.remarks = []string{"is sold through lanes that are not in this Redis under the prefix " + s.prefix}
	}
	return now, nil
}

// held is what lanes hold.
type held struct{ left, queued int64 }

// lanes reads all lanes of a sale. It is false if one of them is not there: the sale is
// not on the fast path.
func (s *stock) lanes(ctx context.Context, number int64, salts []byte) (held, bool, error) {
	reads := make(rueidis.Commands, 0, len(salts)/saltSize)
	for i := range cap(reads) {
		salt := binary.BigEndian.Uint32(salts[i*saltSize:])
		// As docs/redis.md describes it.
		key := fmt.Sprintf("{%s:%d.%d.%d}:meta", s.prefix, number, i, salt)
		reads = append(reads, s.counter.B().Hgetall().Key(key).Build())
	}
	var sum held
	for _, said := range s.counter.DoMulti(ctx, reads...) {
		meta, err := said.AsStrMap()
		if err != nil {
			return sum, false, redisconn.Trouble("HGETALL", err)
		}
		if meta["epoch"] == "" || meta["epoch"] == "0" {
			return sum, false, nil
		}
		sum.queued += whole(meta["queued"])
		for name, value := range meta {
			// It is below 0 where the ledger went ahead of the lane.
			if index, ok := strings.CutPrefix(name, "l"); ok && isNumber(index) {
				sum.left += whole(value)
			}
		}
	}
	return sum, true, nil
}

// saltSize is the length of one lane's salt in the ledger.
const saltSize = 4

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// whole reads a number; what is none is 0.
func whole(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (s *stock) refusal(err error) *sale.Error {
	return unreachable("the stock of "+strconv.Quote(s.slug)+" cannot be read", "check that PostgreSQL and Redis run and that their URLs are right", err)
}
