package ledger_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func row() ledger.Entry {
	return ledger.Entry{
		Sale: 0x01020304, Seq: 0x1112131415161718, At: time.UnixMilli(0x010203040506), Kind: "order.paid",
		Order: sale.OrderID{0: 0xA0, 15: 0xAF}, Body: []byte(`{"a":1}`),
	}
}

// The preimage is spelled out byte by byte here, as an outsider would from the
// documentation.
func TestChainHash(t *testing.T) {
	t.Parallel()
	e := row()
	prev := sha256.Sum256([]byte("the row before"))
	preimage := "646f6f72627573746572206a6f75726e616c20310a" + // "doorbuster journal 1\n"
		hex.EncodeToString(prev[:]) +
		"01020304" + "1112131415161718" + "0000010203040506" +
		"0000000a" + "6f726465722e70616964" + // order.paid
		"a00000000000000000000000000000af" +
		"00000007" + "7b2261223a317d"
	raw, err := hex.DecodeString(preimage)
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(raw), e.ChainHash(prev))

	e.Hash = [32]byte{1}
	require.Equal(t, sha256.Sum256(raw), e.ChainHash(prev), "a row's own hash is no part of it")
	e.At = e.At.Add(999 * time.Microsecond).In(time.FixedZone("", 3600))
	require.Equal(t, sha256.Sum256(raw), e.ChainHash(prev), "neither zone nor fractions of a millisecond count")
}

func TestChainHashCoversEverything(t *testing.T) {
	t.Parallel()
	base := row()
	seen := map[[32]byte]string{base.ChainHash([32]byte{}): "the row itself", base.ChainHash([32]byte{31: 1}): "prev"}
	for name, edit := range map[string]func(*ledger.Entry){
		"sale":               func(e *ledger.Entry) { e.Sale++ },
		"seq":                func(e *ledger.Entry) { e.Seq++ },
		"at":                 func(e *ledger.Entry) { e.At = e.At.Add(time.Millisecond) },
		"kind":               func(e *ledger.Entry) { e.Kind = "order.paie" },
		"order":              func(e *ledger.Entry) { e.Order[7] = 1 },
		"body":               func(e *ledger.Entry) { e.Body = []byte(`{"a":2}`) },
		"body shorter":       func(e *ledger.Entry) { e.Body = e.Body[:6] },
		"body empty":         func(e *ledger.Entry) { e.Body = nil },
		"kind eats the next": func(e *ledger.Entry) { e.Kind += ledger.Kind(e.Order[:1]) },
	} {
		e := row()
		edit(&e)
		h := e.ChainHash([32]byte{})
		require.NotContains(t, seen, h, "%s", name)
		seen[h] = name
	}
}

func TestMillis(t *testing.T) {
	t.Parallel()
	require.Zero(t, ledger.Millis(time.Time{}))
	require.True(t, ledger.FromMillis(0).IsZero())
	at := time.Date(2026, 11, 27, 10, 0, 0, 999_999_999, time.FixedZone("", -7200))
	back := ledger.FromMillis(ledger.Millis(at))
	require.Equal(t, time.Date(2026, 11, 27, 12, 0, 0, 999_000_000, time.UTC), back)
	require.Equal(t, time.UTC, back.Location())
	for _, ms := range []int64{1, -1, 1_700_000_000_000, 253_402_300_799_999} {
		require.Equal(t, ms, ledger.Millis(ledger.FromMillis(ms)))
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, is := range map[ledger.Kind][2]bool{
		ledger.OrderKind(sale.Paid):         {true, false},
		ledger.SaleKind(sale.ActionRestock): {false, true},
		ledger.KindRefundRequired:           {false, false},
		ledger.KindRefundDone:               {false, false},
		"orders.paid":                       {false, false},
		ledger.SaleKind(sale.ActionCreate):  {false, true},
	} {
		require.Equal(t, is[0], kind.OfOrder(), "%s", kind)
		require.Equal(t, is[1], kind.OfSale(), "%s", kind)
	}
	for _, s := range sale.OrderStates() {
		ends := s != sale.Queued && s != sale.Reserved && s != sale.Paid
		require.Equal(t, ends || s == sale.Queued, ledger.OrderKind(s).ForLane(), "%s", s) // no row enters queued
	}
	for kind, is := range map[ledger.Kind]bool{
		ledger.SaleKind(sale.ActionUpdate): true, ledger.SaleKind(sale.ActionReroute): true,
		ledger.KindLaneReturn: true, ledger.KindLaneAdopt: true, ledger.KindRefundRequired: false, ledger.KindRefundDone: false,
	} {
		require.Equal(t, is, kind.ForLane(), "%s", kind)
	}
	require.False(t, ledger.KindLaneReturn.OfOrder() || ledger.KindLaneReturn.OfSale())
	require.EqualValues(t, "order.reserved", ledger.OrderKind(sale.Reserved))
	require.EqualValues(t, "sale.published", ledger.SaleKind(sale.ActionPublish))
}
