// Package contest is the `doorbuster lab` command: it sends one and the same crowd at
// every strategy of package strategy and at Doorbuster itself, recounts each time
// what was sold, and puts the accidents and the cure side by side.
//
// # A row
//
// A house is what sells in one row: two processes of a strategy, or `doorbuster serve`
// once or twice. Rows run one after the other, each in a house of its own:
//
//	open     a fresh stock, the processes, empty books
//	rush     the crowd, in one instant; some click twice, some winners cancel at once
//	         and, in some rows, a process is killed in the middle
//	late     buyers come until nobody has got a unit for longer than a unit may be
//	         on its way back: what is left then cannot be sold
//	recount  the orders in the house's books against what the buyers were told
//
// The crowd is drawn once from the seed and is the same in all rows, users and keys of
// their clicks included. Nobody is asked how well he did: all figures come from
// answers and from rows of the database.
//
// # Ground
//
// PostgreSQL and Redis are the user's, or started for the run. In the user's the lab
// has databases of its own, and keys under a prefix of its own, and removes both.
package contest
