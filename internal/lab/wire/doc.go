// Package wire speaks HTTP/1.1 by hand over kept connections, for one purpose: a
// crowd on one core that a server on another cannot outrun. It sends requests whose
// bytes the caller has rendered, one at a time on each connection, and reads answers
// into memory that is used again. It follows no redirects, retries nothing and
// decodes no content coding; what it cannot read is an error, never a guess.
package wire
