package sale

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func noon() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }

func good() Sale {
	return Sale{
		Number: 7, Slug: "drop", Key: counting(), State: Draft, Terms: 1, Version: 1, Path: PathDirect, Epoch: 1,
		Rules: Rules{
			Title: "Drop", StartsAt: noon(), EndsAt: noon().Add(time.Hour), PerUserLimit: 2, LimitRule: LimitLive,
			Hold: DefaultHold, MaxUnpaidHolds: DefaultMaxUnpaidHolds, CoolDown: DefaultCoolDown, Currency: "EUR",
		},
		Items: []Item{{SKU: "shoe", Title: "Shoe", Stock: 10, Sold: 4, Price: 1250}, {SKU: "sock", Stock: 3, Price: 0}},
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit  func(*Sale)
		field string // of the refusal; empty if it is good
	}{
		"as it is":                {func(*Sale) {}, ""},
		"one millisecond long":    {func(s *Sale) { s.EndsAt = s.StartsAt.Add(time.Millisecond) }, ""},
		"long ago":                {func(s *Sale) { s.StartsAt, s.EndsAt = time.Unix(1, 0), time.Unix(2, 0) }, ""},
		"end is start":            {func(s *Sale) { s.EndsAt = s.StartsAt }, "ends_at"},
		"end before start":        {func(s *Sale) { s.EndsAt = s.StartsAt.Add(-time.Millisecond) }, "ends_at"},
		"no start":                {func(s *Sale) { s.StartsAt = time.Time{} }, "starts_at"},
		"no end":                  {func(s *Sale) { s.EndsAt = time.Time{} }, "ends_at"},
		"limit 0":                 {func(s *Sale) { s.PerUserLimit = 0 }, "per_user_limit"},
		"limit below 0":           {func(s *Sale) { s.PerUserLimit = -1 }, "per_user_limit"},
		"largest limit":           {func(s *Sale) { s.PerUserLimit = MaxPerUserLimit }, ""},
		"limit beyond":            {func(s *Sale) { s.PerUserLimit = MaxPerUserLimit + 1 }, "per_user_limit"},
		"limit of all bits":       {func(s *Sale) { s.PerUserLimit = math.MaxInt64 }, "per_user_limit"},
		"ever paid":               {func(s *Sale) { s.LimitRule = LimitEverPaid }, ""},
		"no limit rule":           {func(s *Sale) { s.LimitRule = "" }, "limit_rule"},
		"shortest hold":           {func(s *Sale) { s.Hold = MinHold }, ""},
		"hold too short":          {func(s *Sale) { s.Hold = MinHold - 1 }, "hold_seconds"},
		"longest hold":            {func(s *Sale) { s.Hold = MaxHold }, ""},
		"hold too long":           {func(s *Sale) { s.Hold = MaxHold + 1 }, "hold_seconds"},
		"no cap on unpaid holds":  {func(s *Sale) { s.MaxUnpaidHolds = 0 }, ""},
		"cap below 0":             {func(s *Sale) { s.MaxUnpaidHolds = -1 }, "max_unpaid_holds"},
		"cap beyond":              {func(s *Sale) { s.MaxUnpaidHolds = MaxPerUserLimit + 1 }, "max_unpaid_holds"},
		"no cool-down":            {func(s *Sale) { s.CoolDown = 0 }, ""},
		"cool-down below 0":       {func(s *Sale) { s.CoolDown = -1 }, "cool_down_seconds"},
		"cool-down too long":      {func(s *Sale) { s.CoolDown = MaxCoolDown + 1 }, "cool_down_seconds"},
		"currency":                {func(s *Sale) { s.Currency = "eur" }, "currency"},
		"longest title":           {func(s *Sale) { s.Title = strings.Repeat("é", 100) }, ""},
		"title too long":          {func(s *Sale) { s.Title = strings.Repeat("é", 100) + "a" }, "title"},
		"title of two lines":      {func(s *Sale) { s.Title = "a\nb" }, "title"},
		"title not UTF-8":         {func(s *Sale) { s.Title = "\xff" }, "title"},
		"slug":                    {func(s *Sale) { s.Slug = "Drop" }, "sale"},
		"no items":                {func(s *Sale) { s.Items = nil }, "items"},
		"most items":              {func(s *Sale) { s.Items = items(MaxItems) }, ""},
		"too many items":          {func(s *Sale) { s.Items = items(MaxItems + 1) }, "items"},
		"an item twice":           {func(s *Sale) { s.Items[1].SKU = "shoe" }, "items"},
		"items of different case": {func(s *Sale) { s.Items[1].SKU = "Shoe" }, ""},
		"no SKU":                  {func(s *Sale) { s.Items[0].SKU = "" }, "item"},
		"item title":              {func(s *Sale) { s.Items[0].Title = "\x00" }, "items.title"},
		"no stock":                {func(s *Sale) { s.Items[1].Stock = 0 }, ""},
		"stock below 0":           {func(s *Sale) { s.Items[1].Stock = -1 }, "items.stock"},
		"largest stock":           {func(s *Sale) { s.Items[0].Stock = MaxInteger }, ""},
		"stock beyond":            {func(s *Sale) { s.Items[0].Stock = MaxInteger + 1 }, "items.stock"},
		"price below 0":           {func(s *Sale) { s.Items[0].Price = -1 }, "items.price"},
		"largest price for two":   {func(s *Sale) { s.Items[0].Price = MaxInteger / 2 }, ""},
		"price beyond for two":    {func(s *Sale) { s.Items[0].Price = MaxInteger/2 + 1 }, "items.price"},
		"largest price for one":   {func(s *Sale) { s.PerUserLimit, s.Items[0].Price = 1, MaxInteger }, ""},
		"price beyond for one":    {func(s *Sale) { s.PerUserLimit, s.Items[0].Price = 1, MaxInteger+1 }, "items.price"},
		"price of all bits":       {func(s *Sale) { s.Items[0].Price = math.MaxInt64 }, "items.price"},
		"largest price for a million": {func(s *Sale) {
			s.PerUserLimit, s.Items[0].Price = MaxPerUserLimit, MaxInteger/MaxPerUserLimit
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			c.edit(&s)
			err := s.Check()
			if c.field == "" {
				require.NoError(t, err)
				for i := range s.Items {
					require.LessOrEqual(t, s.Items[i].Price*s.PerUserLimit, int64(MaxInteger), "every amount is exact")
				}
				return
			}
			coded, ok := errors.AsType[*Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, CodeInvalid, coded.Code)
			require.Equal(t, c.field, coded.Field)
			require.NotEmpty(t, coded.Hint)
		})
	}
}

