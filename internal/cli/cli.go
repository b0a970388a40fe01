package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailure     = 1 // the request was understood and did not succeed
	ExitUsage       = 2 // flags, arguments, configuration or a file are wrong
	ExitBroken      = 3 // a promise is broken
	ExitUnreachable = 4 // the server or the ledger cannot be reached or cannot answer
)

const description = `Doorbuster sells N units to a crowd: never N+1, never N-1, and proves it.

"doorbuster serve" serves an embedded ledger under ./data; docs/config.md tells every setting.

Exit codes:
  0  ok
  1  failure: the request was understood and did not succeed
  2  usage: flags, arguments, configuration or a file are wrong
  3  a promise is broken (audit, verify, demo, bench, lab)
  4  the server or the ledger cannot be reached or cannot answer

Environment: DOORBUSTER_URL and DOORBUSTER_API_KEY for commands that call a server,
DOORBUSTER_CONFIG for the configuration file, DOORBUSTER_... for each of its keys.`

// Streams are what a process has to speak with the world.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // as os.Environ returns it
}

// Standard returns the streams of this process.
func Standard() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}
}

// root is the command line.
type root struct {
	Help helpFlag `short:"h" help:"Show what a command does and its flags."`

	Demo       demoCmd       `cmd:"" help:"Run a real sale with a real crowd, and prove it."`
	Bench      benchCmd      `cmd:"" help:"Send a crowd at servers that run, measure them, and prove what they told it."`
	Serve      serveCmd      `cmd:"" help:"Serve the API."`
	Sale       saleCmd       `cmd:"" help:"Create, show and change sales (scope admin)."`
	Order      orderCmd      `cmd:"" help:"Show, cancel and refund orders (scopes admin and shop)."`
	Deadletter deadletterCmd `cmd:"" help:"Decide about slips of the fast path that could not be judged (scope admin)."`
	Gate       gateCmd       `cmd:"" help:"Look after the gate: its settings, keys and lists (scope admin)."`
	Buyer      buyerCmd      `cmd:"" help:"Make tokens of buyers for development."`
	Key        keyCmd        `cmd:"" help:"Create, list and revoke API keys, on the ledger itself."`
	Audit      auditCmd      `cmd:"" help:"Recount the promises from orders, payments and journal, on the ledger itself."`
	Verify     verifyCmd     `cmd:"" help:"Recount the promises from an exported file, offline."`
	Migrate    migrateCmd    `cmd:"" help:"Bring the ledger's schema up to date."`
	Config     configCmd     `cmd:"" help:"Check, print and describe the configuration."`
	Lab        labCmd        `cmd:"" help:"Show the accident and the cure: one crowd, every way to sell."`
	LabShop    labShopCmd    `cmd:"" hidden:"" help:"Sell in one process of a strategy; doorbuster lab starts it."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// session is what a command works with.
type session struct {
	Streams
	args []string // the command line
	now  func() time.Time
}

// Main runs one command line, without the program's name, and returns its exit
// code. The first SIGINT or SIGTERM asks the command to end; a second one ends
// the process.
func Main(args []string, s Streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, args, s)
}

func run(ctx context.Context, args []string, s Streams) int {
	err := execute(ctx, args, &session{Streams: s, args: args, now: time.Now})
	if err == nil || errors.Is(err, errHelped) {
		return ExitOK
	}
	f := explain(err)
	f.write(s.Err)
	return f.code
}

func execute(ctx context.Context, args []string, s *session) error {
	parser, err := kong.New(&root{},
		kong.Name("doorbuster"), kong.Description(description), kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoAppDescFormat: true, WrapUpperBound: 100, NoExpandSubcommands: false}),
		kong.Writers(s.Out, s.Err), kong.Exit(func(int) {}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s),
	)
	if err != nil {
		return fmt.Errorf("the command line is built wrong: %w", err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return parseError(err)
	}
	return parsed.Run()
}

// parseError returns what is wrong with a command line, and where to read on.
func parseError(err error) error {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok || errors.Is(err, errHelped) {
		return err
	}
	if usage, isUsage := errors.AsType[*usageError](err); isUsage {
		return usage
	}
	command := "doorbuster"
	if parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			command += " " + node.Path()
		}
	}
	return &usageError{message: parse.Unwrap().Error(), hint: "see " + command + " --help"}
}

// helpFlag prints the help of the command it stands behind.
type helpFlag bool

var errHelped = errors.New("help was printed")

// IgnoreDefault tells kong that the flag has no default.
func (helpFlag) IgnoreDefault() {}

// BeforeReset prints the help and ends the command line there.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelped
}
