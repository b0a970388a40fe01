// Package bench measures the goals of speed. Each benchmark sets the product
// beside a baseline in the same run, turn by turn, and prints one line
//
//	RATIO <name> <value> <goal>
//
// where a value at or above the goal is good. Machines are noisy and differ;
// ratios of one run are what can be compared. Run them with `make bench`.
package bench
