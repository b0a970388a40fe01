package httpapi

import (
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones must be known on machines that have no files of them

	"github.com/doorbuster/doorbuster/internal/sale"
)

const timeHint = "send an instant with offset, such as 2026-11-27T10:00:00+01:00, or a local time with time_zone"

// ParseTime reads one instant of a request: RFC 3339 with an offset, or a local
// time without one together with an IANA zone. A local time that the zone's
// clocks skip or show twice is refused, as is anything that would have to be
// guessed or rounded: dates without time, zones without name, leap seconds,
// the offset -00:00, fractions finer than a millisecond. Where a time has an
// offset and a zone is named too, they must agree. field names the input in
// errors, which are CodeInvalid.
func ParseTime(field, text, zone string) (time.Time, error) {
	wall, rest, ok := parseWall(text)
	if !ok {
		return time.Time{}, sale.Invalid(field, "this is not an instant with millisecond resolution", timeHint)
	}
	if rest != "" {
		return parseOffset(field, wall, rest, zone)
	}
	if zone == "" {
		return time.Time{}, sale.Invalid(field, "the time has no offset", timeHint)
	}
	loc, err := loadZone(zone)
	if err != nil {
		return time.Time{}, err
	}
	found := instants(wall, loc)
	switch len(found) {
	case 0:
		return time.Time{}, sale.Invalid(field, "the clocks of "+zone+" skip this time", "choose a time before or after the change of clocks, or send an offset")
	case 1:
		return found[0].UTC(), nil
	}
	return time.Time{}, sale.Invalid(field, "the clocks of "+zone+" show this time twice",
		"say which: "+found[0].Format(time.RFC3339Nano)+" or "+found[1].Format(time.RFC3339Nano))
}

// parseWall reads "2006-01-02T15:04:05" with up to three decimals (and zeros
// after them) as if it were UTC, and returns what follows.
func parseWall(text string) (wall time.Time, rest string, ok bool) {
	const layout = "2006-01-02T15:04:05"
	if len(text) < len(layout) {
		return wall, "", false
	}
	for i, c := range []byte(layout) {
		if digit := c >= '0' && c <= '9'; digit != isDigit(text[i]) || !digit && text[i] != c {
			return wall, "", false
		}
	}
	wall, err := time.Parse(layout, text[:len(layout)]) // refuses days and hours that do not exist
	if err != nil || wall.Year() < 1970 {
		return wall, "", false
	}
	rest = text[len(layout):]
	if fraction, more := strings.CutPrefix(rest, "."); more {
		n := 0
		for n < len(fraction) && isDigit(fraction[n]) {
			n++
		}
		ms, fine := millis(fraction[:n])
		if !fine {
			return wall, "", false
		}
		return wall.Add(ms), fraction[n:], true
	}
	return wall, rest, true
}

// millis reads decimals of a second; false if there are none or they are finer
// than a millisecond.
func millis(decimals string) (time.Duration, bool) {
	if decimals == "" {
		return 0, false
	}
	ms, unit := 0, 100
	for _, c := range []byte(decimals) {
		if c != '0' && unit == 0 {
			return 0, false
		}
		ms += int(c-'0') * unit
		unit /= 10
	}
	return time.Duration(ms) * time.Millisecond, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func parseOffset(field string, wall time.Time, text, zone string) (time.Time, error) {
	offset, ok := offsetOf(text)
	if !ok {
		return time.Time{}, sale.Invalid(field, "this is not an instant with millisecond resolution", timeHint)
	}
	at := wall.Add(-offset)
	if zone == "" {
		return at, nil
	}
	loc, err := loadZone(zone)
	if err != nil {
		return time.Time{}, err
	}
	if _, seconds := at.In(loc).Zone(); time.Duration(seconds)*time.Second != offset {
		return time.Time{}, sale.Invalid(field, "the offset is not that of "+zone+" at this time", "send the offset or the zone, not both")
	}
	return at, nil
}

// offsetOf reads Z or ±hh:mm. RFC 3339 gives -00:00 the meaning "unknown".
func offsetOf(text string) (time.Duration, bool) {
	if text == "Z" {
		return 0, true
	}
	if len(text) != len("+hh:mm") || text[0] != '+' && text[0] != '-' || text == "-00:00" {
		return 0, false
	}
	at, err := time.Parse("15:04", text[1:])
	if err != nil || !isDigit(text[1]) || !isDigit(text[2]) {
		return 0, false
	}
	offset := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true
}

func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		name = "" // the server's own zone must never decide anything
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" {
		return nil, sale.Invalid("time_zone", "the time zone is unknown", "use an IANA name such as Europe/Berlin or Asia/Shanghai")
	}
	return loc, nil
}

// instants returns the instants, in order, at which the clocks of loc show wall.
// The offsets are read in steps, not from one change of clocks to the next: for the
// last day of a leap year time.ZoneBounds may tell an end that lies before the time
// it was asked about.
func instants(wall time.Time, loc *time.Location) []time.Time {
	const (
		reach = 24 * time.Hour   // more than any offset from UTC
		step  = 15 * time.Minute // no zone keeps an offset for less
	)
	var tried []int
	var found []time.Time
	for at := wall.Add(-reach); at.Before(wall.Add(reach)); at = at.Add(step) {
		_, offset := at.In(loc).Zone()
		if slices.Contains(tried, offset) {
			continue
		}
		tried = append(tried, offset)
		shown := wall.Add(-time.Duration(offset) * time.Second).In(loc)
		if _, there := shown.Zone(); there == offset {
			found = append(found, shown)
		}
	}
	slices.SortFunc(found, time.Time.Compare)
	return found
}
