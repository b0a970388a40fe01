package event

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

const (
	typePrefix = "doorbuster."
	typeReset  = "doorbuster.reset"
	resetMark  = "-reset"
	specLevel  = "1.0"
	jsonType   = "application/json"
)

// Envelope is an event as the world sees it: CloudEvents 1.0 in JSON.
type Envelope struct {
	SpecVersion string `json:"specversion"`
	// ID and Source together name the transition; delivered twice, it is the
	// same event.
	ID      string    `json:"id"`
	Source  string    `json:"source"`
	Type    string    `json:"type"`          // "doorbuster." and the journal's kind, as in doorbuster.order.paid
	Time    time.Time `json:"time,omitzero"` // of the transition, UTC
	Subject string    `json:"subject"`       // the order's id, or the sale's number
	// DataType is application/json; Data is the body of the journal row as it was
	// written.
	DataType string          `json:"datacontenttype"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Wrap returns the envelope of a journal row. source names this installation.
func Wrap(source string, e *ledger.Entry) Envelope {
	v := Envelope{
		SpecVersion: specLevel, ID: e.EventID(), Source: source, Type: typePrefix + string(e.Kind), Time: e.At.UTC(),
		Subject: strconv.FormatUint(uint64(e.Sale), 10), DataType: jsonType, Data: e.Body,
	}
	if !e.Order.IsZero() {
		v.Subject = e.Order.String()
	}
	return v
}
