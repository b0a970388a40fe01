package redisconn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// ErrUnfit is what a refusal of Check is caused by: a server that works, but not
// as the counter needs it.
var ErrUnfit = errors.New("redisconn: the server does not suit the fast path")

const (
	oldestMajor = 7
	// clockLimit is from when on a clock is worth a warning.
	clockLimit = 100 * time.Millisecond
	// checkCall bounds each call of a check.
	checkCall = 2 * time.Second

	keepsAll   = "noeviction"
	masterRole = "master"
)

// Server is what Check has learned of one master.
type Server struct {
	Addr    string `json:"addr"`
	Version string `json:"version"`
	// Policy is the maxmemory-policy; empty if the server does not tell.
	Policy string `json:"policy"`
	// MaxMemory is in bytes; 0 is no limit.
	MaxMemory int64 `json:"max_memory"`
	// AppendOnly says that each write goes to a file, which AppendSync says how
	// often is forced to the disk: always, everysec, no, or empty if not told.
	AppendOnly bool   `json:"append_only"`
	AppendSync string `json:"append_sync"`
	// Snapshots is when the server saves itself whole, such as "3600 1"; empty is
	// never. It counts only if SnapshotsKnown: CONFIG may be forbidden.
	Snapshots      string `json:"snapshots"`
	SnapshotsKnown bool   `json:"snapshots_known"`
	// Replicas is how many follow, and MinReplicas with how many fewer it refuses
	// writes; 0 is never, and also what is said if it does not tell.
	Replicas    int64 `json:"replicas"`
	MinReplicas int64 `json:"min_replicas"`
	// Clock is how the server's clock stands to the ledger's; zero if there was
	// nothing to compare with.
	Clock Offset `json:"clock"`

	role      string
	loading   bool
	clustered bool
}

// Level says how much a finding matters.
type Level string

// The levels.
const (
	Warning Level = "warning"
	Note    Level = "note"
)

// Finding is something an operator should know of a server that may be used.
type Finding struct {
	Level   Level  `json:"level"`
	Addr    string `json:"addr"`
	Message string `json:"message"` // without a full stop
	Hint    string `json:"hint"`
}

// Report is what Check has found.
type Report struct {
	Servers  []Server  `json:"servers"` // the masters, by address
	Findings []Finding `json:"findings"`
}

// Check asks every master whether the fast path may rely on it. The ledger's
// clock may be nil; then clocks are not compared. An error is trouble (Trouble)
// or the ledger's, after which it may be tried again, or one or several
// *sale.Error of CodeIllegalState that wrap ErrUnfit, joined. The report is good
// as far as it goes in each case.
func Check(ctx context.Context, client rueidis.Client, ledger Clock) (Report, error) {
	var report Report
	var refusals []error
	nodes := client.Nodes()
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		s, err := inspect(ctx, addr, nodes[addr])
		if err != nil {
			return report, err
		}
		if client.Mode() == rueidis.ClientModeCluster && s.role != masterRole {
			continue
		}
		if s.loading {
			return report, &Error{Call: "INFO", Reason: Loading, NotExecuted: true, Err: errors.New(addr + " reads its data after a start")}
		}
		refusals = append(refusals, s.unfit(client.Mode())...)
		if ledger != nil {
			if s.Clock, err = compare(ctx, nodes[addr], ledger); err != nil {
				return report, err
			}
		}
		report.Servers = append(report.Servers, s)
		report.Findings = append(report.Findings, s.findings()...)
	}
	if len(report.Servers) == 0 {
		refusals = append(refusals, unfit("no master is known", "check the state of the cluster: redis-cli cluster nodes"))
	}
	return report, errors.Join(refusals...)
}

func compare(ctx context.Context, node rueidis.Client, ledger Clock) (Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, checkCall)
	defer cancel()
	return Compare(ctx, ServerClock(node), ledger)
}

// inspect asks one server about itself. What INFO does not tell, CONFIG may, if
// it is allowed: managed servers often hide it.
func inspect(ctx context.Context, addr string, node rueidis.Client) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, checkCall)
	defer cancel()
	info, err := Info(ctx, node)
	if err != nil {
		return Server{}, err
	}
	s := Server{
		Addr: addr, Version: info["redis_version"], Policy: info["maxmemory_policy"], MaxMemory: number(info["maxmemory"]),
		AppendOnly: info["aof_enabled"] == "1", Replicas: number(info["connected_slaves"]),
		role: info["role"], loading: info["loading"] == "1", clustered: info["cluster_enabled"] == "1",
	}
	config, err := node.Do(ctx, node.B().ConfigGet().Parameter("maxmemory-policy", "save", "appendfsync", "min-replicas-to-write").Build()).AsStrMap()
	if _, answered := rueidis.IsRedisErr(err); err != nil && !answered {
		return Server{}, Trouble("CONFIG", err)
	}
	if s.Policy == "" {
		s.Policy = config["maxmemory-policy"]
	}
	s.Snapshots, s.SnapshotsKnown = config["save"]
	s.AppendSync = config["appendfsync"]
	s.MinReplicas = number(config["min-replicas-to-write"])
	return s, nil
}

