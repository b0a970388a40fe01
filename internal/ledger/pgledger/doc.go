// Package pgledger is the ledger that several instances share: a ledger.Store on
// one PostgreSQL database, 13 or newer.
//
// # Who may do what
//
// Any number of processes may serve one ledger. The row of a sale is its lock:
// whoever writes to a sale locks it first, then its orders in order of id, then its
// holders in order of user. Inside a process Options.MaxConns connections are
// shared; writers get three quarters of them and stand in line for those, so that
// a crowd in front of one sale does not keep others from reading.
//
// Several may start at once on an empty database: migrations run under an advisory
// lock, and those who come second find them done.
//
// # What is durable when
//
// Each connection has synchronous_commit on. When Update returns nil, the
// transaction has been synced to the disk of the server (and of its standbys, as
// far as the server is told to wait for them).
//
//	begin ──► fn: reads, guarded writes ──► commit ──► nil
//	  ▲ │        │ error, panic, end of ctx    │ no answer
//	  │ │        ▼                             ▼
//	  │ │      rolled back                   ErrUnknown: look again by order id
//	  └─┴── another transaction was in the way, or the connection was
//	        lost before the commit was sent: at most five times
//
// A statement ends with its context, by a request of its own to the server; the
// connection is then closed, and with it the transaction. The commit alone is waited
// for beyond the end of the context, for at most 5 s. A process that stops in the
// middle holds a sale's lock for Options.IdleTimeout at most.
//
// # What a batch costs
//
// A transaction of the judge is six journeys to the server, whatever the size of the
// batch: begin; lock and read the sale; read orders; read holders; write; commit. Each
// table is written by one statement over arrays; the guards are counted. Ids
// are uuid, texts compare byte for byte, and the tables that a crowd fills have no
// foreign keys; why is told in migration/00001_ledger.sql.
//
// # What others commit
//
// Each transaction that appends journal rows says so on a channel of PostgreSQL,
// by sale and numbers only, in the transaction itself. Listen hears it on one
// more connection and leaves out what the same store has said. Those commits take
// turns across the database for as long as a sync takes, which batches make up for.
// Nothing depends on it: a listener who was away has missed what was said.
//
// # Damage
//
// A row that cannot be what this package wrote is an error that wraps ErrCorrupt,
// and ledger.ErrConstraint since reading it again will not help. Lists for pages
// leave it out and tell Options.OnCorrupt; look-ups by name and the Each methods, on
// which audits rest, return the error. Due reads ids and times only.
//
// # Statements
//
// query/ holds one statement a file; {order} and the like stand for the sets of
// columns in column/, each of which has one function here that reads it.
package pgledger
