package redisstock_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/redisstock"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// click is a call with one attempt.
func click(l stock.Lane, i int64) stock.Call {
	return stock.Call{Lane: l, Epoch: 1, Terms: 1, AskedAt: time.Now(), Attempts: []stock.Attempt{
		{ID: orderID(l.Sale, i), User: "user-" + text(i), Quantity: 1},
	}}
}

// TestTroubleIsNoVerdict brings a server into every state in which it refuses
// work, and sees that each is trouble, that nothing moves, and that the counter
// goes on by itself afterwards.
func TestTroubleIsNoVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin, end func(s *testenv.RedisServer)
		reason     redisconn.Reason
	}{
		"out of memory": {
			begin:  func(s *testenv.RedisServer) { s.Must("CONFIG", "SET", "maxmemory", "1") },
			end:    func(s *testenv.RedisServer) { s.Must("CONFIG", "SET", "maxmemory", "0") },
			reason: redisconn.OutOfMemory,
		},
		"a replica": {
			begin:  func(s *testenv.RedisServer) { s.Must("REPLICAOF", "127.0.0.1", "1") },
			end:    func(s *testenv.RedisServer) { s.Must("REPLICAOF", "NO", "ONE") },
			reason: redisconn.ReadOnly,
		},
		"too few replicas": {
			begin:  func(s *testenv.RedisServer) { s.Must("CONFIG", "SET", "min-replicas-to-write", "1") },
			end:    func(s *testenv.RedisServer) { s.Must("CONFIG", "SET", "min-replicas-to-write", "0") },
			reason: redisconn.NoReplicas,
		},
		"hanging": {
			begin:  (*testenv.RedisServer).Pause,
			end:    (*testenv.RedisServer).Resume,
			reason: redisconn.Timeout,
		},
		"dead": {
			begin: (*testenv.RedisServer).Kill,
			end:   (*testenv.RedisServer).Start,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.Redis(t, "appendfsync always")
			ctx, l := t.Context(), stock.Lane{Sale: 7}
			calm := open(t, dial(t, server.URL))
			live(t, calm, l, 10)
			_, err := calm.Take(ctx, click(l, 1))
			require.NoError(t, err)
			before, err := calm.Read(ctx, l)
			require.NoError(t, err)
			entries, err := calm.Look(ctx, l, "", 10)
			require.NoError(t, err)

			quick, err := redisstock.New(dial(t, server.URL), redisstock.Options{Prefix: prefix, CallTimeout: 300 * time.Millisecond})
			require.NoError(t, err)
			c.begin(server)
			record := stock.Act{Kind: stock.ActReturn, Seq: 1, ID: orderID(7, 1), User: "user-1"}
			for call, run := range map[string]func() error{
				"take": func() error {
					_, problem := quick.Take(ctx, click(l, 2))
					return problem
				},
				"apply": func() error {
					_, problem := quick.Apply(ctx, l, stock.Acts{Epoch: 1, To: 1, Acts: []stock.Act{record}})
					return problem
				},
				"return": func() error { return quick.Return(ctx, l, 1, []stock.Act{record}) },
				"give": func() error {
					_, problem := quick.Give(ctx, l, stock.Transfer{Epoch: 1, To: 1, Number: 1, Units: 1})
					return problem
				},
				"receive": func() error { return quick.Receive(ctx, l, stock.Transfer{Epoch: 1, From: 1, Number: 1, Units: 1}) },
				"want":    func() error { return quick.Want(ctx, l, 1, time.Second) },
				"sync": func() error {
					_, problem := quick.Sync(ctx, l, 1, stock.Rules{Version: 9, Stock: []int64{10}})
					return problem
				},
			} {
				err = run()
				require.ErrorIs(t, err, stock.ErrUnavailable, call)
				for _, verdict := range []error{
					stock.ErrCold, stock.ErrFrozen, stock.ErrEpoch, stock.ErrTray, stock.ErrWanted, stock.ErrStale, stock.ErrInvalid,
				} {
					require.NotErrorIs(t, err, verdict, call)
				}
				if c.reason != "" {
					require.Equal(t, c.reason, redisconn.ReasonOf(err), call)
				}
			}
			c.end(server)
			if c.reason == redisconn.Timeout {
				// What was sent before the server woke is carried out now: in which
				// order, and that a repetition tells, is the business of other tests.
				_, err = calm.Read(ctx, l)
				require.NoError(t, err)
				return
			}
			require.Eventually(t, func() bool {
				_, err = quick.Clock(ctx, l)
				return err == nil
			}, 10*time.Second, 10*time.Millisecond)
			after, err := quick.Read(ctx, l)
			require.NoError(t, err)
			require.Equal(t, before, after)
			same, err := quick.Look(ctx, l, "", 10)
			require.NoError(t, err)
			require.Equal(t, entries, same)
			reply, err := quick.Take(ctx, click(l, 2))
			require.NoError(t, err)
			require.Equal(t, sale.Taken, reply.Results[0].Verdict)
		})
	}
}

