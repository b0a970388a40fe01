package contest

import (
	"slices"
	"strings"

	"github.com/doorbuster/doorbuster/internal/lab/strategy"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// contender is a row that is to be filled.
type contender struct {
	Row
	needs
	// kill says that one of two processes is killed when half of the stock is sold.
	kill  bool
	house func(l *lab) house
}

// contenders returns all rows: strategies from the worst to the best, then Doorbuster.
func contenders() []contender {
	var all []contender
	for _, s := range strategy.All() {
		row := Row{
			Name: s.Name, Title: s.Title, Fault: s.Fault, Why: s.Why,
			Expect: string(s.Expect), Accident: string(s.Accident), Ours: s.Ours,
		}
		all = append(all, contender{
			Row: row, needs: needs{redis: s.Redis, postgres: true},
			house: func(l *lab) house { return &shops{lab: l, info: s.Info} },
		})
	}
	const crash = "one of the two processes is killed when half of the stock is sold"
	one, two := needs{postgres: true}, needs{postgres: true, redis: true}
	return append(
		all,
		ours("doorbuster_sqlite", "Doorbuster, one process on SQLite", "", needs{},
			"Clicks that come together are decided by one transaction that looks at stock, limit and identity. "+
				"An order's id follows from buyer and click, so a click that comes twice finds its order."),
		ours("doorbuster_postgres", "Doorbuster, two processes on PostgreSQL", "", one,
			"The same transaction in PostgreSQL. It locks the row of the sale once for a batch of buyers, not once for each."),
		ours("doorbuster_postgres_crash", "The same, and one is killed", crash, one,
			"What was committed is there, what was not never happened, and a buyer who got no answer clicks again and gets his own order."),
		ours("doorbuster_fast", "Doorbuster, two processes, Redis and PostgreSQL", "", two,
			"A script in Redis turns the crowd away, and leaves a slip for each winner in the step that takes the unit. "+
				"The ledger judges the slips in batches, and only what it has accepted is an order."),
		ours("doorbuster_fast_crash", "The same, and one is killed", crash, two,
			"Slips lie in Redis, not in the process: the other one takes over those that were in hand. "+
				"A slip that is judged twice has the same id twice, and is one order."),
	)
}

// ours returns a row of Doorbuster's.
func ours(name, title, fault string, needs needs, why string) contender {
	instances := 1
	if needs.postgres {
		instances = 2
	}
	return contender{
		Row:   Row{Name: name, Title: title, Fault: fault, Why: why, Expect: Clean, Ours: true},
		needs: needs, kill: fault != "",
		house: func(l *lab) house { return &doorbuster{lab: l, name: name, instances: instances, needs: needs} },
	}
}

// Names lists the rows there are.
func Names() []string {
	all := contenders()
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// choose returns the rows of the given names, in their own order; none is all. A name
// that is none is CodeInvalid.
func choose(names []string) ([]contender, error) {
	all := contenders()
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c contender) bool { return c.Name == name }) {
			return nil, sale.Invalid("only", "there is no row "+name, "choose from "+strings.Join(Names(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(c contender) bool { return !slices.Contains(names, c.Name) }), nil
}
