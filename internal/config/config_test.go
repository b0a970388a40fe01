package config_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/config"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "door.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// mistakes loads and returns what is wrong, each with its hint in brackets.
func mistakes(t *testing.T, s config.Sources) []string {
	t.Helper()
	_, err := config.Load(s)
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*config.Error](err)
	require.True(t, ok, "%v", err)
	var out []string
	for _, p := range e.Problems {
		p.Source = strings.TrimPrefix(p.Source, filepath.Dir(s.File)+"/")
		out = append(out, p.String()+" ["+p.Hint+"]")
	}
	return out
}

func TestDefaultIsValid(t *testing.T) {
	t.Parallel()
	c := config.Default()
	require.NoError(t, c.Validate())
	require.Equal(t, "127.0.0.1:8080", c.API.Listen)
	require.Equal(t, "127.0.0.1:9090", c.Ops.Listen)
	require.Equal(t, "sqlite:data/doorbuster.db", c.Ledger.URL)
	require.Equal(t, "data/doorbuster.db", c.Ledger.SQLitePath())
	require.Equal(t, 20*time.Second, c.Shutdown.Grace)
	require.False(t, c.Auth.JWT.Named())
	require.Equal(t, config.Limit{InFlight: 256, Queue: 16384, Wait: 2 * time.Second}, c.API.Limits.Buy)
	require.Equal(t, config.Limit{InFlight: 128, Queue: 4096, Wait: 5 * time.Second}, c.API.Limits.Pay)
}

func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, f := range config.Fields() {
		require.Regexp(t, `^[a-z_]+(\.[a-z_]+)*$`, f.Key)
		require.NotEmpty(t, f.Doc, f.Key)
		require.True(t, strings.HasSuffix(f.Doc, "."), "%s: a meaning is a sentence", f.Key)
		require.False(t, seen[f.Env()], f.Env())
		seen[f.Env()] = true
		require.NotContains(t, config.ReservedEnv(), f.Env())
	}
}

func TestLaterSourcesWin(t *testing.T) {
	t.Parallel()
	path := file(t, "data_dir: /file\napi:\n  listen: 127.0.0.1:1\n  trusted_proxies: [10.0.0.0/8, 192.0.2.7]\nholds:\n  sweep_interval: 250ms\nlog:\n  level: debug\n")
	l, err := config.Load(config.Sources{
		File:    path,
		Environ: []string{"HOME=/root", "DOORBUSTER_API_LISTEN=127.0.0.1:2", "DOORBUSTER_LOG_LEVEL=warn", "DOORBUSTER_DATA_DIR=", "DOORBUSTER_API_CORS_ORIGINS= https://a.example , https://b.example ", "DOORBUSTER_URL=x"},
		Flags:   []config.Flag{{Name: "--log-level", Key: "log.level", Value: "error"}, {Name: "--set", Key: "engine.max_batch", Value: "7"}},
	})
	require.NoError(t, err)
	require.Equal(t, "/file", l.DataDir, "an empty variable says nothing")
	require.Equal(t, "sqlite:/file/doorbuster.db", l.Ledger.URL)
	require.Equal(t, "127.0.0.1:2", l.API.Listen)
	require.Equal(t, "error", l.Log.Level)
	require.Equal(t, 7, l.Engine.MaxBatch)
	require.Equal(t, 250*time.Millisecond, l.Holds.SweepInterval)
	require.Equal(t, []string{"https://a.example", "https://b.example"}, l.API.CORSOrigins)
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32")}, l.API.TrustedProxies)
	require.Equal(t, map[string]string{
		"data_dir": path + ":1", "api.listen": "DOORBUSTER_API_LISTEN", "api.trusted_proxies": path + ":4", "api.cors_origins": "DOORBUSTER_API_CORS_ORIGINS",
		"holds.sweep_interval": path + ":6", "log.level": "--log-level", "engine.max_batch": "--set",
	}, l.Origins)
}

