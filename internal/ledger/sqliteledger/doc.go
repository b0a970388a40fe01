// Package sqliteledger is the ledger of one machine: a ledger.Store on one
// SQLite file, in pure Go.
//
// # Who may do what
//
// One process serves a ledger and holds its lock (Lock) meanwhile. Others may
// look (Options.ReadOnly) or write small things, such as an API key, beside it:
// SQLite keeps writers apart, the lock only keeps out a second server.
//
// Inside the process one connection writes and Options.ReadConns read. Writers
// stand in line, first come first served; a place in the line ends with its
// context. Since only one transaction writes at a time, LockSale locks by being
// called at all. Readers never wait for the writer, nor it for them; but as long
// as a snapshot lasts, the log that it reads grows instead of being used again.
//
// # What is durable when
//
// The file is in write-ahead-log mode with synchronous=FULL: when Update returns
// nil, the log has been synced to the disk. A commit that returns an error has an
// unknown outcome. A process killed before the commit leaves nothing of its
// transaction; log frames that a power cut tore are recognised by their
// checksums and dropped.
//
//	begin ──► fn: reads, guarded writes ──► commit: log written, synced ──► nil
//	   │         │ error, panic, end of ctx    │ error
//	   ▼         ▼                             ▼
//	 error     rolled back                   unknown: look again by order id
//
// The end of a context is noticed before each statement and during long scans
// and waits, not inside a short write; once the commit has begun it is not
// looked at any more. Whatever trouble a connection met that is neither a
// refusal nor a lock, it is closed and opened anew.
//
// # What a new order costs
//
// A crowd's orders arrive in batches, and what a batch costs is the pages it
// dirties, so the tables are laid out for that: orders and journal are appended
// to; only two narrow trees are written all over, the index of order ids and the
// holders. A buyer's own orders are found along a list through their rows
// (holders.newest, orders.previous) instead of a third. Statements are prepared
// once per connection and spoken to the driver directly; lists of keys are
// padded to few lengths. A batch that is refused whole writes and syncs nothing.
//
// # Damage
//
// A row that cannot be what this package wrote (an unknown state, an id of the
// wrong length) is an error that wraps ErrCorrupt, and ledger.ErrConstraint
// since reading it again will not help: whoever works through a list can go on
// without it. Lists for pages — ListSales, ListOrders, ListRefunds, ListAPIKeys,
// and Due, which reads ids and times only — leave it out and tell
// Options.OnCorrupt; look-ups by name and the Each methods, on which audits
// rest, return the error.
//
// # Statements
//
// query/ holds one statement a file. Parameters are plain ? in the order that
// the header names, which the driver binds fastest; pages number them, since
// they use some twice. "IN (?)" is widened to the length of a list.
package sqliteledger
