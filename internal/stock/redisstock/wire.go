package redisstock

import (
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// The layouts that scripts and Go share; see the package comment and acts.lua.
const (
	idTail     = 12
	recordSize = idTail + 1 + 3 + 3 + timeSize
	timeSize   = 6
	noItem     = 255

	kindReturn = 'r'
	kindAdopt  = 'a'
)

var errRecords = errors.New("the records of a buyer are malformed")

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// clampMillis returns t in ms since 1970 within what 6 bytes hold.
func clampMillis(t time.Time) uint64 {
	return uint64(min(max(0, t.UnixMilli()), 1<<(8*timeSize)-1))
}

func appendMillis(b []byte, ms uint64) []byte {
	return append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms)) //nolint:gosec // byte by byte
}

func append3(b []byte, n int64) []byte {
	return append(b, byte(n>>16), byte(n>>8), byte(n)) //nolint:gosec // at most 10^6, checked at the door
}

func read3(s string) int64 { return int64(s[0])<<16 | int64(s[1])<<8 | int64(s[2]) }

func readMillis(s string) time.Time {
	var ms int64
	for i := range timeSize {
		ms = ms<<8 | int64(s[i])
	}
	return time.UnixMilli(ms).UTC()
}

// appendAct appends the 32 bytes of an act.
func appendAct(b []byte, a *stock.Act) []byte {
	b = append(b, a.ID[4:]...)
	b = append(b, byte(a.Item)) //nolint:gosec // below 100, checked at the door
	b = append3(append3(b, a.Quantity), a.Counted)
	b = appendMillis(b, clampMillis(a.TakenAt))
	kind := byte(kindReturn)
	if a.Kind == stock.ActAdopt {
		kind = kindAdopt
	}
	b = append(b, kind)
	var cool uint64
	if !a.CoolUntil.IsZero() {
		cool = clampMillis(a.CoolUntil)
	}
	return appendMillis(b, cool)
}

// readRecord reads the first 25 bytes of s.
func readRecord(n sale.Number, s string) stock.Record {
	r := stock.Record{
		Item: int(s[idTail]), Quantity: read3(s[idTail+1:]), Counted: read3(s[idTail+4:]), TakenAt: readMillis(s[idTail+7:]),
	}
	binary.BigEndian.PutUint32(r.ID[:4], uint32(n))
	copy(r.ID[4:], s[:idTail])
	return r
}

// readRecords reads all that is recorded of a user.
func readRecords(n sale.Number, s string) (orders []stock.Record, coolUntil time.Time, err error) {
	if len(s)%recordSize != 0 {
		return nil, time.Time{}, errRecords
	}
	for ; s != ""; s = s[recordSize:] {
		if s[:idTail] == string(make([]byte, idTail)) {
			coolUntil = readMillis(s[idTail+7:])
			continue
		}
		orders = append(orders, readRecord(n, s))
	}
	return orders, coolUntil, nil
}
