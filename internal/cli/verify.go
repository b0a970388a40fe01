package cli

import (
	"context"
	"encoding/hex"
	"os"

	"github.com/doorbuster/doorbuster/internal/audit"
)

// verifyCmd recounts the promises from an exported file.
type verifyCmd struct {
	jsonFlag
	File string `arg:"" help:"File that doorbuster audit --export wrote; - is standard input."`
	Head string `placeholder:"HASH" help:"Head of the journal that was published before, 64 hexadecimal digits: the file must contain it."`
}

// Help returns the long help.
func (c *verifyCmd) Help() string {
	return "Needs no server, no ledger and no key. Without --head a file whose author rewrote everything consistently cannot be told from a true one. " +
		"Exit code 3 means that a promise is broken or the file was changed."
}

// verified is the result in JSON.
type verified struct {
	audit.Report
	Broken bool `json:"broken"`
}

// Run verifies.
func (c *verifyCmd) Run(ctx context.Context, s *session) error {
	if raw, err := hex.DecodeString(c.Head); err != nil || c.Head != "" && len(raw) != 32 {
		return &usageError{message: "--head: this is not a hash of 64 hexadecimal digits", hint: "copy the head that audit --export printed"}
	}
	in := s.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return &usageError{message: "the file cannot be opened: " + err.Error(), hint: "name a file that doorbuster audit --export wrote"}
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	report, err := audit.Verify(ctx, in, audit.VerifyOptions{Head: c.Head})
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(s.Out, verified{Report: report, Broken: report.Broken()})
	} else {
		err = report.WriteText(s.Out)
	}
	if err == nil && report.Broken() {
		return brokenError{hint: "the file was changed, or the ledger that it came from is broken; the table names what is wrong"}
	}
	return err
}
