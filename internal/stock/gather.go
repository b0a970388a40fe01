package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// maxRounds bounds a gathering that others keep getting ahead of.
	maxRounds = 24
	// wantFor is how long a lane that gathers more than one unit keeps its own.
	wantFor = 50 * time.Millisecond
	// wantPause is the pause of a gathering that gives way to such a lane.
	wantPause = 5 * time.Millisecond
)

// Gathering is one lane's search for units in the others.
type Gathering struct {
	Lanes []Lane // all of the sale's, by index
	Epoch int64
	Home  int // index of the lane that is short
	// Generation is that of the home lane when it was found short.
	Generation uint64
	Short      []Shortage
	// Seen, if set, returns the highest sequence number of a lane that was seen so
	// far, and Saw is told the next; a lane below what was seen is stale.
	Seen func(index int) uint64
	Saw  func(index int, seq uint64)
}

// Shortage is what a lane lacks of an item.
type Shortage struct {
	Item  int
	Least int64 // with less than that nobody who waits can be served
	Most  int64 // with that everybody who waits could be
}

// Gathered is what came of a shortage.
type Gathered struct {
	// Short says that, at one instant after the lane was found short and while nothing
	// had come back to it, all lanes together had less than Least: Left. Otherwise it
	// is worth asking the home lane again.
	Short bool
	Left  int64
}

// ErrContended says that a gathering was overtaken again and again. Nothing is
// known of what is left.
var ErrContended = errors.New("stock: others took what was gathered")

// Gather brings units to a lane that is short, from the fullest first, or finds
// that there are not enough. It may stop anywhere: units on their way are brought
// home by whoever finds them. An error is ErrContended, that of a lane which is not
// open in the epoch (ErrCold, ErrFrozen, ErrEpoch, ErrStale), or ErrUnavailable.
//
// That there are not enough is read off two readings of all lanes between which no
// generation has moved: between the two, no unit came, went or came back.
func Gather(ctx context.Context, c Counter, g *Gathering) ([]Gathered, error) {
	for range maxRounds {
		at, err := g.read(ctx, c)
		if err != nil {
			return nil, err
		}
		r := round{Gathering: g, counter: c, at: at, out: make([]Gathered, len(g.Short))}
		settled, err := r.run(ctx)
		if settled || err != nil {
			return r.out, err
		}
		if r.gaveWay {
			if err := pause(ctx, wantPause); err != nil {
				return nil, err
			}
		}
	}
	return nil, ErrContended
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
}

// read reads all lanes, which must be open in the epoch.
func (g *Gathering) read(ctx context.Context, c Counter) ([]Standing, error) {
	seen := make([]uint64, len(g.Lanes))
	for i := range seen {
		if g.Seen != nil {
			seen[i] = g.Seen(i)
		}
	}
	at, err := c.ReadAll(ctx, g.Lanes)
	if err != nil {
		return nil, err
	}
	for i := range at {
		switch s := &at[i]; {
		case s.State == Cold:
			return nil, ErrCold
		case s.State == Frozen:
			return nil, ErrFrozen
		case s.Epoch != g.Epoch:
			return nil, ErrEpoch
		case s.Seq < seen[i]:
			return nil, ErrStale
		case g.Saw != nil:
			g.Saw(i, s.Seq)
		}
	}
	return at, nil
}

// round is one reading of the lanes and what is done about it.
type round struct {
	*Gathering
	counter Counter
	at      []Standing
	out     []Gathered
	gaveWay bool
}

// run reports whether every shortage is either proven or worth another try.
func (r *round) run(ctx context.Context) (bool, error) {
	if came, err := r.bringHome(ctx); came || err != nil {
		return true, err
	}
	var unproven []int
	settled := true
	for i := range r.Short {
		s := &r.Short[i]
		switch {
		case left(&r.at[r.Home], s.Item) >= s.Least:
		case Left(r.at, s.Item) < s.Least:
			unproven = append(unproven, i)
			if err := r.cover(ctx, s.Item); err != nil {
				return false, err
			}
		default:
			enough, err := r.pull(ctx, s)
			if err != nil {
				return false, err
			}
			settled = settled && enough
		}
	}
	if len(unproven) == 0 {
		return settled, nil
	}
	proven, err := r.prove(ctx, unproven)
	return settled && proven, err
}

