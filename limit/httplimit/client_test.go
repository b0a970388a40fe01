package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit/httplimit"
)

func proxies(t *testing.T, list ...string) httplimit.Proxies {
	t.Helper()
	p, err := httplimit.ParseProxies(list...)
	require.NoError(t, err)
	return p
}

// request comes from peer; header is names and values in turn.
func request(t *testing.T, peer string, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop.example/", http.NoBody)
	require.NoError(t, err)
	r.RemoteAddr = peer
	for pair := range slices.Chunk(header, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	return r
}

func TestParseProxies(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"proxy", "10.0.0.0/33", "", "10.0.0.1:80", "fe80::1%eth0/64"} {
		_, err := httplimit.ParseProxies("10.0.0.1", text)
		require.ErrorContains(t, err, fmt.Sprintf("%q", text))
	}
	p := proxies(t, "10.1.2.3/8", "192.0.2.7", "2001:db8:1::5/48", "::ffff:172.16.0.0/108", "::ffff:192.0.2.9")
	for a, want := range map[string]bool{
		"10.200.0.1": true, "::ffff:10.0.0.1": true, "192.0.2.7": true, "192.0.2.8": false, "192.0.2.9": true,
		"2001:db8:1:2::": true, "2001:db8:2::": false, "172.31.255.255": true, "172.32.0.0": false, "11.0.0.1": false,
	} {
		require.Equal(t, want, p.Trust(netip.MustParseAddr(a)), a)
	}
	require.False(t, p.Trust(netip.Addr{}))
	require.False(t, httplimit.Proxies{}.Trust(netip.MustParseAddr("10.0.0.1")))
	require.False(t, httplimit.NewProxies(netip.Prefix{}).Trust(netip.Addr{}))
}

