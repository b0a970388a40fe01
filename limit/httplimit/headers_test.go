package httplimit_test

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit/httplimit"
)

func policy(t *testing.T, name string, quota int64, window time.Duration, unit httplimit.Unit) httplimit.Policy {
	t.Helper()
	p, err := httplimit.NewPolicy(name, quota, window, unit)
	require.NoError(t, err)
	return p
}

func TestWrite(t *testing.T) {
	t.Parallel()
	user := policy(t, "user", 100, time.Minute, httplimit.Requests)
	ip := policy(t, "ip", 20, 1500*time.Millisecond, httplimit.Requests)
	open := policy(t, "open", 5, 0, httplimit.Concurrent)
	odd := policy(t, `a "b" \c`, 0, 1, httplimit.ContentBytes)
	for _, c := range []struct {
		states        []httplimit.State
		policy, state string
	}{
		{nil, "", ""},
		{[]httplimit.State{{}}, "", ""},
		{[]httplimit.State{{Policy: user, Remaining: 42, Reset: 17 * time.Second}}, `"user";q=100;w=60`, `"user";r=42;t=17`},
		{[]httplimit.State{{Policy: user, Remaining: 100}, {}, {Policy: ip, Remaining: -3, Reset: 1}}, `"user";q=100;w=60, "ip";q=20;w=2`, `"user";r=100, "ip";r=0;t=1`},
		{[]httplimit.State{{Policy: open, Remaining: 2, Reset: -time.Second}}, `"open";q=5;qu="concurrent-requests"`, `"open";r=2`},
		{[]httplimit.State{{Policy: odd, Remaining: math.MaxInt64, Reset: 1001 * time.Millisecond}}, `"a \"b\" \\c";q=0;qu="content-bytes";w=1`, `"a \"b\" \\c";r=999999999999999;t=2`},
	} {
		h := http.Header{}
		httplimit.Write(h, c.states...)
		require.Equal(t, c.policy, h.Get("RateLimit-Policy"))
		require.Equal(t, c.state, h.Get("RateLimit"))
		if c.policy == "" {
			require.Empty(t, h)
		}
	}
}

// A value appended to one field must not show in the other.
func TestWriteKeepsFieldsApart(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	httplimit.Write(h, httplimit.State{Policy: policy(t, "user", 1, time.Second, httplimit.Requests)})
	h.Add("RateLimit-Policy", "x")
	require.Equal(t, []string{`"user";r=0`}, h.Values("RateLimit"))
}

func TestPartitionsHideIDs(t *testing.T) {
	t.Parallel()
	user := policy(t, "user", 100, time.Minute, httplimit.Requests)
	hider := httplimit.NewHider([]byte("secret"))
	alice := hider.Partition("alice")
	require.Equal(t, alice, hider.Partition("alice"))
	require.NotEqual(t, alice, hider.Partition("bob"))
	require.NotEqual(t, alice, httplimit.NewHider([]byte("other")).Partition("alice"))
	h := http.Header{}
	httplimit.Write(h, httplimit.State{Policy: user, Remaining: 1, Reset: time.Second, Partition: alice})
	form := regexp.MustCompile(`^"user";q=100;w=60;pk=(:[A-Za-z0-9+/]{12}:)$`)
	require.Regexp(t, form, h.Get("RateLimit-Policy"))
	key := form.FindStringSubmatch(h.Get("RateLimit-Policy"))[1]
	require.Equal(t, `"user";r=1;t=1;pk=`+key, h.Get("RateLimit"))
	require.NotContains(t, h.Get("RateLimit"), "alice")
}

func TestRetryAfterIsNotEarlierThanReset(t *testing.T) {
	t.Parallel()
	user := policy(t, "user", 100, time.Minute, httplimit.Requests)
	day := policy(t, "day", 1000, 24*time.Hour, httplimit.Requests)
	for _, c := range []struct {
		wait, user, day time.Duration
		want            string
	}{
		{0, 0, time.Hour, "1"},
		{-time.Second, 0, time.Hour, "1"},
		{time.Second, 2100 * time.Millisecond, time.Hour, "3"},
		{5 * time.Second, 2 * time.Second, time.Hour, "5"},
		{1001 * time.Millisecond, time.Second, time.Hour, "2"},
	} {
		h := http.Header{}
		httplimit.Refuse(h, c.wait, httplimit.State{Policy: user, Reset: c.user}, httplimit.State{Policy: day, Remaining: 7, Reset: c.day})
		require.Equal(t, c.want, h.Get("Retry-After"), "a policy that has something left does not count: %+v", c)
		if _, after, ok := strings.Cut(strings.Split(h.Get("RateLimit"), ",")[0], ";t="); ok {
			reset, err := strconv.Atoi(after)
			require.NoError(t, err)
			retry, err := strconv.Atoi(h.Get("Retry-After"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, retry, reset)
		}
	}
	h := http.Header{}
	httplimit.Refuse(h, time.Second)
	require.Equal(t, http.Header{"Retry-After": {"1"}}, h)
}

func TestPolicyRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		quota  int64
		window time.Duration
		unit   httplimit.Unit
	}{
		{"", 1, time.Second, httplimit.Requests},
		{"käse", 1, time.Second, httplimit.Requests},
		{"a\nb", 1, time.Second, httplimit.Requests},
		{strings.Repeat("a", 65), 1, time.Second, httplimit.Requests},
		{"a", -1, time.Second, httplimit.Requests},
		{"a", 1e15, time.Second, httplimit.Requests},
		{"a", 1, -time.Second, httplimit.Requests},
		{"a", 1, time.Second, 9},
	} {
		_, err := httplimit.NewPolicy(c.name, c.quota, c.window, c.unit)
		require.Error(t, err, "%+v", c)
	}
}

// Three allocations: two values and the array they are in.
func TestWriteAllocates(t *testing.T) { //nolint:paralleltest // allocations of the whole process are counted
	states := []httplimit.State{
		{Policy: policy(t, "user", 100, time.Minute, httplimit.Requests), Remaining: 5, Reset: time.Second, Partition: httplimit.NewHider(nil).Partition("a")},
		{Policy: policy(t, "ip", 20, time.Second, httplimit.Requests), Remaining: 1, Reset: time.Second},
	}
	h := http.Header{}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { httplimit.Write(h, states...) }), 3.0)
}