func TestMistakesInTheFile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"unknown keys": {
			"api:\n  lissten: 127.0.0.1:1\n  listen: 127.0.0.1:1\nlegder:\n  url: sqlite:x\nzzz: 1\n",
			[]string{
				`door.yaml:2: there is no key "api.lissten" [did you mean api.listen?]`,
				`door.yaml:4: there is no key "legder" [did you mean ledger?]`,
				"door.yaml:6: there is no key \"zzz\" [see `doorbuster config doc` for every key]",
			},
		},
		"kinds": {
			"engine:\n  max_batch: many\n  call_timeout: 5\n  max_queue: 1.5\napi:\n  trusted_proxies: [home]\n  cors_origins: https://a.example\n  listen: [a]\nlog:\n  level:\n",
			[]string{
				"door.yaml:7: api.cors_origins: a list is wanted here [write it as [a, b], or one entry a line after a hyphen]",
				"door.yaml:8: api.listen: a single value is wanted here, not a list []",
				"door.yaml:10: log.level: a plain value is wanted here [remove the key to take its default]",
				`door.yaml:2: engine.max_batch: "many" is not a whole number, such as 256 []`,
				`door.yaml:3: engine.call_timeout: "5" is not a duration, such as 500ms, 10s or 2m []`,
				`door.yaml:4: engine.max_queue: "1.5" is not a whole number, such as 256 []`,
				`door.yaml:6: api.trusted_proxies: "home" is not a network, such as 10.0.0.0/8 or 192.0.2.7 []`,
			},
		},
		"a value where keys are wanted": {"api: yes\n", []string{`door.yaml:1: api: keys are wanted here, one a line [write them indented, as in "listen: 127.0.0.1:8080"]`}},
		"a list at the top":             {"- api\n", []string{`door.yaml:1: keys are wanted here, one a line [write them indented, as in "listen: 127.0.0.1:8080"]`}},
		"two documents":                 {"log:\n  level: info\n---\nlog:\n  level: warn\n", []string{"door.yaml:4: a second document begins here [put everything into one]"}},
		"anchors":                       {"log: &a\n  level: info\n", []string{`door.yaml:1: log: keys are wanted here, one a line [write them indented, as in "listen: 127.0.0.1:8080"]`}},
		"empty":                         {"", nil},
		"only comments":                 {"# nothing\napi:\n  # listen: x\n", nil},
		"quoted":                        {"log:\n  level: \"info\"\nengine:\n  max_batch: '9'\n", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, mistakes(t, config.Sources{File: file(t, tt.text)}))
		})
	}
}

func TestSyntaxErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"log:\n  level: [info\n", "log:\n  level: info\n  level: warn\n", "log: {level: info\n", "a: b: c\n"} {
		got := mistakes(t, config.Sources{File: file(t, text)})
		require.Len(t, got, 1, text)
		require.Regexp(t, `^door\.yaml:\d+: `, got[0])
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.Equal(t, []string{"none.yaml: the file cannot be opened: no such file or directory [check the path; without a file the built-in defaults are used]"},
		mistakes(t, config.Sources{File: filepath.Join(dir, "none.yaml")}))
	require.Equal(t, []string{filepath.Base(dir) + ": the file cannot be read: is a directory [check that it is a file]"}, mistakes(t, config.Sources{File: dir}))
	require.Equal(t, []string{"door.yaml: the file is longer than 64 KiB [check that it is a configuration file]"},
		mistakes(t, config.Sources{File: file(t, strings.Repeat("#\n", 40_000))}))
	require.Equal(t, []string{"door.yaml: the file has more than 1000 opening brackets [check that it is a configuration file]"},
		mistakes(t, config.Sources{File: file(t, strings.Repeat("[", 60_000))}))
}

func TestMistakesInTheEnvironmentAndFlags(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"DOORBUSTER_API_LISTENN: no key of the configuration has this variable [did you mean DOORBUSTER_API_LISTEN?]",
		"DOORBUSTER_WHATEVER_THIS_IS: no key of the configuration has this variable [see `doorbuster config doc` for every key]",
		`--set: there is no key "log.levle" [did you mean log.level?]`,
		`DOORBUSTER_ENGINE_MAX_BATCH: engine.max_batch: "x" is not a whole number, such as 256 []`,
	}, mistakes(t, config.Sources{
		Environ: []string{"DOORBUSTER_WHATEVER_THIS_IS=1", "DOORBUSTER_API_LISTENN=127.0.0.1:1", "DOORBUSTER_ENGINE_MAX_BATCH=x"},
		Flags:   []config.Flag{{Name: "--set", Key: "log.levle", Value: "info"}},
	}))
}

