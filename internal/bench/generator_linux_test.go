package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
	"github.com/doorbuster/doorbuster/internal/servers"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

const (
	// roleVariable tells a child process of a benchmark what it is.
	roleVariable = "BENCH_ROLE"
	// profileVariable names a file for the generator's CPU profile.
	profileVariable = "BENCH_PROFILE"

	// offered is far more than a server can do, so that the crowd never sleeps.
	offered        = 1_000_000
	generatorFor   = 3 * time.Second
	generatorTurns = 3 // each of them both ways round
	refusedBuyers  = 10_000
)

// BenchmarkGeneratorCeiling: a crowd on one core against a null server on another,
// beside the same crowd against `doorbuster serve` that refuses buys from its sold-out
// memory on that core: the crowd must be able to send twice what the server can answer,
// or it would measure itself. Each turn is led once with the crowd on the one core and
// once on the other, since cores of a shared machine differ by a third at times. Goal: 2.
func BenchmarkGeneratorCeiling(b *testing.B) {
	twoCores(b)
	b.Setenv("GOMAXPROCS", "1")
	for b.Loop() {
		shop := testenv.Serve(b, "--log-level", "error")
		api, err := client.New(client.Options{URL: shop.URL, Token: shop.AdminKey()})
		require.NoError(b, err)
		openSale(b, api, 1)
		w := dial(b, shop.URL)
		status, err := w.do(post("/v1/sales/drop/orders", shop.Token("owner"), "k", attemptBody))
		require.NoError(b, err)
		require.Equal(b, http.StatusCreated, status)

		null, nullURL := startNull(b)
		full := generatorJob{URL: shop.URL, KeyFile: filepath.Join(shop.Dir, "jwt.key")}
		empty := generatorJob{URL: nullURL, KeyFile: full.KeyFile}
		var ceiling, saturation, factor, spent, served [2 * generatorTurns]float64
		for i := range ceiling {
			theirs, ours := i%2, 1-i%2
			pin(b, shop.Pid(), core(b, theirs))
			pin(b, null.Pid(), core(b, theirs))
			before := cpuOf(b, shop.Pid())
			a := generate(b, full, ours)
			served[i] = perRequest(cpuOf(b, shop.Pid())-before, a.Requests)
			n := generate(b, empty, ours)
			ceiling[i], saturation[i], factor[i] = n.PerSecond, a.PerSecond, n.PerSecond/a.PerSecond
			spent[i] = perRequest(n.CPU, n.Requests)
		}
		turns := make([]float64, generatorTurns)
		for i := range turns {
			turns[i] = math.Sqrt(factor[2*i] * factor[2*i+1])
		}
		note("requests/s of a crowd on one core: against a null server %.0f, against doorbuster on one core %.0f; µs of CPU each: the crowd's %.1f, doorbuster's %.1f",
			median(ceiling[:]), median(saturation[:]), median(spent[:]), median(served[:]))
		ratio(b, "generator_ceiling", median(turns), 2)
	}
}

// generatorJob is what the generator's process is told, as JSON on its input.
type generatorJob struct{ URL, KeyFile string }

// generated is what it tells.
type generated struct {
	PerSecond float64 // in the steady state
	Requests  int64   // in all
	CPU       time.Duration
}

func perRequest(cpu time.Duration, requests int64) (micros float64) {
	return float64(cpu.Microseconds()) / float64(requests)
}

