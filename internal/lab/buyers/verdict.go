package buyers

import (
	"strconv"
	"sync"

	"github.com/doorbuster/doorbuster/client"
)

// The verdicts that are no code of the API's errors.
const (
	Taken     = "taken"      // a new order, reserved or queued
	Replayed  = "replayed"   // the same click again: the same order
	Seen      = "seen"       // the details of the sale
	NoAnswer  = "no_answer"  // the connection broke off
	TimedOut  = "timed_out"  // no answer in time
	BadAnswer = "bad_answer" // an answer that is none of this API
	otherWord = "other"
)

// mostWords bounds the codes that are learned from answers: a server that makes them
// up does not fill the memory.
const mostWords = 256

// words gives one string for each meaning, however often it is read.
type words struct {
	known   map[string]string // never changed
	mu      sync.Mutex
	learned map[string]string
}

func newWords() *words {
	w := &words{known: make(map[string]string), learned: make(map[string]string)}
	for _, code := range []client.CodeError{
		client.ErrSoldOut, client.ErrInsufficient, client.ErrLimitReached, client.ErrCoolDown, client.ErrNotStarted,
		client.ErrEnded, client.ErrPaused, client.ErrClosed, client.ErrRejected, client.ErrBusy, client.ErrUnavailable,
		client.ErrRateLimited, client.ErrBanned, client.ErrChallengeRequired, client.ErrPassRequired, client.ErrPassInvalid,
		client.ErrUnauthenticated, client.ErrSaleNotFound, client.ErrOrderNotFound, client.ErrIllegalState,
	} {
		w.known[string(code)] = string(code)
	}
	for _, state := range states() {
		w.known[state] = state
	}
	return w
}

// word returns the string of a word of the API: letters, digits and underscores.
// Anything else, and more than fit, is otherWord.
func (w *words) word(text []byte) string {
	if s, ok := w.known[string(text)]; ok {
		return s
	}
	if len(text) == 0 || len(text) > 64 {
		return otherWord
	}
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return otherWord
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, ok := w.learned[string(text)]; ok {
		return s
	}
	if len(w.learned) >= mostWords {
		return otherWord
	}
	s := string(text)
	w.learned[s] = s
	return s
}

// status returns the verdict of an answer that has a status and no code.
func (w *words) status(code int) string {
	if code < 100 || code > 999 {
		return BadAnswer
	}
	return w.word(strconv.AppendInt([]byte("status_"), int64(code), 10))
}
