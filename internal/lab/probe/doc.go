// Package probe reads what a server, its Redis, its PostgreSQL and its nginx tell of
// themselves while a crowd runs, once in an interval, as series in time.
//
// # What it costs
//
// Each source is asked by one goroutine over one connection, never twice at once: a
// source that is slow to answer is asked more rarely. What is asked for is cheap (the
// metrics, INFO, a few rows of statistics), and there are no retries.
//
// # How to read the series
//
// A rate is the mean of the time since the point before, and stands at its end; a mean
// size or time is that of the events in it, so where nothing happened there is no
// point. A source that fails to answer leaves a gap and a Note. Counters that begin
// again, because what counts them was started again, give no rate over that time.
//
// The instant of a point is the middle of its reading. Readings of different sources
// are not of one instant: two figures of a sale that moves fast may differ by what was
// sold in the milliseconds between.
package probe
