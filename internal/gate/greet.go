package gate

import (
	"os"
	"time"
)

// Recognise returns the device that shows a token, the zero value where it shows
// none, or one that the gate does not accept: such a device is met anew.
func (k *Keeper) Recognise(token string) Device {
	if token == "" {
		return Device{}
	}
	d, flaw := k.known.Load().keys.VerifyDevice(token, DeviceLife, k.o.Now())
	if flaw != Sound {
		return Device{}
	}
	return d
}

// Greet returns the device as it is from now on, and the token to give it: a new
// device where d is none, the same under a fresh token where half of DeviceLife is
// over or an older key signed. The token is empty where the device has a good one.
func (k *Keeper) Greet(d Device) (Device, string, error) {
	keys, now := k.known.Load().keys, k.o.Now()
	switch {
	case d.ID.IsZero():
		d = NewDevice(now)
	case now.Sub(d.IssuedAt) > DeviceLife/2:
		d.IssuedAt = now.Truncate(time.Second).UTC()
	case d.Key == keys.SigningKey(now):
		return d, "", nil
	}
	d.Key = keys.SigningKey(now)
	token, err := keys.SignDevice(d, now)
	return d, token, err
}

// Origin says whose settings are in force.
type Origin string

// The origins.
const (
	FromDefault Origin = "default"
	FromFile    Origin = "file"
	FromLedger  Origin = "ledger"
)

// Origin returns whose settings those are that Settings returned together with this
// version of the ledger's. Those of a file that cannot be read are the default ones, until it can.
func (k *Keeper) Origin(entered int64) Origin {
	if entered > 0 {
		return FromLedger
	}
	return k.known.Load().origin
}

// CheckSettingsFile returns what is wrong with a file of settings, or nil.
func CheckSettingsFile(path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // the operator's own
	if err != nil {
		return err
	}
	_, err = ParseSettings(text)
	return err
}

// CheckRangesFile returns what is wrong with a file of proxy ranges, or nil.
func CheckRangesFile(path string) error {
	_, err := readRanges(path)
	return err
}
