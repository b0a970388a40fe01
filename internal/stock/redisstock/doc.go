// Package redisstock keeps the fast counter in Redis 7.0 or later. Each method
// that changes a lane is one script (lua/), which reads and checks everything
// before its first write, so it happens as a whole or not at all.
//
// docs/redis.md says the same to operators, and how to run the server.
//
// All keys of a lane share one hash tag, so a lane lives on one node of a
// cluster, and lanes with different salts on different ones. Nothing of a live
// lane expires by itself.
//
//	key                        type    what it holds
//	{<prefix>:<sale>.<lane>.<salt>}:meta     hash    one field each, decimal numbers:
//	  epoch                    the epoch that the lane sells under; 0 before the first
//	  frozen                   the build token that freezes it; absent when open
//	  steps                    calls of load and set since; absent when open
//	  ready                    1 once a build has set the fields below; absent otherwise
//	  state                    published, paused or closed; any other is as closed
//	  starts, ends             the window, ms of the ledger's clock
//	  limit, terms, version    of the sale
//	  items, s<i>, l<i>        number of items; stock and left of each; left may be < 0
//	  applied                  the journal number up to which rows have arrived
//	  seq                      raised by every write but that of w
//	  gen                      raised when units came or went or somebody was recorded, but by take
//	  queued, cap              slips in the tray, and how many there may be
//	  taken, returned          units, for ever within the epoch
//	  offset                   the lane's clock less the ledger's, ms
//	  x<i>                     units of an item that came from other lanes less those that went
//	  o<lane>                  the last transfer to a lane: number, item, units
//	  i<lane>                  the number of the last transfer from a lane
//	  w                        until when the lane wants its units itself, ms of its own clock
//	{<prefix>:<sale>.<lane>.<salt>}:tray     stream  an entry per call that took something, fields
//	                           as package stock has them; group "judge"
//	{<prefix>:<sale>.<lane>.<salt>}:buyers:<epoch>   hash  user → records of 25 bytes, oldest first:
//	                           12 bytes id without the sale's number, 1 item, 3 quantity (0: a
//	                           tombstone), 3 counted, 6 taken at (ms); big-endian. A record with a
//	                           zero id marks a cool-down: its time is when it ends
//	<prefix>:news              channel messages between instances
//
// The server must run without eviction: a lane that loses a key by itself sells
// what it does not have, until the judge says no.
package redisstock
