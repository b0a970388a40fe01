package sale

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counting is the key 00 01 02 … 1f.
func counting() Key {
	var k Key
	for i := range k {
		k[i] = byte(i)
	}
	return k
}

// hmacSHA256 is RFC 2104, written out here so that the golden ids below do not
// depend on the code they test.
func hmacSHA256(key, message []byte) []byte {
	pad := func(with byte) []byte {
		block := make([]byte, 0, 64+len(message))
		for i := range 64 {
			b := with
			if i < len(key) {
				b ^= key[i]
			}
			block = append(block, b)
		}
		return block
	}
	first := sha256.Sum256(append(pad(0x36), message...))
	second := sha256.Sum256(append(pad(0x5c), first[:]...))
	return second[:]
}

func derive(k Key, number uint32, user, key string) string {
	message := fmt.Appendf(nil, "%s%s%s%s", be32(len(user)), user, be32(len(key)), key)
	raw := append([]byte(be32(int(number))), hmacSHA256(k[:], message)[:12]...)
	return "ord_" + strings.ToLower(strings.TrimRight(base32.StdEncoding.EncodeToString(raw), "="))
}

func be32(n int) string {
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) //nolint:gosec // big-endian bytes are meant
}

func TestHMACOfTheTest(t *testing.T) {
	t.Parallel()
	// RFC 4231, test case 2.
	require.Equal(t, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		hex.EncodeToString(hmacSHA256([]byte("Jefe"), []byte("what do ya want for nothing?"))))
}

// The golden ids were computed outside of Go (Python's hmac and base64). They
// must never change: ids that buyers hold are derived anew after each restart.
func TestDeriveOrderIDGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number    Number
		user, key string
		want      string
	}{
		{7, "ann", "k", "ord_aaaaab2o64kta5fdp2ir7mujsi"},
		{1, "ann", "k", "ord_aaaaaako64kta5fdp2ir7mujsi"},
		{4294967295, "ann", "k", "ord_7777772o64kta5fdp2ir7mujsi"},
		{7, "Ann", "k", "ord_aaaaaby2wqqlmsxushorxew3aa"},
		{7, "用户", "6f1ed002-ab5e-4b0e-9a8c-0a7f7a6f3a11", "ord_aaaaabzfh2sicrchf423dvhisi"},
		{7, strings.Repeat("u", 128), strings.Repeat("k", 128), "ord_aaaaab6d6jrv7qa56mamsc7anm"},
	} {
		id := DeriveOrderID(counting(), c.number, c.user, c.key)
		require.Equal(t, c.want, id.String(), "%d %q %q", c.number, c.user, c.key)
		require.Equal(t, derive(counting(), uint32(c.number), c.user, c.key), id.String())
		require.Equal(t, c.number, id.Sale())
		s := Sale{Number: c.number, Key: counting()}
		require.Equal(t, id, s.OrderID(c.user, c.key))
	}
}

func TestReplacementIDGolden(t *testing.T) {
	t.Parallel()
	old := DeriveOrderID(counting(), 7, "ann", "k")
	heir := ReplacementID(counting(), "ann", old)
	require.Equal(t, "ord_aaaaabywekmkuusavry6gmiaky", heir.String())
	require.Equal(t, derive(counting(), 7, "ann", "\x00replaces:"+string(old[:])), heir.String())
	require.Equal(t, old.Sale(), heir.Sale())
	require.Error(t, CheckIdempotencyKey("\x00replaces:"+string(old[:])), "no click can have this id")
	require.NotEqual(t, heir, ReplacementID(counting(), "ann", heir))
	require.NotEqual(t, heir, ReplacementID(counting(), "bob", old))
}

// Whatever differs in a single byte is another order, and no part can be moved
// from the user to the key.
func TestDeriveOrderIDSeparates(t *testing.T) {
	t.Parallel()
	seen := map[OrderID]string{}
	for _, c := range [][2]string{
		{"ann", "k"},
		{"Ann", "k"},
		{"ANN", "k"},
		{"ann ", "k"},
		{"ann", "K"},
		{"an", "nk"},
		{"annk", ""},
		{"", "annk"},
		{"ａｎｎ", "k"},
		{"e\u0301", "k"},
		{"\u00e9", "k"},
		{"a\u0430nn", "k"},
		{"ann\u200b", "k"},
		{"a\x00\x00\x00\x01k", ""},
		{"a", "\x00\x00\x00\x01k"},
	} {
		id := DeriveOrderID(counting(), 7, c[0], c[1])
		require.NotContains(t, seen, id, "%q", c)
		seen[id] = c[0] + "|" + c[1]
	}
	require.NotEqual(t, DeriveOrderID(counting(), 7, "ann", "k"), DeriveOrderID(counting(), 8, "ann", "k"))
	other := counting()
	other[31]++
	require.NotEqual(t, DeriveOrderID(counting(), 7, "ann", "k"), DeriveOrderID(other, 7, "ann", "k"))
}

func TestKeyIsSecret(t *testing.T) {
	t.Parallel()
	k := counting()
	s := Sale{Key: k}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, shown := range []string{fmt.Sprintf(format, k), fmt.Sprintf(format, s), fmt.Sprintf(format, &s)} {
			require.Contains(t, shown, "[secret]", format)
			require.NotContains(t, shown, "0 1 2 3")
			require.NotContains(t, shown, "0x1, 0x2")
		}
	}
	a, b := NewKey(), NewKey()
	require.NotEqual(t, a, b)
	require.NotZero(t, a)
}

