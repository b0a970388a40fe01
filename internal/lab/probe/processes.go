package probe

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ticksPerSecond is the unit of times in /proc, the same on every Linux of today.
const ticksPerSecond = 100

// processes counts the processor time of processes on this machine. Those of
// PostgreSQL come and go, and no statistic of it tells what they use.
type processes struct {
	seen  map[int32]int64 // ticks, by process
	total int64
}

// localProcesses returns nil unless the server on the other side of a connection runs
// here, on a system with /proc.
func localProcesses(conn *pgx.Conn) *processes {
	ours := "[local]" // as the server calls a peer without an address
	if peer, ok := conn.PgConn().Conn().LocalAddr().(*net.TCPAddr); ok {
		ours = fmt.Sprintf("%s(%d)", peer.IP, peer.Port)
	}
	title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", conn.PgConn().PID()))
	// Elsewhere, another process may have the number; none but ours has our port.
	if err != nil || !bytes.HasPrefix(title, []byte("postgres")) || !bytes.Contains(title, []byte(ours)) {
		return nil
	}
	return &processes{}
}

// used returns the seconds that all these processes, and those before them, have used
// since the first call.
func (p *processes) used(pids []int32) float64 {
	first := p.seen == nil
	now := make(map[int32]int64, len(pids))
	for _, pid := range pids {
		ticks, ok := ticksOf(pid)
		if !ok {
			continue // it has just ended
		}
		now[pid] = ticks
		grown := ticks - p.seen[pid]
		if grown < 0 {
			grown = ticks // another one with the same number
		}
		if !first {
			p.total += grown
		}
	}
	p.seen = now
	return float64(p.total) / ticksPerSecond
}

// ticksOf reads what a process has used, itself and in the kernel.
func ticksOf(pid int32) (int64, bool) {
	const userTime, systemTime = 11, 12 // after the name, which may hold spaces
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(raw[bytes.LastIndexByte(raw, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) <= systemTime {
		return 0, false
	}
	user, errUser := strconv.ParseInt(fields[userTime], 10, 64)
	system, errSystem := strconv.ParseInt(fields[systemTime], 10, 64)
	return user + system, errUser == nil && errSystem == nil
}