// bringHome finishes the transfers that are on their way to the lane, and reports
// whether there were any.
func (r *round) bringHome(ctx context.Context) (came bool, err error) {
	for _, t := range Underway(r.at) {
		if t.To != r.Home {
			continue
		}
		came = true
		if err = r.receive(ctx, t); err != nil {
			break
		}
	}
	return came, err
}

// prove reads the lanes again, and finds shortages proven if nothing has moved and
// nothing was taken: then there was an instant at which just that was left.
func (r *round) prove(ctx context.Context, short []int) (bool, error) {
	again, err := r.read(ctx, r.counter)
	if err != nil {
		return false, err
	}
	for i := range again {
		if again[i].Generation != r.at[i].Generation {
			return false, nil
		}
	}
	if again[r.Home].Generation != r.Generation {
		return true, nil // something came since the lane was found short
	}
	for _, i := range short {
		units := Left(again, r.Short[i].Item)
		if units != Left(r.at, r.Short[i].Item) {
			return false, nil
		}
		r.out[i] = Gathered{Short: true, Left: max(0, units)}
	}
	return true, nil
}

// cover brings what there is to a lane that owes more: taken elsewhere, it would be
// refused by the judge.
func (r *round) cover(ctx context.Context, item int) error {
	owes := left(&r.at[r.Home], item)
	if owes >= 0 {
		return nil
	}
	_, err := r.pull(ctx, &Shortage{Item: item, Least: owes})
	return err
}

// pull moves units of one item home, and reports whether that is worth another try.
func (r *round) pull(ctx context.Context, s *Shortage) (bool, error) {
	if s.Least > 1 { // of two that gather a pair, one must get it
		if err := r.counter.Want(ctx, r.Lanes[r.Home], r.Epoch, wantFor); err != nil {
			return false, err
		}
	}
	got := left(&r.at[r.Home], s.Item)
	for _, from := range r.fullest(s.Item) {
		if got >= s.Most {
			break
		}
		t := Transfer{
			Epoch: r.Epoch, From: from, To: r.Home, Number: r.at[r.Home].Received[from] + 1, Item: s.Item,
			// Half of what is there spares the next ones the way.
			Units: max(s.Most-got, left(&r.at[from], s.Item)/2),
		}
		t, err := r.counter.Give(ctx, r.Lanes[from], t)
		if errors.Is(err, ErrWanted) {
			r.gaveWay = true
			continue
		}
		if err == nil && t.Units > 0 {
			err = r.receive(ctx, t)
			r.arrived(t)
		}
		if err != nil {
			return false, err
		}
		if t.Item == s.Item {
			got += t.Units
		}
	}
	if got >= s.Least {
		return true, nil
	}
	// What is missing was taken, or is on its way to a lane whose gathering ended.
	for _, t := range Underway(r.at) {
		if err := r.receive(ctx, t); err != nil {
			return false, err
		}
	}
	return false, nil
}

// arrived takes note of a number, so that units of another item can follow at once.
func (r *round) arrived(t Transfer) {
	home := &r.at[r.Home]
	if home.Received == nil {
		home.Received = make(map[int]uint64)
	}
	home.Received[t.From] = max(home.Received[t.From], t.Number)
}

func (r *round) receive(ctx context.Context, t Transfer) error {
	return r.counter.Receive(ctx, r.Lanes[t.To], t)
}

// fullest returns the other lanes that have units of an item, those with most first.
func (r *round) fullest(item int) []int {
	var out []int
	for i := range r.at {
		if i != r.Home && left(&r.at[i], item) > 0 {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(left(&r.at[b], item), left(&r.at[a], item)) })
	return out
}

// left is what a lane has of an item, below zero if more was adopted than it had;
// none of an item that has not reached it yet.
func left(s *Standing, item int) int64 {
	if item >= len(s.Left) {
		return 0
	}
	return s.Left[item]
}

// Left returns what lanes have of an item between them, with what is on its way.
func Left(at []Standing, item int) (units int64) {
	for i := range at {
		units += left(&at[i], item)
	}
	for _, t := range Underway(at) {
		if t.Item == item {
			units += t.Units
		}
	}
	return units
}

// Underway returns the transfers that were given and have not arrived, by source
// and target.
func Underway(at []Standing) []Transfer {
	var out []Transfer
	for from := range at {
		for to := range at {
			if t, given := at[from].Given[to]; given && t.Number > at[to].Received[from] {
				t.From = from
				out = append(out, t)
			}
		}
	}
	return out
}