func unfit(message, hint string) *sale.Error {
	return &sale.Error{Code: sale.CodeIllegalState, Message: message, Hint: hint, Err: ErrUnfit}
}

// unfit returns why the server must not be used.
func (s *Server) unfit(mode rueidis.ClientMode) []error {
	var out []error
	refuse := func(problem, hint string) { out = append(out, unfit("Redis "+s.Addr+" "+problem, hint)) }
	if major(s.Version) < oldestMajor {
		refuse("is version "+s.Version, "the fast path needs Redis 7.0 or newer; upgrade it, or leave redis.url empty to sell by the ledger alone")
	}
	if s.Policy != "" && s.Policy != keepsAll {
		refuse("may evict keys (maxmemory-policy "+s.Policy+"), and would forget buyers and stock in the middle of a sale",
			"set it with: redis-cli config set maxmemory-policy noeviction, and in redis.conf; keep caches in another server")
	}
	if s.role != masterRole {
		refuse("is a replica, which takes no writes", "name the primary in redis.url, or its sentinels with ?sentinel=NAME")
	}
	if s.clustered && mode != rueidis.ClientModeCluster {
		refuse("is a node of a cluster", "add ?cluster=true to redis.url")
	}
	return out
}

// findings returns what an operator should know.
func (s *Server) findings() []Finding {
	var out []Finding
	add := func(level Level, problem, hint string) {
		out = append(out, Finding{Level: level, Addr: s.Addr, Message: "Redis " + s.Addr + " " + problem, Hint: hint})
	}
	const appendHint = "set appendonly yes and appendfsync everysec"
	switch {
	case s.AppendOnly && s.AppendSync == "no":
		add(Note, "forces its append-only file to the disk when the system likes", "a power cut may cost half a minute of queued buyers; "+appendHint)
	case s.AppendOnly:
	case s.SnapshotsKnown && s.Snapshots == "":
		add(Warning, "keeps nothing over a restart: then the counter is gone, sales go on by the ledger alone, "+
			"slower, until it is rebuilt, and who was queued must ask again", appendHint)
	case s.SnapshotsKnown:
		add(Warning, "keeps snapshots only: after a restart the counter is as old as the last one and has to be rebuilt, "+
			"and who was queued since must ask again", appendHint)
	default:
		add(Warning, "has no append-only file, and does not tell whether it keeps snapshots: a restart may cost the counter, "+
			"sales then go on by the ledger alone until it is rebuilt, and who was queued must ask again", appendHint)
	}
	if s.Policy == "" {
		add(Warning, "does not tell its maxmemory-policy", "make sure that it is noeviction")
	}
	if s.Replicas > 0 && s.MinReplicas == 0 {
		add(Note, "acknowledges writes that no replica has: a fail-over may forget the last ones, which is noticed and rebuilt",
			"min-replicas-to-write 1 and min-replicas-max-lag 10 shorten what a primary cut off from the others may forget")
	}
	if s.Clock.Surely(clockLimit) {
		add(Warning, fmt.Sprintf("has a clock that is %s the ledger's", apart(s.Clock.By)), "let both machines follow a time server (NTP)")
	}
	return out
}

func apart(d time.Duration) string {
	side := "ahead of"
	if d < 0 {
		side = "behind"
	}
	return d.Abs().Round(time.Millisecond).String() + " " + side
}

// Warnings returns the findings that cost something.
func (r *Report) Warnings() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Level != Warning })
}

// String tells the report in lines, for a log or a person.
func (r *Report) String() string {
	var b strings.Builder
	for _, s := range r.Servers {
		fmt.Fprintf(&b, "Redis %s: version %s, %s", s.Addr, s.Version, s.Policy)
		if s.Clock.Within > 0 {
			fmt.Fprintf(&b, ", clock %v ± %v", s.Clock.By.Round(time.Microsecond), s.Clock.Within.Round(time.Microsecond))
		}
		b.WriteByte('\n')
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s; %s\n", f.Level, f.Message, f.Hint)
	}
	return b.String()
}
