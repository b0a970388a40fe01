package traffic

import "time"

// alarm wakes the one who waits for the next step.
type alarm interface {
	// wait returns after d, or when somebody rings, be it before.
	wait(d time.Duration)
	ring()
	close()
}

// timerAlarm is as exact as timers are when nothing else happens: to the millisecond.
type timerAlarm struct {
	timer *time.Timer
	rung  chan struct{}
}

func newTimerAlarm() *timerAlarm {
	return &timerAlarm{timer: time.NewTimer(0), rung: make(chan struct{}, 1)}
}

func (a *timerAlarm) wait(d time.Duration) {
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
	case <-a.rung:
	}
}

func (a *timerAlarm) ring() {
	select {
	case a.rung <- struct{}{}:
	default:
	}
}

func (a *timerAlarm) close() { a.timer.Stop() }
