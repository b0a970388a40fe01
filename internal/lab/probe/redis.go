package probe

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// redis is a Redis, seen through INFO: one server, or all masters of a cluster together.
type redis struct {
	client   rueidis.Client
	replicas map[string]bool // addresses that were replicas when they last answered
}

func openRedis(ctx context.Context, address string) (*redis, error) {
	client, err := redisconn.Open(ctx, redisconn.Options{URL: address, CallTimeout: readIn, ClientName: "doorbuster-probe"})
	if err != nil {
		return nil, err
	}
	return &redis{client: client, replicas: make(map[string]bool)}, nil
}

// info is a figure that is the sum of some fields of INFO.
type info struct {
	name, unit string
	kind       kind
	fields     []string
}

func ofRedis() []info {
	return []info{
		{"cpu", "cores", rate, []string{"used_cpu_user", "used_cpu_sys"}},
		// What carries out the commands cannot have more than one core a master.
		{"main thread", "cores", rate, []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"}},
		{"commands/s", "1/s", rate, []string{"total_commands_processed"}},
		{"memory", "bytes", gauge, []string{"used_memory"}},
		{"in", "bytes/s", rate, []string{"total_net_input_bytes"}},
		{"out", "bytes/s", rate, []string{"total_net_output_bytes"}},
		{"clients", "1", gauge, []string{"connected_clients"}},
		{"delayed syncs/s", "1/s", rate, []string{"aof_delayed_fsync"}},
	}
}

func (r *redis) read(ctx context.Context) (reading, error) {
	wanted := ofRedis()
	sums := make([]float64, len(wanted))
	told := make([]bool, len(wanted))
	var lives []string
	nodes := r.client.Nodes()
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		said, err := redisconn.Info(ctx, nodes[addr])
		if err != nil && r.replicas[addr] {
			continue
		}
		if err != nil {
			return reading{}, err
		}
		if r.replicas[addr] = said["role"] == "slave"; r.replicas[addr] {
			continue
		}
		lives = append(lives, said["run_id"])
		for i := range wanted {
			for _, field := range wanted[i].fields {
				if n, err := strconv.ParseFloat(said[field], 64); err == nil {
					sums[i], told[i] = sums[i]+n, true
				}
			}
		}
	}
	now := reading{life: strings.Join(lives, " ")}
	for i, w := range wanted {
		if told[i] {
			now.figures = append(now.figures, figure{name: w.name, unit: w.unit, kind: w.kind, value: sums[i]})
		}
	}
	return now, nil
}

func (r *redis) refusal(err error) *sale.Error {
	return unreachable("Redis tells nothing of itself", "the account in the URL must be allowed INFO", err)
}

func (r *redis) close() { r.client.Close() }