func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	c, l := open(t, dial(t, server.URL)), stock.Lane{Sale: 7}
	live(t, c, l, 10)
	for i := range int64(3) {
		server.Must("SCRIPT", "FLUSH")
		reply, err := c.Take(t.Context(), click(l, i))
		require.NoError(t, err)
		require.Equal(t, []int64{9 - i}, reply.Left)
	}
}

// TestStaleServer restarts a server that has forgotten the last takes, as a
// fail-over to a replica that lags does: the first call that knows better finds
// out, and nothing is sold.
func TestStaleServer(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	c, l := open(t, dial(t, server.URL)), stock.Lane{Sale: 7}
	live(t, c, l, 10)
	server.Must("SAVE")
	reply, err := c.Take(t.Context(), click(l, 1))
	require.NoError(t, err)
	server.Kill()
	server.Start()
	call := click(l, 2)
	call.Seen = reply.Seq
	require.Eventually(t, func() bool {
		reply, err = c.Take(t.Context(), call)
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, stock.Stale, reply.State)
	require.Nil(t, reply.Results)
}

func TestMalformedRecords(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	c, l, ctx := open(t, dial(t, server.URL)), stock.Lane{Sale: 7}, t.Context()
	live(t, c, l, 10)
	server.Must("HSET", key(l, "buyers:1"), "user-1", "x")
	before, err := c.Read(ctx, l)
	require.NoError(t, err)
	call := click(l, 2)
	call.Attempts = append(call.Attempts, click(l, 1).Attempts...)
	_, err = c.Take(ctx, call)
	require.ErrorIs(t, err, stock.ErrUnavailable)
	_, err = c.Records(ctx, l, "user-1")
	require.ErrorIs(t, err, stock.ErrUnavailable)
	after, err := c.Read(ctx, l)
	require.NoError(t, err)
	require.Equal(t, before, after, "the attempt before it is not taken either")

	server.Must("HSET", key(l, "meta"), "seq", "many")
	_, err = c.Read(ctx, l)
	require.ErrorIs(t, err, stock.ErrUnavailable)
	_, err = c.Take(ctx, click(l, 2))
	require.ErrorIs(t, err, stock.ErrUnavailable)
	server.Must("DEL", key(l, "tray"))
	server.Must("HSET", key(l, "meta"), "seq", "9")
	reply, err := c.Take(ctx, click(l, 2))
	require.NoError(t, err)
	require.Equal(t, stock.Cold, reply.State, "without its tray a lane takes nothing: nobody would judge it")
}

// TestClaimOfALaneThatGoes clears a lane under a consumer that waits at it.
func TestClaimOfALaneThatGoes(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	proxy := testenv.NewProxy(t, server.Addr)
	c, l, ctx := open(t, dial(t, server.URL)), stock.Lane{Sale: 7}, t.Context()
	waiter := open(t, dial(t, "redis://"+proxy.Addr))
	live(t, c, l, 10)
	asked, ended := proxy.Forwarded("XREADGROUP"), make(chan error, 1)
	go func() {
		_, err := waiter.Claim(ctx, l, stock.Claim{Consumer: "c", Max: 1, Wait: time.Minute})
		ended <- err
	}()
	<-asked
	require.Eventually(t, func() bool { return server.Info("blocked_clients") == "1" }, 10*time.Second, time.Millisecond)
	_, err := c.Freeze(ctx, l, 2)
	require.NoError(t, err)
	require.NoError(t, c.Clear(ctx, l, 2))
	require.NoError(t, <-ended, "nothing came")
	_, err = waiter.Claim(ctx, l, stock.Claim{Consumer: "c", Max: 1, Wait: time.Minute})
	require.ErrorIs(t, err, stock.ErrCold)
}

// TestNewsAfterALostConnection cuts a listener off and wants to hear of the gap.
func TestNewsAfterALostConnection(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	proxy := testenv.NewProxy(t, server.Addr)
	listener, teller := open(t, dial(t, "redis://"+proxy.Addr)), open(t, dial(t, server.URL))
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan stock.Message, 10), make(chan error, 1)
	go func() { ended <- listener.Listen(ctx, func(m stock.Message) { heard <- m }) }()
	require.Equal(t, stock.KindGap, (<-heard).Kind)
	proxy.Cut()
	require.NoError(t, teller.Tell(ctx, stock.Message{Kind: stock.KindSellsAgain, Sale: 7}))
	proxy.Pass()
	require.Equal(t, stock.Message{Kind: stock.KindGap}, <-heard, "something was missed")
	server.Must("PUBLISH", prefix+":news", "from somebody else")
	server.Must("PUBLISH", prefix+":news", "")
	m := stock.Message{Kind: stock.KindJudged, Sale: 7, IDs: []sale.OrderID{orderID(7, 1), orderID(7, 2)}}
	require.NoError(t, teller.Tell(ctx, m))
	require.Equal(t, m, <-heard)
	cancel()
	require.NoError(t, <-ended)
}

