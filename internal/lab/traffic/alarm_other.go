//go:build !linux

package traffic

func newAlarm() alarm { return newTimerAlarm() }
