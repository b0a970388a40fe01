package cases_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// landed waits until everything that the ledger has done to a sale has reached its
// lane, and the counter there is the recount. The embedded default has none.
func (s *site) landed(slug string) {
	s.t.Helper()
	if s.fleet == nil {
		return
	}
	var last string
	defer func() {
		if last != "" {
			s.t.Logf("sale %s: %s", slug, last)
		}
	}()
	until(s.t, "the lane of "+slug+" counts as the ledger does", func() bool {
		last = s.fleet.uneven(slug)
		return last == ""
	})
}

// uneven says how the lane of a sale differs from the ledger; empty if it does not.
func (f *fleet) uneven(slug string) string {
	f.t.Helper()
	s := f.sale(slug)
	if s.State == "closed" {
		return "" // its lane is cleared away soon
	}
	if s.Path != "fast" {
		return "the sale is on the " + s.Path + " path"
	}
	meta, err := f.Redis.Do(f.t.Context(), "HGETALL", f.lane(s, "meta")).AsStrMap()
	require.NoError(f.t, err)
	if frozen := meta["frozen"]; frozen != "0" && frozen != "" {
		return "the lane is frozen by " + frozen
	}
	if n := f.Redis.Must("XLEN", f.lane(s, "tray")); n != "0" || meta["queued"] != "0" {
		return fmt.Sprintf("%s entries and %s slips wait", n, meta["queued"])
	}
	for i, it := range s.Items {
		stock, left := meta[name("s", i)], meta[name("l", i)]
		if stock != name("", int(it.Stock)) || left != name("", int(it.Stock-it.Sold)) {
			return fmt.Sprintf("of %s %s of %s are left in the lane, %d of %d in the ledger", it.SKU, left, stock, it.Left, it.Stock)
		}
	}
	recorded, live := f.recorded(s), f.live(slug)
	if !maps.Equal(recorded, live) {
		return fmt.Sprintf("the lane has recorded %v, live are %v", recorded, live)
	}
	return ""
}

// recorded returns the units of every record of a lane that stands for any, by buyer
// and order.
func (f *fleet) recorded(s client.AdminSale) map[string]int64 {
	f.t.Helper()
	const size, number, quantity = 25, 12, 13 // see docs/redis.md
	out := make(map[string]int64)
	buyers, err := f.Redis.Do(f.t.Context(), "HGETALL", f.lane(s, "buyers:"+strconv.FormatInt(s.Epoch, 10))).AsStrMap()
	require.NoError(f.t, err)
	for user, records := range buyers {
		require.Zero(f.t, len(records)%size, "records of %s", user)
		for at := 0; at < len(records); at += size {
			r := []byte(records[at : at+size])
			if n := binary.BigEndian.Uint32(r[quantity-1:]) & 0xffffff; n > 0 {
				out[user+" "+hex.EncodeToString(r[:number])] = int64(n)
			}
		}
	}
	return out
}

// live returns the same of the ledger's orders.
func (f *fleet) live(slug string) map[string]int64 {
	f.t.Helper()
	out := make(map[string]int64)
	for _, o := range f.orders(slug) {
		if o.State != client.StateReserved && o.State != client.StatePaid {
			continue
		}
		id, err := sale.ParseOrderID(o.ID)
		require.NoError(f.t, err)
		out[o.User+" "+hex.EncodeToString(id[4:])] = o.Quantity
	}
	return out
}