// TestKeys compares what is in a server with the tables of the package comment
// and of docs/redis.md.
func TestKeys(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/redis.md")
	require.NoError(t, err)
	server := testenv.Redis(t, "appendonly no")
	c, l, ctx := open(t, dial(t, server.URL)), stock.Lane{Sale: 7, Index: 2, Salt: 99}, t.Context()
	live(t, c, l, 10)
	_, err = c.Take(ctx, click(l, 1))
	require.NoError(t, err)
	_, err = c.Give(ctx, l, stock.Transfer{Epoch: 1, From: 2, Number: 1, Units: 1})
	require.NoError(t, err)
	require.NoError(t, c.Receive(ctx, l, stock.Transfer{Epoch: 1, From: 1, To: 2, Number: 1, Units: 1}))
	require.NoError(t, c.Want(ctx, l, 1, time.Hour))
	fields := strings.Fields(server.Must("HKEYS", key(l, "meta")))
	require.Subset(t, fields, []string{"x0", "o0", "i1", "w"})
	_, err = c.Freeze(ctx, l, 2)
	require.NoError(t, err)
	require.NoError(t, c.Load(ctx, l, 2, []stock.Act{{ID: orderID(7, 1), User: "user-1", Quantity: 1}}))
	require.NoError(t, c.Set(ctx, l, 2, stock.Setting{Rules: stock.Rules{Stock: []int64{1}}, Left: []int64{1}}))

	names := strings.Fields(server.Must("KEYS", "*"))
	require.ElementsMatch(t, []string{"{test:7.2.99}:meta", "{test:7.2.99}:tray", "{test:7.2.99}:buyers:1", "{test:7.2.99}:buyers:2"}, names)
	for _, name := range names {
		require.Equal(t, "-1", server.Must("TTL", name), "nothing of a live lane expires")
		part := strings.Split(name, ":")[2]
		require.Contains(t, string(doc), "}:"+part, "%s is in the table", name)
		require.Contains(t, string(page), "}:"+part, "%s is in the page", name)
	}
	for _, field := range append(fields, strings.Fields(server.Must("HKEYS", key(l, "meta")))...) {
		switch field {
		case "s0", "l0", "x0":
			field = field[:1] + "<i>"
		case "o0", "i1":
			field = field[:1] + "<lane>"
		}
		require.Contains(t, string(page), "`"+field+"`", "the field is in the page")
		require.Regexp(t, `\n//\t  ([a-z<>]+, )*`+field+`[ ,]`, string(doc), "the field %s is in the table", field)
	}
	require.NotContains(t, server.Must("HKEYS", key(l, "meta")), "x0", "a build forgets transfers")
	require.Len(t, server.Must("HGET", key(l, "buyers:1"), "user-1"), 25)

	other, err := redisstock.New(dial(t, server.URL), redisstock.Options{})
	require.NoError(t, err)
	at, err := other.Read(ctx, l)
	require.NoError(t, err)
	require.Equal(t, stock.Cold, at.State, "another prefix is another installation")
	_, err = redisstock.New(nil, redisstock.Options{Prefix: "a{b}"})
	require.Error(t, err)

	require.NoError(t, c.Unfreeze(ctx, l, 2))
	_, err = c.Freeze(ctx, l, 3)
	require.NoError(t, err)
	require.NoError(t, c.Load(ctx, l, 3, []stock.Act{{ID: orderID(7, 1), User: "user-1", Quantity: 1}}))
	_, err = c.Freeze(ctx, l, 4)
	require.NoError(t, err)
	entries, err := c.Look(ctx, l, "", 10)
	require.NoError(t, err)
	require.NoError(t, c.Done(ctx, l, entries))
	require.NotContains(t, server.Must("KEYS", "*"), "buyers:3", "what an unfinished build left is dropped")
	require.NoError(t, c.Clear(ctx, l, 4))
	require.Empty(t, server.Must("KEYS", "*"))
}

// TestHeaders makes sure that the header of each script names all it is given.
func TestHeaders(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		header, code, found := strings.Cut(string(raw), "\n\n")
		require.True(t, found, file)
		require.Regexp(t, `^-- `+strings.TrimSuffix(filepath.Base(file), ".lua")+`: `, header)
		require.Contains(t, header, "-- Returns {", file)
		used := regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`).FindAllStringSubmatch(code, -1)
		for _, u := range used {
			require.Regexp(t, u[1]+`\[`+u[2]+`…?\]`, header, "%s uses %s", file, u[0])
		}
		named := regexp.MustCompile(`(KEYS|ARGV)\[(\d+)`).FindAllStringSubmatch(header, -1)
		for _, kind := range []string{"KEYS", "ARGV"} {
			var numbers []int
			for _, n := range named {
				if n[1] == kind {
					at, err := strconv.Atoi(n[2])
					require.NoError(t, err)
					numbers = append(numbers, at)
				}
			}
			for i, n := range slices.Compact(slices.Sorted(slices.Values(numbers))) {
				require.Equal(t, i+1, n, "%s names every %s", file, kind)
			}
		}
	}
}
