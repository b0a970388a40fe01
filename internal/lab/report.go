package lab

import (
	"encoding/json"
	"io"

	"github.com/doorbuster/doorbuster/internal/audit"
)

// DemoReport is what a demo has seen.
type DemoReport struct {
	Sale        string `json:"sale"`
	Buyers      int    `json:"buyers"` // at the door
	Latecomers  int    `json:"latecomers"`
	Stock       int64  `json:"stock"`
	Seed        uint64 `json:"seed"`        // the same crowd again: --seed
	Connections int    `json:"connections"` // that the buyers shared
	Address     string `json:"address"`     // of the server
	Dir         string `json:"dir"`         // the server's data folder
	Kept        bool   `json:"kept"`        // the server goes on serving

	Attempts []Tally      `json:"attempts"`
	Accepted Pace         `json:"accepted"` // the stock, sold for the first time; speed by the ledger's clock
	Refused  Pace         `json:"refused"`  // at the door
	Units    Units        `json:"units"`
	Promises []Promise    `json:"promises"` // as the crowd's books show them
	Audit    audit.Report `json:"audit"`    // as the ledger shows them
	Seconds  float64      `json:"seconds"`  // from the empty folder to this report
}

// Broken reports whether a promise is broken.
func (r *DemoReport) Broken() bool {
	for i := range r.Promises {
		if r.Promises[i].Broken > 0 {
			return true
		}
	}
	return r.Audit.Broken()
}

func (r *DemoReport) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
