package cli_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // the scripts damage ledgers

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/cli"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"doorbuster": func() {
			os.Exit(cli.Main(os.Args[1:], cli.Standard())) //nolint:forbidigo // this is the main of the program under test
		},
	})
}

// TestScripts runs the program as users do. Beside the usual commands of
// testscript, scripts have those of scriptCommands.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, Cmds: scriptCommands(t),
		Setup: func(e *testscript.Env) error {
			e.Setenv("DATA", filepath.Join(e.WorkDir, "data"))
			examples, err := filepath.Abs("../../examples")
			e.Setenv("EXAMPLES", examples)
			return err
		},
	})
}

type command = func(ts *testscript.TestScript, neg bool, args []string)

func scriptCommands(t *testing.T) map[string]command {
	t.Helper()
	ctx := t.Context()
	redis := &redisServers{t: t, byURL: make(map[string]*testenv.RedisServer)}
	return map[string]command{
		// exits CODE program args...: runs a program that must end with this code.
		"exits": func(ts *testscript.TestScript, _ bool, args []string) { exits(ts, args) },
		// ready DIR: waits until the server on the data folder is ready.
		"ready": ready,
		// buy USER SALE QUANTITY VAR: buys on the server of $DATA with a token in
		// $TOKEN; the id of the order goes into VAR.
		"buy": func(ts *testscript.TestScript, _ bool, args []string) { buy(ctx, ts, args) },
		// attempt SALE CODE: tries to buy with a token in $TOKEN until the answer is this
		// code, or taken, as what an operator has changed takes a moment.
		"attempt": func(ts *testscript.TestScript, _ bool, args []string) { attempt(ctx, ts, args) },
		// follow ORDER STATE: waits until the order of the buyer with $TOKEN is judged,
		// which must bring it into this state.
		"follow": func(ts *testscript.TestScript, _ bool, args []string) { follow(ctx, ts, args) },
		// redis start VAR [SETTING...]: starts a Redis with further lines of redis.conf;
		// its URL goes into VAR.
		// redis plant URL SALE: puts an entry that nobody can read into the tray of the
		// sale with this number.
		// redis kill URL: ends it.
		"redis": redis.command,
		// postgres VAR: makes a database; its URL goes into VAR.
		"postgres": func(ts *testscript.TestScript, _ bool, args []string) { ts.Setenv(args[0], testenv.Postgres(t).URL) },
		// letter VAR: waits for a dead letter; its id goes into VAR.
		"letter": func(ts *testscript.TestScript, _ bool, args []string) { letter(ctx, ts, args) },
		// pay ORDER AMOUNT CURRENCY: reports a captured charge for an order.
		"pay": func(ts *testscript.TestScript, _ bool, args []string) { pay(ctx, ts, args) },
		// sql FILE STATEMENT: changes a ledger behind the program's back.
		"sql": alter,
		// mode OCTAL FILE: checks permissions.
		"mode": mode,
		// replace OLD NEW FILE: changes the first occurrence in a file.
		"replace": replace,
		// within VAR FILE: puts the text of a file, without space around, into VAR.
		"within": within,
	}
}

func exits(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, not %d", got, want)
	}
}

