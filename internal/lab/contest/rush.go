package contest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

const (
	// spread is the time over which the rush comes.
	spread = 200 * time.Millisecond
	// doubleClicks is the share of buyers whose click arrives twice, regrets that of the
	// winners who cancel, after as long as it takes to regret.
	doubleClicks = 0.2
	regrets      = 0.15
	regretAfter  = 20 * time.Millisecond

	rushConnections = 512
	answerTime      = 10 * time.Second
	judgeWait       = 2 * time.Second // a poll's wait for the judge
	drainTime       = 15 * time.Second
	grain           = 10 * time.Millisecond
	// opensIn is the time for opening connections before the rush.
	opensIn = 300 * time.Millisecond
)

// profile is the crowd of a lab.
func profile(size int) traffic.Profile {
	return traffic.Profile{Buyers: size, Spread: spread, DoubleClick: doubleClicks}
}

// visit is one crowd's visit to a house.
type visit struct {
	lab     *lab
	targets []*wire.Target
	books   *buyers.Books
	script  *ear
	start   time.Time
	house   house
}

func (l *lab) visit(name string, addrs []string, seed uint64, h house) (*visit, error) {
	v := &visit{lab: l, books: buyers.NewBooks(l.cast), start: time.Now().Add(opensIn), house: h}
	for _, addr := range addrs {
		v.targets = append(v.targets, &wire.Target{Addr: addr, Host: addr})
	}
	saleID := saleName
	if _, is := h.(*shops); is {
		saleID = l.ground.name
	}
	var err error
	v.script = &ear{books: v.books, start: v.start}
	v.script.Script, err = buyers.New(l.cast, v.books, buyers.Options{
		Sale: saleID, Run: name, Seed: seed, Start: v.start,
		// A buyer who was turned away or got no answer clicks once more.
		Conduct: buyers.Conduct{Cancel: regrets, Think: regretAfter, Again: 1, Wait: judgeWait},
	})
	return v, err
}

// rush sends the crowd. With kill, one process is killed in its middle; told is then of
// how many orders buyers had been told, and zero if it did not come to that.
func (v *visit) rush(ctx context.Context, plan []traffic.Visit, kill bool) (_ *traffic.Record, told int64, _ error) { //nolint:revive // a row has it or not
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	struck := make(chan error, 1)
	if kill {
		go func() {
			var killErr error
			told, killErr = v.strike(ctx)
			struck <- killErr
		}()
	} else {
		struck <- nil
	}
	seen, err := traffic.Run(ctx, v.targets, plan, v.script, traffic.Options{
		Connections: rushConnections, Timeout: answerTime, Slot: grain, Start: v.start, Drain: drainTime,
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	cancel()
	if killErr := <-struck; err == nil && killErr != nil {
		err = fmt.Errorf("kill a process: %w", killErr)
	}
	return seen, told, err
}

// strike kills a process when half of the stock is sold, as far as buyers know, however
// long that takes, and returns of how many orders they knew. If ctx, which is that of the
// rush, ends before, nothing is killed and that is none: a crash when nothing is sold yet
// or everybody has gone shows nothing.
func (v *visit) strike(ctx context.Context) (told int64, _ error) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		if told = v.books.Live().Orders; told >= v.lab.Stock/2 {
			return told, v.house.kill()
		}
		select {
		case <-ctx.Done():
			return 0, nil
		case <-look.C:
		}
	}
}

const (
	// backIn is the longest time for which a unit may be on its way back.
	backIn = 2 * time.Second
	// quiet is how long nobody got anything when what is left cannot be sold.
	quiet = backIn + 500*time.Millisecond
	// quietRounds is in how many rounds at least: one in which everybody waited long and
	// was told to come again lasts longer than quiet, and has asked nobody afterwards.
	quietRounds = 3
	// together and apart are how many of a round of late buyers come in one instant,
	// and one after the other.
	together, apart = 8, 8
	apartBy         = 20 * time.Millisecond
	roundEach       = 250 * time.Millisecond
)

// late lets buyers come, in rounds, until nobody has got a unit for longer than one may
// be on its way back and some rounds, or as many units are known to be held as there are,
// and one more round has not changed that.
func (v *visit) late(ctx context.Context, from int32) error {
	next, clicks := from, make(map[int32]int16)
	last, empty := time.Now(), 0
	for full := false; ; {
		plan := make([]traffic.Visit, 0, together+apart)
		for i := range together + apart {
			at := time.Duration(max(0, i-together+1)) * apartBy
			plan = append(plan, traffic.Visit{At: at, Buyer: next, Click: clicks[next], Kind: traffic.Buy})
			clicks[next]++
			if next++; int(next) == v.lab.cast.Size() {
				next = from // those who got nothing try again, with a fresh click
			}
		}
		begun := time.Now()
		seen, err := traffic.Run(ctx, v.targets, plan, v.script, traffic.Options{
			Connections: together, Followers: together, Timeout: answerTime, Slot: grain, Drain: drainTime,
		})
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if seen.Verdicts[traffic.Buy][buyers.Taken] > 0 {
			last, empty = time.Now(), 0
		} else if empty++; over(full, empty, time.Since(last)) {
			return nil
		}
		full = v.held() >= v.lab.Stock
		pause := time.NewTimer(roundEach - time.Since(begun))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}

// over reports whether late buyers may stop coming when nobody has got a unit for some
// rounds and some time. full says that, before the last round, as many units were known to
// be held as there are.
func over(full bool, rounds int, since time.Duration) bool {
	return rounds > 0 && (full || rounds >= quietRounds && since > quiet)
}

// held returns how many units buyers hold, as far as they know.
func (v *visit) held() int64 {
	told := v.books.Live()
	return told.Reserved - told.Cancelled
}

// broken returns what answers broke by themselves, and buyers who were left waiting.
func (v *visit) broken() findings {
	var f findings
	var notes []string
	for _, fault := range v.books.Faults() {
		f.broken += fault.Count
		notes = append(notes, fmt.Sprintf("%s: %s (%d times)", fault.Promise, fault.Example, fault.Count))
	}
	if n := v.books.Live().Waiting; n > 0 {
		f.broken += n
		notes = append(notes, fmt.Sprintf("P5: %d queued orders were never judged", n))
	}
	f.note = strings.Join(notes, "; ")
	return f
}

// drawSeed returns a seed that is short, to be typed again.
func drawSeed() uint64 {
	return uint64(rand.Uint32())%1_000_000 + 1 //nolint:gosec // not a secret
}
