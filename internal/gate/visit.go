package gate

import (
	"net/netip"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
)

// Visit is one attempt at the gate.
type Visit struct {
	User string
	// IP is the client's address, IPv4-mapped forms as IPv4; the zero address is
	// unknown and counted nowhere.
	IP netip.Addr
	// Device is what the gate has named the client's device; zero if it has not.
	Device DeviceID
	// Shop says that a shop acts on behalf of the user: it is asked for no proof, and
	// IP is the buyer's if the shop has told.
	Shop bool
	// Inside says that the connection itself comes from the house, see Keeper.Inside, and
	// that nobody claims another address. Such a visit meets lists and passes only.
	Inside bool
	// Load is how full the house is, from 0 to 1: the fuller, the harder challenges are.
	Load float64
	// Pass is the pass that the user brings, as text; empty is none.
	Pass string
	// Path is the hidden purchase path that the attempt came by; empty is none.
	Path string

	sale    sale.Number
	slug    string
	stock   int64
	key     sale.Key
	proven  bool // by a sound pass that was given out for a proof
	free    bool // past every limit and proof
	harder  int  // how much harder a list makes the challenge
	refusal *RefusalError
	rate    limit.Rate // the user's limit that is nearest to its end, and how it stands
	state   limit.State
}

// Standing returns the user's limit that is nearest to its end, and how it stands;
// ok is false if none was asked.
func (v *Visit) Standing() (r limit.Rate, s limit.State, ok bool) {
	return v.rate, v.state, v.state.Rate != ""
}

// At says in which sale the attempt is.
func (v *Visit) At(s *sale.Sale) {
	v.sale, v.slug, v.key, v.stock = s.Number, s.Slug, s.Key, 0
	for i := range s.Items {
		v.stock += s.Items[i].Stock
	}
}