func ready(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	deadline := time.Now().Add(time.Minute)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for range poll.C {
		if time.Now().After(deadline) {
			ts.Fatalf("the server on %s is not ready", dir)
		}
		addr, err := os.ReadFile(filepath.Join(dir, "ops.addr"))
		if err != nil {
			continue
		}
		resp, err := http.Get("http://" + strings.TrimSpace(string(addr)) + "/readyz") //nolint:noctx // the script's deadline ends it
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
}

// caller returns a client for the server on $DATA.
func caller(ts *testscript.TestScript, token string) *client.Client {
	c, err := client.New(client.Options{URL: "http://" + strings.TrimSpace(ts.ReadFile(filepath.Join(ts.Getenv("DATA"), "api.addr"))), Token: token})
	ts.Check(err)
	return c
}

func buy(ctx context.Context, ts *testscript.TestScript, args []string) {
	quantity, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	got, err := caller(ts, strings.TrimSpace(ts.Getenv("TOKEN"))).Buy(ctx, args[1], "", client.Attempt{Quantity: quantity})
	ts.Check(err)
	if args[0] != got.Order.User && got.Order.User != "" {
		ts.Fatalf("the order is %s's", got.Order.User)
	}
	ts.Setenv(args[3], got.Order.ID)
}

func attempt(ctx context.Context, ts *testscript.TestScript, args []string) {
	c := caller(ts, strings.TrimSpace(ts.Getenv("TOKEN")))
	deadline := time.Now().Add(10 * time.Second)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for range poll.C {
		_, err := c.Buy(ctx, args[0], "", client.Attempt{Quantity: 1})
		code := string(client.CodeOf(err))
		if err == nil {
			code = "taken"
		}
		if code == args[1] {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the answer is %s", code)
		}
	}
}

func follow(ctx context.Context, ts *testscript.TestScript, args []string) {
	c := caller(ts, strings.TrimSpace(ts.Getenv("TOKEN")))
	o, err := c.Follow(ctx, client.Bought{Order: client.Order{ID: args[0], State: client.StateQueued}})
	if _, rejected := client.Rejection(err); !rejected {
		ts.Check(err)
	}
	if o.State != args[1] {
		ts.Fatalf("the order is %s", o.State)
	}
}

func letter(ctx context.Context, ts *testscript.TestScript, args []string) {
	c := caller(ts, strings.TrimSpace(ts.ReadFile(filepath.Join(ts.Getenv("DATA"), "admin.key"))))
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-poll.C {
		page, err := c.DeadLetters(ctx, client.LetterQuery{})
		ts.Check(err)
		if len(page.Data) > 0 {
			ts.Setenv(args[0], page.Data[0].ID)
			return
		}
	}
	ts.Fatalf("no dead letter came")
}

// redisServers are those that scripts have started.
type redisServers struct {
	t *testing.T

	mu    sync.Mutex
	byURL map[string]*testenv.RedisServer
}

func (r *redisServers) command(ts *testscript.TestScript, _ bool, args []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch args[0] {
	case "start":
		s := testenv.Redis(r.t, args[2:]...)
		r.byURL[s.URL] = s
		ts.Setenv(args[1], s.URL)
	case "plant":
		c := r.byURL[args[1]].Client()
		tray := r.byURL[args[1]].Must("KEYS", "{doorbuster:"+args[2]+".0.*}:tray")
		err := c.Do(r.t.Context(), c.B().Xadd().Key(tray).Id("*").FieldValue().FieldValue("what", "is this").Build()).Error()
		ts.Check(err)
	case "kill":
		r.byURL[args[1]].Kill()
	default:
		ts.Fatalf("redis cannot %s", args[0])
	}
}

func pay(ctx context.Context, ts *testscript.TestScript, args []string) {
	amount, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	key := strings.TrimSpace(ts.ReadFile(filepath.Join(ts.Getenv("DATA"), "admin.key")))
	r, err := caller(ts, key).Pay(ctx, args[0], client.Payment{ID: "pay-" + args[0], Status: "succeeded", Amount: amount, Currency: args[2]})
	ts.Check(err)
	if r.Outcome != "paid" {
		ts.Fatalf("the outcome is %s", r.Outcome)
	}
}

func alter(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(args[1]) //nolint:noctx // a local file
	ts.Check(errors.Join(err, db.Close()))
}

func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s", args[1], got)
	}
}

func replace(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[2])
	changed := strings.Replace(text, args[0], args[1], 1)
	if changed == text {
		ts.Fatalf("%s does not hold %q", args[2], args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(changed), 0o600))
}

func within(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}
