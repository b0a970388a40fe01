package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/audit"
	"github.com/doorbuster/doorbuster/internal/config"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// invoke runs a command line in this process.
func invoke(t *testing.T, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Environ: environ})
	return code, stdout.String(), stderr.String()
}

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&root{}, kong.NoDefaultHelp(), kong.BindTo(t.Context(), (*context.Context)(nil)), kong.Bind(&session{}))
	require.NoError(t, err)
	for _, leaf := range parser.Model.Leaves(false) {
		var args []string
		for node := leaf; node.Parent != nil; node = node.Parent {
			args = append([]string{node.Name}, args...)
		}
		code, out, errs := invoke(t, nil, append(args, "--help")...)
		require.Equal(t, ExitOK, code, "%v: %s", args, errs)
		require.Contains(t, out, "Usage: doorbuster "+strings.Join(args, " "))
		require.Contains(t, out, leaf.Help[:10])
		for _, f := range leaf.Flags {
			require.NotEmpty(t, f.Help, "%v --%s", args, f.Name)
		}
	}
}

func TestFlagsOfTheConfigurationAgreeWithIt(t *testing.T) {
	t.Parallel()
	values := map[string]string{"roles": "worker,gate", "data-dir": "/x", "ledger-url": "sqlite:/x/y.db", "redis-url": "redis://h:1", "api-listen": "127.0.0.1:1", "ops-listen": "127.0.0.1:2", "log-level": "warn", "log-format": "json"}
	for _, f := range config.Fields() {
		if f.Flag == "" {
			continue
		}
		value, known := values[f.Flag]
		require.True(t, known, "--%s is in the configuration but not in this test", f.Flag)
		delete(values, f.Flag)
		code, out, errs := invoke(t, nil, "config", "print", "--"+f.Flag, value)
		require.Equal(t, ExitOK, code, errs)
		name := f.Key[strings.LastIndex(f.Key, ".")+1:]
		if strings.Contains(value, ",") { // a list
			value = "[" + strings.ReplaceAll(value, ",", ", ") + "]"
		}
		require.Contains(t, out, name+": "+value+"  # --"+f.Flag+"\n")
	}
	require.Empty(t, values)
}

func TestExplain(t *testing.T) {
	t.Parallel()
	problem := func(code string, status int) error {
		return fmt.Errorf("call: %w", &client.Error{Problem: client.Problem{Code: code, Status: status, Detail: "no", Hint: "do"}})
	}
	tests := map[string]struct {
		err  error
		code int
	}{
		"usage":         {&usageError{message: "no"}, ExitUsage},
		"configuration": {&config.Error{Problems: []config.Problem{{Message: "no"}}}, ExitUsage},
		"broken":        {errors.Join(errors.New("more"), brokenError{}), ExitBroken},
		"refused":       {problem("illegal_state", 409), ExitFailure},
		"unauthorized":  {problem("unauthenticated", 401), ExitFailure},
		"unavailable":   {problem("unavailable", 503), ExitUnreachable},
		"busy":          {problem("busy", 503), ExitUnreachable},
		"limited":       {problem("rate_limited", 429), ExitUnreachable},
		"no server":     {problem("unreachable", 0), ExitUnreachable},
		"no answer":     {problem("no_answer", 0), ExitUnreachable},
		"other server":  {problem("bad_answer", 200), ExitUnreachable},
		"bad address":   {problem("invalid_request", 0), ExitUsage},
		"bad request":   {problem("invalid_request", 422), ExitFailure},
		"coded":         {sale.IllegalState("no", "do"), ExitFailure},
		"invalid":       {sale.Invalid("user", "no", "do"), ExitUsage},
		"ledger":        {sale.Unavailable(errors.New("disk full")), ExitUnreachable},
		"export":        {&audit.FileError{Line: 3, Err: audit.ErrCutShort}, ExitFailure},
		"interrupted":   {context.Canceled, ExitFailure},
		"call cut":      {&client.Error{Problem: client.Problem{Code: "no_answer"}, Err: context.Canceled}, ExitFailure},
		"file":          {&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, ExitFailure},
		"anything":      {errors.New("no"), ExitFailure},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := explain(tt.err)
			require.Equal(t, tt.code, f.code)
			var out bytes.Buffer
			f.write(&out)
			require.True(t, strings.HasPrefix(out.String(), "doorbuster: "), out.String())
			require.NotEqual(t, "doorbuster: \n", out.String())
		})
	}
	require.Contains(t, explain(sale.Unavailable(errors.New("disk full"))).message, "disk full")
}

func TestMoney(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]struct {
		amount   int64
		currency string
	}{
		"0.00 EUR": {0, "EUR"}, "0.05 EUR": {5, "EUR"}, "12.50 EUR": {1250, "EUR"}, "-0.01 USD": {-1, "USD"}, "1200 JPY": {1200, "JPY"},
		"1.234 KWD": {1234, "KWD"}, "0.0001 CLF": {1, "CLF"}, "90071992547409.91 CNY": {9007199254740991, "CNY"},
	} {
		require.Equal(t, want, money(in.amount, in.currency))
	}
}

func TestInstantsAreUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 10, 0, 0, 0, time.FixedZone("", 3600))
	require.Equal(t, "2026-11-27 09:00:00Z", instant(at))
	require.Equal(t, "2026-11-27 09:00:00.250Z", instant(at.Add(250*time.Millisecond)))
	require.Equal(t, "-", instant(time.Time{}))
	require.Equal(t, "-", instantOf(nil))
}

func TestTablesCannotBeBroken(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, table(&out, [][]string{{"A", "B"}, {"x\ty\x1b[2J", "z"}}))
	require.Equal(t, "A              B\n\"x\\ty\\x1b[2J\"  z\n", out.String())
}

func TestSettingsWithoutEquals(t *testing.T) {
	t.Parallel()
	code, _, errs := invoke(t, nil, "config", "check", "--set", "log.level")
	require.Equal(t, ExitUsage, code)
	require.Contains(t, errs, "has no =")
	code, out, _ := invoke(t, nil, "config", "print", "--set", "api.cors_origins=https://a.example,https://b.example")
	require.Equal(t, ExitOK, code)
	require.Contains(t, out, "cors_origins: [https://a.example, https://b.example]  # --set")
}

func TestReachable(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "[::1]:80": "[::1]:80", "192.0.2.1:80": "192.0.2.1:80", "shop.example:80": "shop.example:80",
		"0.0.0.0:80": "127.0.0.1:80", "[::]:80": "localhost:80",
	} {
		require.Equal(t, want, reachable(listen), listen)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost": true, "http://[::1]:1": true,
		"http://shop.example": false, "http://10.0.0.1:8080": false, "http://127.0.0.1.example": false, "http://127.0.0.1@shop.example": false, "": false,
	} {
		require.Equal(t, want, local(address), address)
	}
}

func TestSameInstant(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)
	require.True(t, sameInstant("2026-07-01T10:00:00+02:00", "", at))
	require.True(t, sameInstant("2026-07-01T10:00:00", "Europe/Berlin", at))
	require.True(t, sameInstant("2026-07-01T10:00:00.000+02:00", "Europe/Berlin", at))
	require.False(t, sameInstant("2026-07-01T10:00:00", "", at))
	require.False(t, sameInstant("2026-07-01T10:00:00", "Mars/Base", at))
	require.False(t, sameInstant("2026-07-01T10:00:01+02:00", "", at))
	require.False(t, sameInstant("tomorrow", "", at))
}

func TestCompare(t *testing.T) {
	t.Parallel()
	limit, hold := int64(2), int64(90)
	now := client.AdminSale{
		ID: "s", Title: "T", StartsAt: time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC), EndsAt: time.Date(2026, 7, 2, 8, 0, 0, 0, time.UTC),
		PerUserLimit: 1, LimitRule: "live", HoldSeconds: 300, Currency: "EUR", Items: []client.AdminItem{{SKU: "a", Price: 5, Title: "A"}},
	}
	p, changed := compare(&now, &client.NewSale{ID: "s", Items: []client.NewItem{{SKU: "a", Price: 5}}})
	require.Empty(t, changed, "what the file leaves out stays")
	require.Equal(t, client.SalePatch{}, p)
	p, changed = compare(&now, &client.NewSale{
		ID: "s", StartsAt: "2026-07-01T10:00:00", EndsAt: "2026-07-02T11:00:00", TimeZone: "Europe/Berlin", PerUserLimit: limit, HoldSeconds: &hold,
		Items: []client.NewItem{{SKU: "a", Price: 0, Title: "A"}},
	})
	require.Equal(t, []string{"ends_at", "per_user_limit", "hold_seconds", "items.a.price"}, changed)
	require.Equal(t, "Europe/Berlin", *p.TimeZone)
	require.Nil(t, p.StartsAt)
	require.Equal(t, int64(0), *p.Items[0].Price, "zero is a price")
}

func TestTheExampleIsASale(t *testing.T) {
	t.Parallel()
	n, err := readSale(&session{}, "../../examples/sale.yaml")
	require.NoError(t, err)
	require.Equal(t, "summer-drop-1", n.ID)
	require.Len(t, n.Items, 2)
	require.Equal(t, int64(12900), n.Items[1].Price)
	require.Equal(t, int64(sale.DefaultHold/time.Second), *n.HoldSeconds, "the comments name the defaults")
	require.Equal(t, int64(sale.DefaultMaxUnpaidHolds), *n.MaxUnpaidHolds)
	require.Equal(t, int64(sale.DefaultCoolDown/time.Second), *n.CoolDownSeconds)
	require.Equal(t, "live", n.LimitRule)
	require.Equal(t, string(sale.PathDirect), n.PreferredPath)
}

func TestTheFileChoosesThePath(t *testing.T) {
	t.Parallel()
	now := client.AdminSale{PreferredPath: "direct", Path: "direct"}
	_, changed := compare(&now, &client.NewSale{})
	require.Empty(t, changed, "what the file leaves out stays")
	p, changed := compare(&now, &client.NewSale{PreferredPath: "fast"})
	require.Equal(t, []string{"preferred_path"}, changed)
	require.Equal(t, "fast", *p.PreferredPath)
	now.PreferredPath = "fast"
	_, changed = compare(&now, &client.NewSale{PreferredPath: "fast"})
	require.Empty(t, changed, "which way attempts take now is not for a file to say")
}