// What a chain of hops comes to: the right-most that is no proxy.
func TestClientIP(t *testing.T) {
	t.Parallel()
	p := proxies(t, "10.0.0.0/8", "2001:db8:1::/48", "192.0.2.7")
	for _, c := range []struct {
		peer, lines, want string // lines are separated by |
	}{
		{"203.0.113.9:1", "", "203.0.113.9"},
		{"10.0.0.1:1", "", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.9", "203.0.113.9"},
		{"192.0.2.7:1", "203.0.113.9", "203.0.113.9"},
		{"10.0.0.1:1", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"10.0.0.1:1", "1.1.1.1, 203.0.113.9, 10.2.3.4", "203.0.113.9"},
		{"10.0.0.1:1", "1.1.1.1|203.0.113.9 ,\t10.2.3.4", "203.0.113.9"},
		{"10.0.0.1:1", "1.1.1.1|203.0.113.9|10.2.3.4", "203.0.113.9"},
		{"10.0.0.1:1", "10.9.9.9, 10.2.3.4", "10.9.9.9"},
		{"10.0.0.1:1", "10.0.0.5, 203.0.113.9", "203.0.113.9"},
		{"10.0.0.1:1", "172.16.0.1", "172.16.0.1"},
		// Ports, brackets, zones and IPv4-mapped forms.
		{"10.0.0.1:1", "203.0.113.9:4711", "203.0.113.9"},
		{"[2001:db8:1::5]:1", "[2001:db8:2::1]:80", "2001:db8:2::1"},
		{"[2001:db8:1::5]:1", "[2001:db8:2::1]", "2001:db8:2::1"},
		{"[2001:db8:1::5]:1", "2001:DB8:2:0::1", "2001:db8:2::1"},
		{"[::ffff:10.0.0.1]:1", "::ffff:203.0.113.9", "203.0.113.9"},
		{"10.0.0.1:1", "[::ffff:203.0.113.9]:80", "203.0.113.9"},
		{"10.0.0.1:1", "fe80::1%eth0", "fe80::1"},
		{"[fe80::2%eth0]:1", "203.0.113.9", "fe80::2"},
		{"10.0.0.1", "203.0.113.9", "203.0.113.9"},
		// What cannot be read ends the walk at the hop that reported it.
		{"10.0.0.1:1", "203.0.113.9, garbage", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.9, garbage, 10.2.3.4", "10.2.3.4"},
		{"10.0.0.1:1", "203.0.113.9, unknown", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.9, ", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.9, 0.0.0.0, 10.2.3.4", "10.2.3.4"},
		{"10.0.0.1:1", "203.0.113.9, [::]:0", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.9|", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.9:99999", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.09", "10.0.0.1"},
		{"10.0.0.1:1", "[203.0.113.9", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.9;", "10.0.0.1"},
		{"10.0.0.1:1", "\"203.0.113.9\"", "10.0.0.1"},
		{"10.0.0.1:1", "203.0.113.9\x00", "10.0.0.1"},
		// A peer without an address.
		{"@", "203.0.113.9", "invalid IP"},
		{"", "203.0.113.9", "invalid IP"},
	} {
		r := request(t, c.peer)
		if c.lines != "" {
			r.Header["X-Forwarded-For"] = strings.Split(c.lines, "|")
		}
		require.Equal(t, c.want, p.ClientIP(r).String(), "%+v", c)
	}
}

// madeUp is what somebody may send to look like somebody else.
func madeUp(seed uint64) []string {
	dice := rand.New(rand.NewPCG(seed, 47))
	v4 := func() string { return fmt.Sprintf("1.%d.%d.7", dice.IntN(256), dice.IntN(256)) }
	values := []string{
		v4(), v4() + ", " + v4(), fmt.Sprintf("[2001:db8::%d]:80", dice.IntN(999)), fmt.Sprintf("%s:%d", v4(), dice.IntN(65536)),
		"garbage", "", ",,,", "127.0.0.1", "10.0.0.1", "192.168.0.1", "localhost", "\x00\xff", "unknown",
		strings.Repeat(v4()+", ", 700), strings.Repeat("a", 10<<10), strings.Repeat(",", 10<<10), strings.Repeat("10.0.0.1,", 1200),
	}
	header := []string{}
	for range 1 + dice.IntN(3) {
		header = append(header, "X-Forwarded-For", values[dice.IntN(len(values))])
	}
	for _, name := range []string{"X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP", "Fastly-Client-IP", "X-Original-Forwarded-For"} {
		if dice.IntN(2) == 0 {
			header = append(header, name, values[dice.IntN(len(values))])
		}
	}
	return append(header, "Forwarded", "for="+v4())
}

// C47: an address that a client makes up counts for nothing, directly and through
// the trusted proxy, which appends the one it sees.
func TestC47ForwardedForIsNotBelieved(t *testing.T) {
	t.Parallel()
	p := proxies(t, "10.0.0.0/8")
	const client = "203.0.113.9"
	for seed := range uint64(500) {
		header := madeUp(seed)
		direct := request(t, client+":1234", header...)
		require.Equal(t, client, p.ClientIP(direct).String(), "%q", header)

		own := request(t, "10.0.0.1:1", append(header, "X-Forwarded-For", client)...)
		require.Equal(t, client, p.ClientIP(own).String(), "the proxy adds a line: %q", header)

		joined := request(t, "10.0.0.1:1", header...)
		joined.Header.Set("X-Forwarded-For", strings.Join(append(direct.Header["X-Forwarded-For"], client), ", "))
		require.Equal(t, client, p.ClientIP(joined).String(), "the proxy adds to the line: %q", header)

		bare := request(t, client+":1", header...)
		require.Equal(t, client, httplimit.Proxies{}.ClientIP(bare).String(), "nothing is configured: %q", header)
	}
	// What the proxy itself cannot say is the proxy's own address, not one that
	// strangers behind other proxies share.
	require.Equal(t, "10.0.0.1", p.ClientIP(request(t, "10.0.0.1:1", "X-Forwarded-For", "unknown", "X-Real-IP", "1.1.1.1")).String())
	require.Equal(t, "10.0.0.2", p.ClientIP(request(t, "10.0.0.2:1", "X-Forwarded-For", "unknown", "X-Real-IP", "1.1.1.1")).String())
}

// C47: a header of 10 kB costs no more than the hops that are looked at.
func TestC47LongHeaderIsCheap(t *testing.T) { //nolint:paralleltest // allocations of the whole process are counted
	p := proxies(t, "10.0.0.0/8")
	for _, long := range []string{strings.Repeat("10.0.0.2,", 1200) + "10.0.0.2", strings.Repeat("1.1.1.1,", 1200) + "203.0.113.9", strings.Repeat(",", 10<<10), strings.Repeat("x", 10<<10)} {
		r := request(t, "10.0.0.1:1", "X-Forwarded-For", long)
		require.Zero(t, testing.AllocsPerRun(10, func() { p.ClientIP(r) }), "%.20s", long)
	}
	long := request(t, "10.0.0.1:1", "X-Forwarded-For", "203.0.113.9,"+strings.Repeat("10.0.0.2,", 1200)+"10.0.0.2")
	require.Equal(t, "10.0.0.2", p.ClientIP(long).String(), "the walk is bounded")
}

// C48: with the proxy configured, each client behind it has its own bucket; the
// crowd behind one address shares that one and no other.
func TestC48EachClientHasItsBucket(t *testing.T) {
	t.Parallel()
	p := proxies(t, "10.0.0.1")
	seen := make(map[netip.Prefix]int)
	for i := range 1000 {
		client := netip.AddrFrom4([4]byte{203, 0, byte(i / 256), byte(i % 256)})
		seen[httplimit.Network(p.ClientIP(request(t, "10.0.0.1:1", "X-Forwarded-For", client.String())))]++
	}
	require.Len(t, seen, 1000)
	for range 500 {
		seen[httplimit.Network(p.ClientIP(request(t, "10.0.0.1:1", "X-Forwarded-For", "198.51.100.1")))]++
	}
	require.Len(t, seen, 1001)
	require.Equal(t, 500, seen[netip.MustParsePrefix("198.51.100.1/32")])
}

// L18: neither a forged header nor the addresses of one's own network are a way to
// another bucket.
func TestL18OneBucketForOneParty(t *testing.T) {
	t.Parallel()
	p := proxies(t, "10.0.0.1")
	bucket := func(peer string, header ...string) netip.Prefix {
		return httplimit.Network(p.ClientIP(request(t, peer, header...)))
	}
	honest := bucket("203.0.113.9:1")
	require.Equal(t, honest, bucket("203.0.113.9:2", "X-Forwarded-For", "1.2.3.4"))
	require.Equal(t, honest, bucket("10.0.0.1:1", "X-Forwarded-For", "1.2.3.4, 203.0.113.9"), "the left-most entry is the client's own word")
	require.Equal(t, honest, bucket("[::ffff:203.0.113.9]:1"))
	require.NotEqual(t, honest, bucket("203.0.113.10:1"))

	require.Equal(t, bucket("[2001:db8:2::1]:1"), bucket("[2001:db8:2::ffff:1:2:3]:1"))
	require.NotEqual(t, bucket("[2001:db8:2::1]:1"), bucket("[2001:db8:2:1::1]:1"))
}

func TestNetworkAndSubnet(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"203.0.113.9", "203.0.113.9/32", "203.0.113.0/24"},
		{"::ffff:203.0.113.9", "203.0.113.9/32", "203.0.113.0/24"},
		{"2001:db8:2:3:4:5:6:7", "2001:db8:2:3::/64", "2001:db8:2::/48"},
		{"fe80::1%eth0", "fe80::/64", "fe80::/48"},
	} {
		a := netip.MustParseAddr(c[0])
		require.Equal(t, c[1], httplimit.Network(a).String())
		require.Equal(t, c[2], httplimit.Subnet(a).String())
	}
	require.Equal(t, netip.Prefix{}, httplimit.Network(netip.Addr{}))
	require.Equal(t, netip.Prefix{}, httplimit.Subnet(netip.Addr{}))
}

// C48: who forgot a proxy hears of it, once.
func TestC48WatchTellsOfStrayHeaders(t *testing.T) {
	t.Parallel()
	p := proxies(t, "10.0.0.1")
	w := httplimit.NewWatch(3)
	look := func(peer string, header ...string) (httplimit.Stray, bool) {
		return w.Look(p, request(t, peer, header...))
	}

	_, tell := look("192.0.2.1:1")
	require.False(t, tell, "no header")
	_, tell = look("10.0.0.1:1", "X-Forwarded-For", "203.0.113.9", "X-Real-IP", "203.0.113.9")
	require.False(t, tell, "a configured proxy")
	s, tell := look("192.0.2.1:1", "X-Forwarded-For", "203.0.113.9")
	require.True(t, tell)
	require.Equal(t, httplimit.Stray{Peer: netip.MustParsePrefix("192.0.2.1/32"), Header: "X-Forwarded-For"}, s)
	_, tell = look("192.0.2.1:2", "X-Forwarded-For", "203.0.113.10")
	require.False(t, tell, "told before")
	s, tell = look("10.0.0.1:1", "X-Real-IP", "203.0.113.9")
	require.True(t, tell, "its clients share one bucket")
	require.Equal(t, httplimit.Stray{Peer: netip.MustParsePrefix("10.0.0.1/32"), Header: "X-Real-Ip", Configured: true}, s)
	s, tell = look("[2001:db8::1]:1", "Forwarded", "for=203.0.113.9")
	require.True(t, tell)
	require.Equal(t, "2001:db8::/64", s.Peer.String())
	_, tell = look("192.0.2.2:1", "X-Forwarded-For", "203.0.113.9")
	require.False(t, tell, "three networks are told of")

	many := httplimit.NewWatch(0)
	told := 0
	for i := range 1000 {
		if _, tell = many.Look(p, request(t, fmt.Sprintf("192.0.%d.%d:1", i/256, i%256), "X-Forwarded-For", "1.1.1.1")); tell {
			told++
		}
	}
	require.Equal(t, httplimit.DefaultWatch, told)
}

func FuzzClientIP(f *testing.F) {
	for _, s := range []string{"203.0.113.9", "1.1.1.1, 10.0.0.1:80,[::1]:7", "fe80::1%eth0", ",,", "::ffff:1.2.3.4", "\x00"} {
		f.Add(s, s)
	}
	p := httplimit.NewProxies(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::/16"))
	peer := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, first, second string) {
		r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {first, second}}}
		got := p.ClientIP(r)
		require.True(t, got.IsValid())
		require.False(t, got.Is4In6())
		require.Empty(t, got.Zone())
		require.True(t, httplimit.Network(got).IsValid())
		require.True(t, got == peer || !got.IsUnspecified())
		r.RemoteAddr = "203.0.113.9:1"
		require.Equal(t, "203.0.113.9", p.ClientIP(r).String())
	})
}

func BenchmarkClientIP(b *testing.B) {
	p := httplimit.NewProxies(netip.MustParsePrefix("10.0.0.0/8"))
	r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {strings.Repeat("1.1.1.1, ", 1000) + "203.0.113.9, 10.0.0.2"}}}
	b.ReportAllocs()
	for b.Loop() {
		p.ClientIP(r)
	}
}
