package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/audit"
	"github.com/doorbuster/doorbuster/internal/config"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// usageError says that the command line or a file that it names is wrong.
type usageError struct {
	message, hint string
}

func (e *usageError) Error() string { return e.message }

// brokenError says that a promise is broken. The report has been printed.
type brokenError struct {
	hint string // empty for a ledger that is in use
}

func (brokenError) Error() string { return "a promise is broken" }

// failure is an error as a person sees it.
type failure struct {
	code    int
	message string
	hint    string
	more    []string // further lines, each a mistake of its own
}

func (f *failure) write(w io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "doorbuster: %s\n", f.message)
	for _, line := range f.more {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if f.hint != "" {
		fmt.Fprintf(&b, "  hint: %s\n", f.hint)
	}
	_, _ = io.WriteString(w, b.String()) // there is nowhere left to report to
}

// explain puts an error into words and chooses the exit code: the one place
// where that happens.
func explain(err error) *failure {
	if e, ok := errors.AsType[*usageError](err); ok {
		return &failure{code: ExitUsage, message: e.message, hint: e.hint}
	}
	if e, ok := errors.AsType[*config.Error](err); ok {
		return explainConfig(e)
	}
	if e, ok := errors.AsType[brokenError](err); ok {
		return &failure{code: ExitBroken, message: e.Error(), hint: cmp.Or(e.hint, "stop the sale and keep the ledger as it is; the table names what breaks it")}
	}
	if errors.Is(err, context.Canceled) {
		return &failure{code: ExitFailure, message: "interrupted; what was begun may have been done"}
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return explainClient(e)
	}
	if e, ok := errors.AsType[*sale.Error](err); ok {
		return explainCoded(e)
	}
	if e, ok := errors.AsType[*audit.FileError](err); ok {
		return &failure{code: ExitFailure, message: "the export cannot be read: " + strings.TrimPrefix(e.Error(), "audit: "), hint: "it is damaged, cut short or not an export; get it again from its author"}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return &failure{code: ExitFailure, message: err.Error(), hint: "another process listens there: stop it, or choose another port with --api-listen and --ops-listen"}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &failure{code: ExitFailure, message: e.Path + ": " + e.Err.Error(), hint: "check the path and its permissions"}
	}
	return &failure{code: ExitFailure, message: err.Error()}
}

func explainConfig(e *config.Error) *failure {
	f := &failure{code: ExitUsage}
	if len(e.Problems) == 1 {
		f.message, f.hint = e.Problems[0].String(), e.Problems[0].Hint
		return f
	}
	f.message = fmt.Sprintf("the configuration has %d mistakes", len(e.Problems))
	for _, p := range e.Problems {
		line := p.String()
		if p.Hint != "" {
			line += " (" + p.Hint + ")"
		}
		f.more = append(f.more, line)
	}
	return f
}

func explainClient(e *client.Error) *failure {
	f := &failure{code: ExitFailure, message: e.Detail, hint: e.Hint}
	if f.message == "" {
		f.message = e.Title
	}
	if e.Field != "" {
		f.message = e.Field + ": " + f.message
	}
	if e.Err != nil {
		f.message += ": " + e.Err.Error()
	}
	switch code := client.CodeError(e.Code); {
	case code.Unsure(), code == client.ErrUnreachable, code == client.ErrBusy, code == client.ErrRateLimited:
		f.code = ExitUnreachable
		if code == client.ErrUnavailable { // the API's hint is for who sends a key
			f.hint = "see /readyz or the server's log for what does not answer; look at what became of it, and repeat it then"
		}
	case code == client.ErrInvalid && e.Status == 0:
		f.code = ExitUsage // refused before anything was sent
	case code == client.ErrUnauthenticated:
		f.hint = "name a valid key with --key-file or DOORBUSTER_API_KEY; doorbuster key create makes one"
	}
	return f
}

func explainCoded(e *sale.Error) *failure {
	f := &failure{code: ExitFailure, message: e.Message, hint: e.Hint}
	if e.Field != "" {
		f.message = e.Field + ": " + f.message
	}
	if e.Code == sale.CodeInvalid || e.Code == sale.CodeInvalidQuantity {
		f.code = ExitUsage
	}
	if e.Code == sale.CodeUnavailable || e.Code == sale.CodeBusy {
		f.code = ExitUnreachable
		if e.Err != nil && e.Hint == sale.Unavailable(nil).Hint {
			f.message, f.hint = f.message+": "+e.Err.Error(), "" // that hint is for callers of the API
		}
	}
	return f
}
