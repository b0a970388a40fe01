package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// stage is the sale that a crowd comes to.
type stage struct {
	admin *client.Client
	sale  client.AdminSale
	ours  bool          // it was made for this run, or may have been
	ahead time.Duration // of the server's clock before ours
	start time.Time     // the plan's zero, by our clock
}

const (
	// callTime bounds one try of an operator's call; an audit counts all orders again.
	callTime = time.Minute
	// clockReads is how often the server's clock is read; the quickest answer tells
	// best.
	clockReads = 5
	// mostPatience is how far off the start of a sale may be that exists.
	mostPatience = time.Hour
	// warmTime is how long before the first visit the connections are opened.
	warmTime = 1500 * time.Millisecond
)

// reach calls every instance and returns a client for the first.
func (o *Options) reach(ctx context.Context) (*client.Client, error) {
	var first *client.Client
	for _, url := range o.URLs {
		c, err := client.New(client.Options{
			URL: url, Token: o.Key, UserAgent: "doorbuster-bench/" + o.Version,
			Retry: client.Retry{Tries: 3, TryTimeout: callTime},
		})
		if err != nil {
			return nil, err
		}
		if _, err = c.Sales(ctx); err != nil {
			return nil, named(url, err)
		}
		if first == nil {
			first = c
		}
	}
	return first, nil
}

// named returns an error of a client's that says which server it is about.
func named(url string, err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", url, err)
	}
	out := *e
	out.Detail = url + ": " + e.Detail
	return &out
}

// open makes the sale, or finds it, and fixes the start.
func (o *Options) open(ctx context.Context, run string) (*stage, error) {
	api, err := o.reach(ctx)
	if err != nil {
		return nil, err
	}
	s := &stage{admin: api}
	if o.Sale.ID != "" {
		err = s.find(ctx, o)
	} else {
		err = s.make(ctx, o, run)
	}
	if err == nil {
		s.start = steady(s.start)
		err = s.gate(ctx)
	}
	return s, err
}

// steady returns the instant as this process's steady clock knows it, so that a wall
// clock that is set meanwhile moves nothing.
func steady(t time.Time) time.Time {
	now := time.Now()
	return now.Add(t.Sub(now))
}

// find takes a sale that exists: at its start, or, where it sells already, soon.
func (s *stage) find(ctx context.Context, o *Options) error {
	var err error
	if s.sale, err = s.admin.AdminSale(ctx, o.Sale.ID); err != nil {
		return err
	}
	if err = s.readClock(ctx); err != nil {
		return err
	}
	soon := time.Now().Add(warmTime + o.Profile.Before)
	switch opens := s.sale.StartsAt.Add(lead - s.ahead); s.sale.Status {
	case "live":
		s.start = soon
	case "scheduled":
		s.start = opens
		if opens.Before(soon) {
			return refuse(fmt.Sprintf("the sale %s starts in %v; this crowd comes %v before that", s.sale.ID, time.Until(opens).Round(time.Millisecond), o.Profile.Before), "come earlier, or wait until it is live")
		}
		if time.Until(opens) > mostPatience {
			return refuse(fmt.Sprintf("the sale %s starts only at %v", s.sale.ID, s.sale.StartsAt.UTC().Format(time.RFC3339)), "come within the hour before its start")
		}
	default:
		return refuse(fmt.Sprintf("the sale %s is %s", s.sale.ID, s.sale.Status), "name one that is scheduled or live")
	}
	return nil
}