func TestKubernetesServiceVariablesAreNotKeys(t *testing.T) {
	t.Parallel()
	require.Empty(t, mistakes(t, config.Sources{Environ: []string{
		"DOORBUSTER_SERVICE_HOST=10.0.0.1", "DOORBUSTER_SERVICE_PORT=8080", "DOORBUSTER_SERVICE_PORT_HTTP=8080", "DOORBUSTER_PORT=tcp://10.0.0.1:8080",
		"DOORBUSTER_PORT_8080_TCP=tcp://10.0.0.1:8080", "DOORBUSTER_PORT_8080_TCP_PROTO=tcp", "DOORBUSTER_PORT_8080_TCP_PORT=8080", "DOORBUSTER_PORT_8080_TCP_ADDR=10.0.0.1",
		"DOORBUSTER_OPS_SERVICE_HOST=10.0.0.2",
	}}))
}

func TestValidate(t *testing.T) {
	t.Parallel()
	jwt := func(rest string) string { return "auth:\n  jwt: {" + rest + "}\n" }
	tests := map[string]struct{ text, want string }{
		"data_dir":            {`data_dir: ""`, "data_dir: the folder is missing"},
		"listen":              {"api: {listen: 8080}", `api.listen: "8080" is not an address`},
		"listen port":         {"ops: {listen: 'x:99999'}", `ops.listen: "x:99999" is not an address`},
		"postgres nowhere":    {"ledger: {url: 'postgres:///'}", "ledger.url: what follows postgres:// names no server"},
		"postgres with space": {"ledger: {url: 'postgres://u:secret@db /x'}", "ledger.url: what follows postgres:// names no server"},
		"other ledger":        {"ledger: {url: 'mysql://x'}", "ledger.url: the kind of ledger is unknown"},
		"memory":              {"ledger: {url: 'sqlite::memory:'}", "ledger.url: what follows sqlite: is not"},
		"sqlite parameters":   {"ledger: {url: 'sqlite:a.db?mode=ro'}", "ledger.url: what follows sqlite: is not"},
		"sqlite host":         {"ledger: {url: 'sqlite://a.db'}", "ledger.url: what follows sqlite: is not"},
		"redis scheme":        {"redis: {url: 'http://h'}", "redis.url: the URL does not start with redis://"},
		"redis hosts":         {"redis: {url: 'redis://:secret@a,b'}", "redis.url: there are several hosts"},
		"redis CA":            {"redis: {url: 'redis://h', ca_file: x}", "redis.ca_file: redis.url does not use TLS"},
		"redis prefix":        {"redis: {prefix: 'a{b}'}", `redis.prefix: "a{b}" is no prefix of keys`},
		"redis no prefix":     {"redis: {prefix: ''}", `redis.prefix: "" is no prefix of keys`},
		"redis timeout":       {"redis: {call_timeout: 1ms}", "redis.call_timeout: 1ms is out of range"},
		"origin with path":    {"api: {cors_origins: ['https://a.example/']}", `"https://a.example/" is not an origin`},
		"origin scheme":       {"api: {cors_origins: ['ftp://a.example']}", "is not an origin"},
		"PROXY protocol":      {"api: {proxy_protocol: maybe}", `api.proxy_protocol: "maybe" is unknown`},
		"PROXY for nobody":    {"api: {proxy_protocol: 'on'}", "api.proxy_protocol: nobody is trusted to say whose connection it is"},
		"gate mode":           {"gate: {mode: ajar}", `gate.mode: "ajar" is unknown`},
		"gate instances":      {"gate: {instances: 0}", "gate.instances: 0 is out of range"},
		"captcha of nobody":   {"gate: {captcha: {site_key: x}}", "gate.captcha.provider: no service is named"},
		"captcha provider":    {"gate: {captcha: {provider: x, site_key: x, secret_file: x, hostnames: [x]}}", `gate.captcha.provider: "x" is unknown`},
		"captcha site key":    {"gate: {captcha: {provider: geetest, secret_file: x}}", "gate.captcha.site_key: pages cannot show"},
		"captcha secret":      {"gate: {captcha: {provider: geetest, site_key: x}}", "gate.captcha.secret_file: solutions cannot be verified"},
		"captcha hosts":       {"gate: {captcha: {provider: turnstile, site_key: x, secret_file: x}}", "gate.captcha.hostnames: solutions from any page"},
		"body":                {"api: {max_body_bytes: 12}", "api.max_body_bytes: 12 is out of range"},
		"write":               {"api: {timeouts: {write: 5s}}", "api.timeouts.write: it is not longer"},
		"idle":                {"api: {timeouts: {idle: -1s}}", "api.timeouts.idle: -1s is out of range"},
		"in flight":           {"api: {limits: {pay: {in_flight: 0}}}", "api.limits.pay.in_flight: 0 is out of range"},
		"streams":             {"api: {streams: {per_user: -1}}", "api.streams.per_user: -1 is out of range"},
		"sweep":               {"holds: {sweep_interval: 3s}", "holds.sweep_interval: 3s is out of range"},
		"refresh":             {"engine: {refresh: 2s}", "engine.refresh: 2s is out of range"},
		"level":               {"log: {level: loud}", `log.level: "loud" is unknown`},
		"issuer":              {jwt(`issuer: ""`), "auth.jwt.issuer: the issuer is missing"},
		"audience":            {jwt(`audience: ""`), "auth.jwt.audience: the audience is missing"},
		"algorithm":           {jwt("algorithm: none, secret_file: x"), `auth.jwt.algorithm: "none" is unknown`},
		"two sources":         {jwt("secret_file: a, jwks_file: b"), "the key has several sources: secret_file, jwks_file"},
		"secret for a public": {jwt("algorithm: RS256, secret_file: a"), "secret_file is for HS256"},
		"public for HS256":    {jwt("public_key_file: a"), "public_key_file is for EdDSA, RS256 or ES256"},
		"development key":     {jwt("algorithm: ES256"), "the development key is for HS256"},
		"plain JWKS":          {jwt("algorithm: ES256, jwks_url: 'http://issuer.example/keys'"), "auth.jwt.jwks_url: this is neither"},
		"open without key":    {"api: {listen: '0.0.0.0:8080'}", "auth.jwt: a development key must not meet the network"},
		"open by default":     {"api: {listen: ':8080'}", "auth.jwt: a development key must not meet the network"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mistakes(t, config.Sources{File: file(t, tt.text)})
			require.NotEmpty(t, got)
			require.Contains(t, strings.Join(got, "\n"), tt.want)
			for _, g := range got {
				require.NotContains(t, g, "[]", "every refusal has a hint")
				require.NotContains(t, g, "secret@")
			}
		})
	}
}

func TestValidConfigurations(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"api: {listen: ':8080'}\nauth: {jwt: {secret_file: /run/jwt}}",
		"api: {listen: '[::1]:0', cors_origins: ['*', 'http://localhost:3000']}",
		"api: {listen: 'localhost:0'}",
		"auth: {jwt: {algorithm: EdDSA, jwks_url: 'http://127.0.0.1:9/keys'}}",
		"auth: {jwt: {algorithm: RS256, jwks_url: 'https://issuer.example/keys'}}",
		"shutdown: {grace: 0s}",
		"redis: {url: 'rediss://u:p@a:1,b:2?sentinel=m', ca_file: /run/ca.pem, prefix: Shop_1.eu:x-, call_timeout: 500ms}",
	} {
		require.Empty(t, mistakes(t, config.Sources{File: file(t, text)}), text)
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:80": true, "[::1]:80": true, "localhost:80": true, "[::ffff:127.0.0.1]:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.0.2.1:80": false, "localhost.example:80": false, "": false,
	} {
		require.Equal(t, want, config.Loopback(listen), listen)
	}
}
