package captcha

import (
	"sync"
	"time"
)

const (
	// tripAfter questions in a row without an answer, which span tripSpan, are an outage.
	// One answer ends the row, so that nobody who has a way to make his own question
	// fail makes the service look dead while others are answered.
	tripAfter = 8
	tripSpan  = 2 * time.Second
	// openFor is how long nothing is asked then. After that whoever comes asks, and the
	// first answer closes the circuit.
	openFor = 5 * time.Second
)

// circuit says whether a service is out, by many questions and never by one.
type circuit struct {
	mu    sync.Mutex
	row   int       // questions without an answer since the last answer
	since time.Time // when the first of them was asked
	until time.Time // nothing is asked before that; zero while the service is not out
}

// open reports whether nothing is to be asked at now.
func (c *circuit) open(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.until)
}

// answered closes the circuit.
func (c *circuit) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.row, c.until = 0, time.Time{}
}

// silent counts a question that was asked at now and got no answer, and reports
// whether the service is out.
func (c *circuit) silent(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.row == 0 || now.Before(c.since) {
		c.since = now
	}
	c.row++
	if c.row < tripAfter || now.Sub(c.since) < tripSpan {
		return false
	}
	c.until = now.Add(openFor)
	return true
}
