package redisconn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"
)

var (
	// ErrUnavailable is what every error of Trouble is: infrastructure, and never
	// an answer to a buyer.
	ErrUnavailable = errors.New("redisconn: Redis did not do its work")
	// ErrNotExecuted is what those errors are after which the call has surely
	// changed nothing. After any other the outcome is unknown: the call may have
	// been carried out, or still be, and may be repeated only if a repetition
	// changes nothing.
	ErrNotExecuted = errors.New("redisconn: the call was not carried out")
)

// Reason is why Redis did not do its work.
type Reason string

// The reasons. "Refused" means that the server has answered and done nothing.
const (
	Loading     Reason = "loading"     // refused: it reads its data after a start
	ReadOnly    Reason = "read_only"   // refused: it is a replica; a fail-over is under way
	ClusterDown Reason = "clusterdown" // refused: slots of the cluster are not served
	Moving      Reason = "moving"      // refused: the keys are on their way to another node
	OutOfMemory Reason = "oom"         // refused: maxmemory is reached and nothing may be evicted
	NotSaving   Reason = "misconf"     // refused: it cannot write its data to the disk
	NoReplicas  Reason = "no_replicas" // refused: fewer replicas than min-replicas-to-write
	Busy        Reason = "busy"        // refused: a script runs for too long
	NoScript    Reason = "no_script"   // refused: it forgot a script twice in a row
	Denied      Reason = "denied"      // it asks for another account
	Unreachable Reason = "unreachable" // no connection could be made
	Lost        Reason = "lost"        // the connection ended before the answer
	Timeout     Reason = "timeout"     // the answer did not come in time
	Cancelled   Reason = "cancelled"   // the caller did not wait for the answer
	Failed      Reason = "failed"      // any other error, such as one inside a script
)

// Error is trouble with one call.
type Error struct {
	Call   string // name of the script or command
	Reason Reason
	// NotExecuted says that the call has surely changed nothing.
	NotExecuted bool
	Err         error // the cause; it names addresses, never a password
}

// Error returns call, reason and cause.
func (e *Error) Error() string {
	outcome := "outcome unknown"
	if e.NotExecuted {
		outcome = "not carried out"
	}
	return "redis " + e.Call + ": " + string(e.Reason) + ", " + outcome + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes the error ErrUnavailable, and ErrNotExecuted where it is.
func (e *Error) Is(target error) bool {
	return target == ErrUnavailable || target == ErrNotExecuted && e.NotExecuted
}

// ReasonOf returns the reason of an error of Trouble, wrapped or not, and Failed
// for any other.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return Failed
}

// Trouble turns an error of the client into an *Error. Nil stays nil. A nil
// message of Redis is an answer, not trouble, and is returned as it is, as is
// what was an *Error before.
func Trouble(call string, err error) error {
	if err == nil || rueidis.IsRedisNil(err) {
		return err
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	e := &Error{Call: call, Err: err}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		e.Reason, e.NotExecuted = ofReply(reply.Error())
	} else {
		e.Reason, e.NotExecuted = ofConnection(err)
	}
	return e
}

// ofReply reads the code that begins an error of the server. The client has taken
// away a code of ERR, which says nothing.
func ofReply(text string) (reason Reason, notExecuted bool) {
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "LOADING":
		return Loading, true
	case "READONLY", "MASTERDOWN":
		return ReadOnly, true
	case "CLUSTERDOWN":
		return ClusterDown, true
	case "MOVED", "ASK", "TRYAGAIN":
		return Moving, true
	case "OOM":
		return OutOfMemory, true
	case "MISCONF":
		return NotSaving, true
	case "NOREPLICAS":
		return NoReplicas, true
	case "BUSY":
		return Busy, true
	case "NOSCRIPT":
		return NoScript, true
	case "NOAUTH", "WRONGPASS":
		return Denied, true
	case "NOPERM": // it may come in the middle of a script
		return Denied, false
	}
	return Failed, false
}

// ofConnection reads an error that is no answer of the server.
func ofConnection(err error) (reason Reason, notExecuted bool) {
	if _, ok := errors.AsType[*dialError](err); ok {
		return Unreachable, true
	}
	failure, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, rueidis.ErrNoSlot), errors.Is(err, rueidis.ErrNoAddr):
		return Unreachable, true // nobody to send it to is known
	case errors.Is(err, context.Canceled):
		return Cancelled, false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && failure.Timeout():
		return Timeout, false
	case isNet, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, rueidis.ErrClosing):
		return Lost, false
	}
	return Failed, false // such as an answer in another form than expected
}
