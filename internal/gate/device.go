package gate

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// DeviceID names a device that the gate has met: 16 random bytes. The zero value is
// no device.
type DeviceID [16]byte

// IsZero reports whether id is no device.
func (id DeviceID) IsZero() bool { return id == DeviceID{} }

// String returns 32 hexadecimal digits, or "" for no device. Lists of devices hold
// this text. It is no secret: only the signed token makes somebody that device.
func (id DeviceID) String() string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// Device is a device that has shown a token of the gate.
type Device struct {
	ID       DeviceID
	IssuedAt time.Time // when the gate met it first, in whole seconds
	Key      uint32    // the number of the key that signed; see Keys.SigningKey
}

// DeviceHeader carries a device's token where cookies do not reach, as in apps and in
// pages of another site. Answers to new devices carry it too.
const DeviceHeader = "Doorbuster-Device"

// MaxSkew is how far ahead the clock of the instance that met a device may be.
const MaxSkew = time.Minute

const (
	deviceKind = 'D'
	issuedLen  = 5 // seconds since 1970

	deviceIssued = tokenHead
	deviceID     = deviceIssued + issuedLen
	deviceMAC    = deviceID + len(DeviceID{})
	deviceLen    = deviceMAC + tokenMAC // 42 bytes, 56 characters
)

// NewDevice returns a device that is met for the first time.
func NewDevice(now time.Time) Device {
	d := Device{IssuedAt: now.Truncate(time.Second).UTC()}
	_, _ = rand.Read(d.ID[:]) // it never fails
	return d
}

// SignDevice returns the token of a device: 56 characters of the alphabet of base64
// for URLs. A device whose token was signed by an older key keeps its id and time under
// the newer one. ErrNoKey without a key.
func (k Keys) SignDevice(d Device, now time.Time) (string, error) {
	key := k.signer(now)
	if key == nil {
		return "", ErrNoKey
	}
	var token [deviceLen]byte
	var wide [8]byte
	binary.BigEndian.PutUint64(wide[:], uint64(max(d.IssuedAt.Unix(), 0)))
	copy(token[deviceIssued:], wide[8-issuedLen:])
	copy(token[deviceID:], d.ID[:])
	return key.seal(deviceKind, token[:]), nil
}

// VerifyDevice reads a token. The device is returned if it is Sound; it is Expired
// when life has passed since the gate met it, and NotYet if that is more than MaxSkew
// ahead. It costs no I/O.
func (k Keys) VerifyDevice(text string, life time.Duration, now time.Time) (Device, Flaw) {
	var token [deviceLen]byte
	id, flaw := k.open(deviceKind, text, token[:], now)
	if flaw != Sound {
		return Device{}, flaw
	}
	var wide [8]byte
	copy(wide[8-issuedLen:], token[deviceIssued:deviceID])
	d := Device{IssuedAt: time.Unix(int64(binary.BigEndian.Uint64(wide[:])), 0).UTC(), Key: id} //nolint:gosec // 40 bits
	copy(d.ID[:], token[deviceID:])
	switch age := now.Sub(d.IssuedAt); {
	case d.ID.IsZero():
		return Device{}, Malformed
	case age < -MaxSkew:
		return Device{}, NotYet
	case age >= life:
		return Device{}, Expired
	}
	return d, Sound
}

// Transport says how a request came.
type Transport uint8

// The transports.
const (
	Plain Transport = iota // HTTP, as on a developer's machine
	TLS                    // HTTPS, here or at the proxy in front
)

// DeviceCookie returns the name of the cookie that carries a device's token. Over TLS
// it has the prefix by which browsers let no other host and no plain page set it.
func DeviceCookie(t Transport) string {
	if t == TLS {
		return "__Host-doorbuster-device"
	}
	return "doorbuster-device"
}

// SetDeviceCookie returns the value of Set-Cookie that gives a browser its token for
// as long as life: out of reach of scripts, not sent along with other sites' requests,
// and over TLS only if it came so.
func SetDeviceCookie(token string, life time.Duration, t Transport) string {
	c := DeviceCookie(t) + "=" + token + "; Path=/; Max-Age=" + strconv.FormatInt(int64(life/time.Second), 10) + "; HttpOnly; SameSite=Lax"
	if t == TLS {
		c += "; Secure"
	}
	return c
}
