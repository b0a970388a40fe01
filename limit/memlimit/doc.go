// Package memlimit keeps limits in the memory of one process: for programs that run
// alone, for the limits of an instance in front of shared ones, and for tests. Its
// clock is the process's monotonic one, so no step of the wall clock matters.
//
// Memory is bounded by Options.MaxSubjects. A subject is forgotten only when nothing
// of it counts any more. If there is no room left for a new one, the policies of its
// rates decide, and its decisions are Degraded: Open admits, Closed refuses, and
// Local counts it together with all others that found no room, in one of 64 counts. So
// a flood of made-up subjects gets no more, all together, than a few of them would.
//
// The price is paid by honest subjects that are new: while the memory is full, they
// share these counts with the flood, and are refused when it has used them up. Who
// commands more subjects than there is room for can so keep out others, for as long as
// it goes on and a Window longer: a network of IPv6 has 65,536 networks of 64 bits in
// each of 48, and subjects that a client may choose freely have no number at all. Four
// things help. Make subjects of what is scarce (networks, accounts that exist). Keep
// Windows of such rates short, as what counts no more makes room. Give each kind of
// subject a Limiter of its own, so that a flood of addresses takes no room from
// accounts. And ask for what is scarcest first: what is refused there makes no subject
// elsewhere.
package memlimit