func TestOrderIDText(t *testing.T) {
	t.Parallel()
	id := OrderID{0: 0xff, 5: 0x12, 15: 0x03}
	back, err := ParseOrderID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, back)

	var holder struct {
		A, B OrderID
	}
	holder.A = id
	raw, err := json.Marshal(holder)
	require.NoError(t, err)
	require.Equal(t, `{"A":"`+id.String()+`","B":""}`, string(raw))
	holder.A, holder.B = OrderID{}, id
	require.NoError(t, json.Unmarshal(raw, &holder))
	require.Equal(t, id, holder.A)
	require.True(t, holder.B.IsZero())
	require.Error(t, json.Unmarshal([]byte(`{"A":"ord_x"}`), &holder))
	require.Equal(t, id, holder.A, "a text that cannot be read changes nothing")

	good := id.String()
	for _, text := range []string{
		"", "ord_", good[4:], "ORD_" + good[4:], strings.ToUpper(good), good + "a", good[:29], " " + good, good + " ", good + "======",
		"rfd_" + good[4:], "ord_" + strings.Repeat("a", 26), good[:29] + "b", good[:29] + "\n", good[:10] + "\r" + good[11:],
		good[:10] + "1" + good[11:], good[:10] + "8" + good[11:], good[:10] + "=" + good[11:], good[:10] + "é" + good[12:],
	} {
		_, err := ParseOrderID(text)
		require.Equal(t, OrderNotFound(), err, "%q", text)
	}
}

// FuzzParseOrderID: exactly one text stands for each id, whatever is tried.
func FuzzParseOrderID(f *testing.F) {
	f.Add(DeriveOrderID(counting(), 7, "ann", "k").String())
	f.Add("ord_" + strings.Repeat("7", 26))
	f.Add("ord_aaaaaaaaaaaaaaaaaaaaaaaaab")
	f.Add("ord_" + strings.Repeat("A", 26))
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseOrderID(text)
		if err != nil {
			require.Equal(t, CodeOrderNotFound, CodeOf(err))
			require.True(t, id.IsZero())
			return
		}
		require.False(t, id.IsZero())
		require.Equal(t, text, id.String())
		var back OrderID
		require.NoError(t, back.UnmarshalText([]byte(text)))
		require.Equal(t, id, back)
	})
}

// FuzzOrderIDText: each id has a text, and it leads back.
func FuzzOrderIDText(f *testing.F) {
	f.Add(uint64(0), uint64(1))
	f.Add(^uint64(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, high, low uint64) {
		var id OrderID
		for i := range 8 {
			id[i], id[8+i] = byte(high>>(8*i)), byte(low>>(8*i)) //nolint:gosec // bytes are meant
		}
		back, err := ParseOrderID(id.String())
		if id.IsZero() {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, id, back)
		require.Len(t, id.String(), 30)
	})
}

// FuzzDeriveOrderID compares the derivation with the one written out above.
func FuzzDeriveOrderID(f *testing.F) {
	f.Add(uint32(1), "ann", "k")
	f.Add(^uint32(0), "", "")
	f.Fuzz(func(t *testing.T, number uint32, user, key string) {
		require.Equal(t, derive(counting(), number, user, key), DeriveOrderID(counting(), Number(number), user, key).String())
	})
}

func TestRefundID(t *testing.T) {
	t.Parallel()
	id := DeriveRefundID("pay-1")
	require.Equal(t, "rfd_dvjqci7sji7ypk5npjirkhuyhm", id.String())
	require.NotEqual(t, id, DeriveRefundID("pay-2"))
	back, err := ParseRefundID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, back)
	for _, text := range []string{"", "rfd_", "ord_" + id.String()[4:], strings.ToUpper(id.String()), id.String() + "a"} {
		_, err := ParseRefundID(text)
		require.Equal(t, RefundNotFound(), err, "%q", text)
	}
}

func FuzzParseRefundID(f *testing.F) {
	f.Add(DeriveRefundID("pay-1").String())
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseRefundID(text)
		if err != nil {
			require.Equal(t, CodeRefundNotFound, CodeOf(err))
			return
		}
		require.Equal(t, text, id.String())
	})
}

func TestLetterID(t *testing.T) {
	t.Parallel()
	id := LetterID{0: 0xff, 15: 0x03}
	require.Equal(t, "dlq_74aaaaaaaaaaaaaaaaaaaaaaam", id.String())
	back, err := ParseLetterID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, back)
	for _, text := range []string{
		"", "dlq_", "ord_" + id.String()[4:], strings.ToUpper(id.String()), id.String() + "a", id.String()[:29] + "n", "dlq_" + strings.Repeat("a", 26),
	} {
		_, err := ParseLetterID(text)
		require.Equal(t, LetterNotFound(), err, "%q", text)
	}
}

func FuzzParseLetterID(f *testing.F) {
	f.Add(LetterID{1, 2, 3}.String())
	f.Add("dlq_" + strings.Repeat("7", 26))
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseLetterID(text)
		if err != nil {
			require.Equal(t, CodeLetterNotFound, CodeOf(err))
			require.True(t, id.IsZero())
			return
		}
		require.False(t, id.IsZero())
		require.Equal(t, text, id.String())
	})
}

func TestEventID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "evt_aaaaabyaaaaaaaaaaaaaaaaaae", EventID(7, 1))
	seen := map[string]bool{}
	for _, n := range []Number{0, 1, 256, 1 << 31} {
		for _, seq := range []uint64{0, 1, 256, 1 << 40} {
			seen[EventID(n, seq)] = true
		}
	}
	require.Len(t, seen, 16)
}

func TestUserHash(t *testing.T) {
	t.Parallel()
	// FNV-1a, from its published test vectors.
	require.Equal(t, uint64(0xcbf29ce484222325), UserHash(""))
	require.Equal(t, uint64(0xaf63dc4c8601ec8c), UserHash("a"))
	require.Equal(t, uint64(0x85944171f73967e8), UserHash("foobar"))
}