func items(n int) []Item {
	out := make([]Item, n)
	for i := range out {
		out[i].SKU = fmt.Sprint("item-", i)
	}
	return out
}

func TestStatus(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	s := good()
	start, end := s.StartsAt, s.EndsAt
	for _, c := range []struct {
		state State
		at    time.Time
		want  Status
	}{
		{Draft, start, StatusDraft},
		{Draft, end, StatusDraft},
		{Published, start.Add(-ms), StatusScheduled},
		{Published, start, StatusLive},
		{Published, start.Add(ms), StatusLive},
		{Published, end.Add(-ms), StatusLive},
		{Published, end, StatusEnded},
		{Published, end.Add(ms), StatusEnded},
		{Paused, start.Add(-ms), StatusScheduled},
		{Paused, start, StatusPaused},
		{Paused, end.Add(-ms), StatusPaused},
		{Paused, end, StatusEnded},
		{Closed, start.Add(-ms), StatusClosed},
		{Closed, start, StatusClosed},
		{Closed, end, StatusClosed},
		{Deleted, start, StatusDeleted},
	} {
		s.State = c.state
		require.Equal(t, c.want, s.Status(c.at), "%s at %v", c.state, c.at)
		require.Equal(t, c.want, s.Status(c.at.In(time.FixedZone("", -3600))), "the zone of an instant says nothing")
		require.Equal(t, c.state != Draft && c.state != Deleted, s.Visible())
	}
}

func TestItem(t *testing.T) {
	t.Parallel()
	s := good()
	for sku, want := range map[string]int{"shoe": 0, "sock": 1} {
		i, err := s.Item(sku)
		require.NoError(t, err)
		require.Equal(t, want, i)
	}
	for _, sku := range []string{"", "Shoe", "shoe ", "boot"} {
		_, err := s.Item(sku)
		require.Equal(t, ItemNotFound(), err, "%q", sku)
	}
	s.Items = s.Items[:1]
	i, err := s.Item("")
	require.NoError(t, err)
	require.Zero(t, i)
	_, err = s.Item("sock")
	require.Error(t, err)
}

func TestLeft(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int64{{10, 0, 10}, {10, 10, 0}, {10, 9, 1}, {3, 4, 0}, {0, 0, 0}, {MaxInteger, 1, MaxInteger - 1}} {
		it := Item{Stock: c[0], Sold: c[1]}
		require.Equal(t, c[2], it.Left())
	}
}

func TestClone(t *testing.T) {
	t.Parallel()
	s := good()
	c := s.Clone()
	require.Equal(t, s, c)
	c.Items[0].Sold, c.Title = 9, "other"
	require.Equal(t, good(), s)
}

func TestCanBecome(t *testing.T) {
	t.Parallel()
	legal := map[OrderState][]OrderState{
		Queued:   {Reserved, Rejected, Cancelled, Paid},
		Reserved: {Paid, Cancelled, Expired},
		Paid:     {Refunded},
	}
	live := map[OrderState]bool{Reserved: true, Paid: true}
	open := map[OrderState]bool{Queued: true, Reserved: true}
	states := append(OrderStates(), "", "unheard")
	require.Len(t, states, 9)
	for _, from := range states {
		for _, to := range states {
			want := false
			for _, l := range legal[from] {
				want = want || l == to
			}
			require.Equal(t, want, from.CanBecome(to), "%q to %q", from, to)
		}
	}
	for _, s := range OrderStates() {
		require.Equal(t, live[s], s.Live(), "%s", s)
		require.Equal(t, !open[s], s.Final(), "%s", s)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk full")
	err := fmt.Errorf("reserve: %w", Unavailable(cause))
	require.Equal(t, CodeUnavailable, CodeOf(err))
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, &Error{Code: CodeUnavailable})
	require.NotErrorIs(t, err, &Error{Code: CodeBusy})
	require.NotErrorIs(t, err, errors.New("disk full"))
	require.Contains(t, err.Error(), "disk full")
	coded, ok := errors.AsType[*Error](err)
	require.True(t, ok)
	require.NotContains(t, coded.Message+coded.Hint, "disk", "what a client sees names no internals")
	require.True(t, coded.Retry)
	require.True(t, Busy().Retry)
	require.Equal(t, CodeUnavailable, CodeOf(cause), "what has no code is infrastructure trouble")
	require.Equal(t, "invalid_request: too long (title)", Invalid("title", "too long", "shorten it").Error())
	require.Equal(t, CodeInvalidQuantity, CodeOf(InvalidQuantity(2)))
	require.Contains(t, InvalidQuantity(2).Hint, "1 to 2")
	require.Equal(t, CodeSaleNotFound, CodeOf(SaleNotFound()))
}
