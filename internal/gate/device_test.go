package gate_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
)

const year = 365 * 24 * time.Hour

func TestDevice(t *testing.T) {
	t.Parallel()
	k := oneKey()
	d := gate.NewDevice(noon.Add(999 * time.Millisecond))
	require.Regexp(t, `^[0-9a-f]{32}$`, d.ID.String())
	require.NotEqual(t, d.ID, gate.NewDevice(noon).ID)
	require.Empty(t, gate.DeviceID{}.String())
	text, err := k.SignDevice(d, noon)
	require.NoError(t, err)
	require.Len(t, text, 56)
	for after, want := range map[time.Duration]gate.Flaw{
		-gate.MaxSkew: gate.Sound, -gate.MaxSkew - 1: gate.NotYet, 0: gate.Sound, year - 1: gate.Sound, year: gate.Expired,
	} {
		got, flaw := k.VerifyDevice(text, year, noon.Add(after))
		require.Equal(t, want, flaw, "%v", after)
		if want == gate.Sound {
			require.Equal(t, gate.Device{ID: d.ID, IssuedAt: noon, Key: 1}, got)
		} else {
			require.Zero(t, got)
		}
	}
}

// A raw id, or one that somebody else's gate signed, is no device.
func TestDeviceIsNeverTrustedRaw(t *testing.T) {
	t.Parallel()
	k := oneKey()
	d := gate.NewDevice(noon)
	text, err := k.SignDevice(d, noon)
	require.NoError(t, err)
	for _, bad := range append(broken(text), d.ID.String(), string(d.ID[:])) {
		got, flaw := k.VerifyDevice(bad, year, noon)
		require.Contains(t, []gate.Flaw{gate.Malformed, gate.Forged, gate.UnknownKey}, flaw, "%q", bad)
		require.Zero(t, got)
	}
	nobody, err := k.SignDevice(gate.Device{IssuedAt: noon}, noon)
	require.NoError(t, err)
	_, flaw := k.VerifyDevice(nobody, year, noon)
	require.Equal(t, gate.Malformed, flaw)
}

// A device keeps its id when keys rotate, and can be told to be signed anew.
func TestDeviceOutlivesKeys(t *testing.T) {
	t.Parallel()
	text, err := oneKey().SignDevice(gate.NewDevice(noon.Add(-time.Hour)), noon)
	require.NoError(t, err)
	later := noon.Add(time.Minute)
	k := rotated(later)
	old, flaw := k.VerifyDevice(text, year, later)
	require.Equal(t, gate.Sound, flaw)
	require.NotEqual(t, k.SigningKey(later), old.Key)
	renewed, err := k.SignDevice(old, later)
	require.NoError(t, err)
	got, flaw := k.VerifyDevice(renewed, year, noon.Add(10*time.Hour))
	require.Equal(t, gate.Sound, flaw)
	require.Equal(t, gate.Device{ID: old.ID, IssuedAt: old.IssuedAt, Key: 2}, got)
	_, flaw = k.VerifyDevice(text, year, noon.Add(10*time.Hour))
	require.Equal(t, gate.RetiredKey, flaw)
}

func TestDeviceCookie(t *testing.T) {
	t.Parallel()
	text, err := oneKey().SignDevice(gate.NewDevice(noon), noon)
	require.NoError(t, err)
	for transport, name := range map[gate.Transport]string{gate.Plain: "doorbuster-device", gate.TLS: "__Host-doorbuster-device"} {
		c, err := http.ParseSetCookie(gate.SetDeviceCookie(text, 90*24*time.Hour, transport))
		require.NoError(t, err)
		require.Equal(t, name, c.Name)
		require.Equal(t, name, gate.DeviceCookie(transport))
		require.Equal(t, text, c.Value)
		require.Equal(t, "/", c.Path)
		require.Empty(t, c.Domain)
		require.Equal(t, 90*24*3600, c.MaxAge)
		require.True(t, c.HttpOnly)
		require.Equal(t, http.SameSiteLaxMode, c.SameSite)
		require.Equal(t, transport == gate.TLS, c.Secure)
		require.NoError(t, c.Valid())
	}
}

func FuzzDevice(f *testing.F) {
	k := oneKey()
	d := gate.Device{ID: gate.DeviceID{1}, IssuedAt: noon, Key: 1}
	text, err := k.SignDevice(d, noon)
	require.NoError(f, err)
	f.Add(text)
	f.Add(text[:55] + "\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, presented string) {
		got, flaw := k.VerifyDevice(presented, year, noon)
		if flaw != gate.Sound {
			require.Zero(t, got)
			return
		}
		require.Equal(t, text, presented)
		require.Equal(t, d, got)
	})
}