// cpuOf returns what a process has used, in the kernel's ticks of 10 ms.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):])) // the name may hold blanks
	const utime, stime = 12, 13
	var ticks int
	for _, field := range fields[utime : stime+1] {
		n, err := strconv.Atoi(field)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// generate runs a crowd in a process of its own, on one core.
func generate(b *testing.B, job generatorJob, on int) generated {
	b.Helper()
	r := startRole(b, "generator")
	pin(b, r.Pid(), core(b, on))
	require.NoError(b, json.NewEncoder(r.in).Encode(job))
	var g generated
	require.NoError(b, json.NewDecoder(r.out).Decode(&g))
	<-r.Done() // it is not to stand in the way of the next
	return g
}

// TestGenerator is the generator's own process, when a benchmark starts it.
func TestGenerator(t *testing.T) {
	t.Parallel()
	if os.Getenv(roleVariable) != "generator" {
		t.Skip("a part of BenchmarkGeneratorCeiling")
	}
	var job generatorJob
	require.NoError(t, json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&job))
	target, err := wire.ParseTarget(job.URL)
	require.NoError(t, err)
	profile := traffic.Profile{Buyers: refusedBuyers, From: offered, To: offered, Length: generatorFor}
	plan, err := profile.Plan(1)
	require.NoError(t, err)
	script := newTurnedAway(t, job.KeyFile)

	ctx, cancel := context.WithTimeout(t.Context(), generatorFor)
	defer cancel()
	if path := os.Getenv(profileVariable); path != "" {
		f, createErr := os.Create(path)
		require.NoError(t, createErr)
		require.NoError(t, pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	before := cpu(t)
	record, err := traffic.Run(ctx, []*wire.Target{target}, plan, script, traffic.Options{Connections: connections})
	require.NoError(t, err)
	spent := cpu(t) - before
	var all int64
	for verdict, n := range record.Verdicts[traffic.Buy] {
		all += n
		require.Contains(t, []string{"refused", "cut"}, verdict)
	}
	require.NoError(t, json.NewEncoder(os.Stdout).Encode(generated{PerSecond: steady(record), Requests: all, CPU: spent}))
}

// steady is the rate of answers from the fifth slot on, without the last ones, which
// the end cut.
func steady(r *traffic.Record) float64 {
	slots := r.Slots[5:25]
	var n int64
	for i := range slots {
		n += slots[i].Answers[traffic.Refused]
	}
	return float64(n) / (float64(len(slots)) * r.Slot.Seconds())
}

func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// turnedAway are buyers whom a sold-out sale refuses.
type turnedAway struct{ requests [][]byte }

func newTurnedAway(tb testing.TB, secretFile string) *turnedAway {
	tb.Helper()
	secret, err := auth.ReadSecret(secretFile)
	require.NoError(tb, err)
	s := &turnedAway{requests: make([][]byte, refusedBuyers)}
	now := time.Now()
	for i := range s.requests {
		user := "late-" + strconv.Itoa(i)
		token, err := auth.Mint(secret, auth.Claims{User: user, Issuer: "doorbuster", Audience: "doorbuster", IssuedAt: now, Expires: now.Add(time.Hour)})
		require.NoError(tb, err)
		s.requests[i] = post("/v1/sales/drop/orders", token, "key-"+user, attemptBody)
	}
	return s
}

// Request implements traffic.Script.
func (s *turnedAway) Request(dst []byte, step *traffic.Step) []byte {
	return append(dst, s.requests[step.Buyer]...)
}

// Heard implements traffic.Script.
func (s *turnedAway) Heard(_ *traffic.Step, a *wire.Answer, err error) traffic.Outcome {
	switch {
	case err != nil:
		return traffic.Outcome{Class: traffic.Failed, Verdict: "cut"}
	case a.Status != http.StatusConflict:
		return traffic.Outcome{Class: traffic.Failed, Verdict: "status " + strconv.Itoa(a.Status)}
	}
	return traffic.Outcome{Class: traffic.Refused, Verdict: "refused"}
}

// role is this program again, as a part of a benchmark.
type role struct {
	*servers.Process
	in  io.Writer
	out *os.File
}

// startRole starts a part.
func startRole(b *testing.B, name string) *role {
	b.Helper()
	tests := map[string]string{"null": "TestNullServer", "generator": "TestGenerator"}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+tests[name]+"$") //nolint:gosec,noctx // this program; it ends with its input
	cmd.Env = append(os.Environ(), roleVariable+"="+name)
	cmd.Stderr = os.Stderr
	// Its end closes a pipe of the command's own before all is read.
	out, theirs, err := os.Pipe()
	require.NoError(b, err)
	cmd.Stdout = theirs
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	p, err := servers.Start(cmd, unix.SIGTERM)
	require.NoError(b, err)
	require.NoError(b, theirs.Close())
	b.Cleanup(func() {
		_ = in.Close()
		require.NoError(b, p.Stop(10*time.Second))
		require.NoError(b, out.Close())
	})
	return &role{Process: p, in: in, out: out}
}
