package sale

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func later() time.Time { return noon().Add(time.Minute) }

func TestApplyEveryActionInEveryState(t *testing.T) {
	t.Parallel()
	const refused = State("")
	actions := []Action{
		ActionUpdate, ActionRestock, ActionPublish, ActionPause, ActionResume, ActionClose,
		ActionDelete, ActionCreate, "unheard",
	}
	for from, want := range map[State][]State{
		//               update          restock         publish         pause        resume          close        delete        create   unheard
		Draft:     {Draft, Draft, Published, refused, refused, refused, Deleted, refused, refused},
		Published: {Published, Published, refused, Paused, refused, Closed, refused, refused, refused},
		Paused:    {Paused, Paused, refused, refused, Published, Closed, refused, refused, refused},
		Closed:    {refused, refused, refused, refused, refused, refused, Deleted, refused, refused},
		Deleted:   {refused, refused, refused, refused, refused, refused, refused, refused, refused},
	} {
		for i, action := range actions {
			s := good()
			s.State = from
			before := s.Clone()
			next, err := s.Apply(Change{Action: action, Restock: Restock{SKU: "shoe", Add: 1}}, later())
			require.Equal(t, before, s, "the receiver stays as it is")
			if want[i] == refused {
				require.Error(t, err, "%s a %s sale", action, from)
				require.NotEqual(t, CodeUnavailable, CodeOf(err))
				continue
			}
			require.NoError(t, err, "%s a %s sale", action, from)
			require.Equal(t, want[i], next.State)
			require.Equal(t, before.Version+1, next.Version)
			require.Equal(t, before.Terms, next.Terms)
			require.Equal(t, later(), next.UpdatedAt)
		}
	}
	s := good()
	s.State = Deleted
	_, err := s.Apply(Change{Action: ActionUpdate}, later())
	require.Equal(t, SaleNotFound(), err)
}

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patch Patch
		edit  func(*Sale) // of the sale before, to what is wanted
		terms int64
	}{
		"nothing":   {patch: Patch{}, edit: func(*Sale) {}},
		"title":     {patch: Patch{Title: new("New")}, edit: func(s *Sale) { s.Title = "New" }},
		"no title":  {patch: Patch{Title: new("")}, edit: func(s *Sale) { s.Title = "" }},
		"start":     {patch: Patch{StartsAt: new(later())}, edit: func(s *Sale) { s.StartsAt = later() }},
		"end":       {patch: Patch{EndsAt: new(later())}, edit: func(s *Sale) { s.EndsAt = later() }},
		"limit":     {patch: Patch{PerUserLimit: new(int64(5))}, edit: func(s *Sale) { s.PerUserLimit = 5 }},
		"rule":      {patch: Patch{LimitRule: new(LimitEverPaid)}, edit: func(s *Sale) { s.LimitRule = LimitEverPaid }},
		"patience":  {patch: Patch{MaxUnpaidHolds: new(int64(0))}, edit: func(s *Sale) { s.MaxUnpaidHolds = 0 }},
		"cool-down": {patch: Patch{CoolDown: new(time.Duration(0))}, edit: func(s *Sale) { s.CoolDown = 0 }},
		"hold":      {patch: Patch{Hold: new(time.Hour)}, edit: func(s *Sale) { s.Hold = time.Hour }, terms: 1},
		"same hold": {patch: Patch{Hold: new(DefaultHold)}, edit: func(*Sale) {}},
		"currency":  {patch: Patch{Currency: new("USD")}, edit: func(s *Sale) { s.Currency = "USD" }, terms: 1},
		"price": {
			patch: Patch{Items: []ItemPatch{{SKU: "sock", Price: new(int64(5))}}},
			edit:  func(s *Sale) { s.Items[1].Price = 5 }, terms: 1,
		},
		"two prices, once": {
			patch: Patch{Currency: new("USD"), Items: []ItemPatch{{SKU: "sock", Price: new(int64(5))}, {SKU: "shoe", Price: new(int64(6))}}},
			edit:  func(s *Sale) { s.Currency, s.Items[0].Price, s.Items[1].Price = "USD", 6, 5 }, terms: 1,
		},
		"item title": {
			patch: Patch{Items: []ItemPatch{{SKU: "sock", Title: new("Sock")}}},
			edit:  func(s *Sale) { s.Items[1].Title = "Sock" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			next, err := s.Apply(Change{Action: ActionUpdate, Patch: c.patch}, later())
			require.NoError(t, err)
			want := good()
			c.edit(&want)
			want.Version, want.Terms, want.UpdatedAt = 2, 1+c.terms, later()
			require.Equal(t, want, next)
			require.Equal(t, good(), s)
		})
	}
}

