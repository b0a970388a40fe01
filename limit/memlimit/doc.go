// Package memlimit keeps limits in the memory of one process: for programs that run
// alone, for the limits of an instance in front of shared ones, and for tests. Its
// clock is the process's monotonic one, so no step of the wall clock matters.
//
// Memory is bounded by Options.MaxSubjects. A subject is forgotten only when nothing
// of it counts any more. If there is no room left for a new one, the policies of its
// rates decide, and its decisions are Degraded: Open admits, Closed refuses, and
// Local counts it together with all others that found no room. So a flood of made-up
// subjects gets no more, all together, than a few of them would.
package memlimit
