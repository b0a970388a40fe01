// Package event tells the world what the journal records. So far the world is
// this process: Feed turns the journals of sales into live streams for pages
// that watch them.
//
// # Model
//
// The journal is the only source. A nudge after a commit (ledger.Watch) makes
// the feed read on at once; a poll is the net below it, for rows that another
// process wrote. Either way rows are read from the ledger after the last one
// seen, so a subscriber gets them in order, each once, none missing, whatever
// nudges were lost.
//
//	ledger.Watch ─ nudge ─┐
//	                      ├─► one reader ─ Rows(after) ─► stream of a sale ─► subscribers
//	poll ─────────────────┘                               (recent rows)       (bounded channels)
//
// One read serves all subscribers of a sale. Sales that nobody follows cost
// nothing. Recent rows
// stay in memory, so a crowd that reconnects does not go to the ledger one by one.
//
// # What a subscriber is promised
//
// From the row named by After on, every row meant for its audience, in order.
// Where that cannot be kept, it is told: an event with Reset says that rows were
// left out (read the state anew and go on from there), a channel that closes says
// why (Subscription.Err). A subscriber that does not keep up is cut off; it never
// holds up the others.
package event