func TestApplyRefusesWhatCouldNotBeSold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patch Patch
		code  Code
	}{
		"end before start":         {Patch{EndsAt: new(noon())}, CodeInvalid},
		"limit 0":                  {Patch{PerUserLimit: new(int64(0))}, CodeInvalid},
		"price beyond the limit":   {Patch{PerUserLimit: new(int64(MaxPerUserLimit)), Items: []ItemPatch{{SKU: "shoe", Price: new(int64(MaxInteger / 2))}}}, CodeInvalid},
		"limit beyond the price":   {Patch{PerUserLimit: new(int64(3)), Items: []ItemPatch{{SKU: "shoe", Price: new(int64(MaxInteger / 2))}}}, CodeInvalid},
		"price below 0":            {Patch{Items: []ItemPatch{{SKU: "shoe", Price: new(int64(-1))}}}, CodeInvalid},
		"unknown item":             {Patch{Items: []ItemPatch{{SKU: "boot", Price: new(int64(1))}}}, CodeItemNotFound},
		"no item named":            {Patch{Items: []ItemPatch{{Price: new(int64(1))}}}, CodeItemNotFound},
		"one good and one unknown": {Patch{Items: []ItemPatch{{SKU: "shoe", Price: new(int64(1))}, {SKU: "boot"}}}, CodeItemNotFound},
	} {
		s := good()
		_, err := s.Apply(Change{Action: ActionUpdate, Patch: c.patch}, later())
		require.Equal(t, c.code, CodeOf(err), name)
		require.Equal(t, good(), s, name)
	}
}

func TestApplyRestock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		restock Restock
		stock   int64 // of the shoe, which has 4 of 10 sold; -1 if refused
		code    Code
	}{
		"add":                      {restock: Restock{SKU: "shoe", Add: 5}, stock: 15},
		"add nothing":              {restock: Restock{SKU: "shoe"}, stock: 10},
		"cut to what is sold":      {restock: Restock{SKU: "shoe", Add: -6}, stock: 4},
		"cut below what is sold":   {restock: Restock{SKU: "shoe", Add: -7}, code: CodeStockBelowSold},
		"cut below zero":           {restock: Restock{SKU: "shoe", Add: -11}, code: CodeInvalid},
		"total":                    {restock: Restock{SKU: "shoe", Total: new(int64(120))}, stock: 120},
		"total of what is sold":    {restock: Restock{SKU: "shoe", Total: new(int64(4))}, stock: 4},
		"total below what is sold": {restock: Restock{SKU: "shoe", Total: new(int64(3))}, code: CodeStockBelowSold},
		"total 0":                  {restock: Restock{SKU: "shoe", Total: new(int64(0))}, code: CodeStockBelowSold},
		"total below 0":            {restock: Restock{SKU: "shoe", Total: new(int64(-1))}, code: CodeInvalid},
		"total wins over add":      {restock: Restock{SKU: "shoe", Add: 99, Total: new(int64(20))}, stock: 20},
		"largest total":            {restock: Restock{SKU: "shoe", Total: new(int64(MaxInteger))}, stock: MaxInteger},
		"total beyond":             {restock: Restock{SKU: "shoe", Total: new(int64(MaxInteger + 1))}, code: CodeInvalid},
		"largest sum":              {restock: Restock{SKU: "shoe", Add: MaxInteger - 10}, stock: MaxInteger},
		"sum beyond":               {restock: Restock{SKU: "shoe", Add: MaxInteger - 9}, code: CodeInvalid},
		"add of all bits":          {restock: Restock{SKU: "shoe", Add: math.MaxInt64}, code: CodeInvalid},
		"cut of all bits":          {restock: Restock{SKU: "shoe", Add: math.MinInt64}, code: CodeInvalid},
		"which item":               {restock: Restock{Add: 1}, code: CodeItemNotFound},
		"unknown item":             {restock: Restock{SKU: "boot", Add: 1}, code: CodeItemNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			next, err := s.Apply(Change{Action: ActionRestock, Restock: c.restock}, later())
			require.Equal(t, good(), s)
			if c.code != "" {
				require.Equal(t, c.code, CodeOf(err))
				return
			}
			require.NoError(t, err)
			want := good()
			want.Items[0].Stock, want.Version, want.UpdatedAt = c.stock, 2, later()
			require.Equal(t, want, next)
		})
	}
	s := good()
	s.Items = s.Items[:1]
	next, err := s.Apply(Change{Action: ActionRestock, Restock: Restock{Add: 1}}, later())
	require.NoError(t, err, "the only item needs no name")
	require.Equal(t, int64(11), next.Items[0].Stock)
}

// FuzzRestock: whatever is asked, an accepted total is within bounds and never
// below what is sold.
func FuzzRestock(f *testing.F) {
	f.Add(int64(5), int64(0), false)
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), true)
	f.Fuzz(func(t *testing.T, add, total int64, absolute bool) {
		s, r := good(), Restock{SKU: "shoe", Add: add}
		if absolute {
			r.Total = &total
		}
		next, err := s.Apply(Change{Action: ActionRestock, Restock: r}, later())
		if err != nil {
			return
		}
		require.NoError(t, next.Check())
		require.GreaterOrEqual(t, next.Items[0].Stock, s.Items[0].Sold)
		want := s.Items[0].Stock + add
		if absolute {
			want = total
		}
		require.Equal(t, want, next.Items[0].Stock)
		require.Equal(t, s.Items[0].Sold, next.Items[0].Sold)
	})
}