// make creates, publishes and heats a sale of our own.
func (s *stage) make(ctx context.Context, o *Options, id string) error {
	if err := s.readClock(ctx); err != nil {
		return err
	}
	opens := time.Now().Add(s.ahead + o.Sale.In + o.Profile.Before).Truncate(time.Millisecond)
	hold := int64(o.Sale.Hold / time.Second)
	s.sale.ID, s.ours = id, true // from here on, even if the answer is lost
	_, err := s.admin.CreateSale(ctx, client.NewSale{
		ID: id, Title: "Bench", StartsAt: instant(opens), EndsAt: instant(opens.Add(saleLength)),
		PerUserLimit: o.Sale.Limit, HoldSeconds: &hold, Currency: currency, PreferredPath: o.Sale.Path,
		Items: []client.NewItem{{SKU: item, Title: "Unit", Price: price, Stock: o.Sale.Stock}},
	})
	if err != nil {
		s.ours = client.CodeOf(err).Unsure() // else it was refused
		return err
	}
	made, err := s.admin.Publish(ctx, id)
	if err == nil && made.PreferredPath == "fast" {
		made, err = s.admin.Preheat(ctx, id)
	}
	if err != nil {
		return err
	}
	s.sale = made
	s.start = opens.Add(lead - s.ahead)
	if late := time.Until(s.start) - o.Profile.Before; late < warmTime/2 {
		return refuse(fmt.Sprintf("opening the sale took so long that the crowd would have to come in %v", late.Round(time.Millisecond)), "give it more time with a longer --in")
	}
	return nil
}

// refuse returns the error of a sale that this crowd cannot come to.
func refuse(message, hint string) error {
	return &sale.Error{Code: sale.CodeIllegalState, Message: message, Hint: hint}
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// readClock reads how far the ledger's clock is ahead of ours.
func (s *stage) readClock(ctx context.Context) error {
	best := time.Duration(math.MaxInt64)
	for range clockReads {
		asked := time.Now()
		stats, err := s.admin.Stats(ctx)
		took := time.Since(asked)
		if err != nil {
			return err
		}
		if took < best {
			best, s.ahead = took, stats.Time.Sub(asked.Add(took/2))
		}
	}
	return nil
}

// gate refuses a sale that sells only to those who bring a pass, since this crowd
// brings none.
func (s *stage) gate(ctx context.Context) error {
	g, err := s.admin.GateSettings(ctx)
	if e, failed := errors.AsType[*client.Error](err); failed && (e.Status == http.StatusNotFound || e.Status == http.StatusConflict) {
		return nil // there is no gate
	}
	if err != nil {
		return err
	}
	var settings struct {
		Sales map[string]struct {
			Pass bool `json:"pass"`
			Path bool `json:"hidden_path"`
		} `json:"sales"`
	}
	if err := json.Unmarshal(g.Settings, &settings); err != nil {
		return fmt.Errorf("the gate's settings cannot be read: %w", err)
	}
	if rules := settings.Sales[s.sale.ID]; rules.Pass || rules.Path {
		return refuse("the sale "+s.sale.ID+" sells with a pass only, and this crowd has none", "take it out of the gate's settings while it is measured (doorbuster gate set), or measure a sale made for it")
	}
	return nil
}

// close ends a sale that was made for this run, however far its making came.
func (s *stage) close(ctx context.Context, o *Options) error {
	if !s.ours || o.Sale.Keep {
		return nil
	}
	_, err := s.admin.CloseSale(ctx, s.sale.ID)
	if errors.Is(err, client.ErrIllegalState) {
		err = s.discard(ctx)
	}
	if errors.Is(err, client.ErrSaleNotFound) {
		return nil // it was never made
	}
	return err
}

// discard deletes a draft that nobody has published.
func (s *stage) discard(ctx context.Context) error {
	draft, err := s.admin.AdminSale(ctx, s.sale.ID)
	if err != nil {
		return err
	}
	return s.admin.DeleteSale(ctx, draft.ID, draft.Version)
}

// serverVersion asks the first ops listener which version it runs; empty if it does not tell.
func (o *Options) serverVersion(ctx context.Context) string {
	if len(o.Probe.Ops) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(o.Probe.Ops[0], "/")+"/metrics", http.NoBody)
	if err != nil {
		return ""
	}
	if o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+o.Key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, longestMetrics))
	for lines.Scan() {
		if _, rest, is := strings.Cut(lines.Text(), `build_info{version="`); is {
			version, _, _ := strings.Cut(rest, `"`)
			return version
		}
	}
	return ""
}

const (
	versionTime    = 5 * time.Second
	longestMetrics = 4 << 20
)
