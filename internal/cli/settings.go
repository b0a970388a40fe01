package cli

import (
	"slices"
	"strings"

	"github.com/doorbuster/doorbuster/internal/config"
)

// settings are the flags of commands that read the configuration.
type settings struct {
	Config    string   `placeholder:"FILE" help:"Configuration file (DOORBUSTER_CONFIG)."`
	DataDir   *string  `placeholder:"DIR" help:"Folder of everything the server keeps (data_dir)."`
	LedgerURL *string  `placeholder:"URL" help:"Where the ledger is (ledger.url)."`
	RedisURL  *string  `placeholder:"URL" help:"Where Redis is (redis.url)."`
	Set       []string `placeholder:"KEY=VALUE" sep:"none" help:"Set any key of the configuration; see docs/config.md. May be repeated."`
}

// listeners are the further flags of serve.
type listeners struct {
	APIListen *string `name:"api-listen" placeholder:"ADDR" help:"Address of the API (api.listen); port 0 takes a free one."`
	Roles     *string `placeholder:"LIST" help:"gate, worker or gate,worker (roles)."`
	OpsListen *string `name:"ops-listen" placeholder:"ADDR" help:"Address of health, readiness and metrics (ops.listen)."`
	LogLevel  *string `placeholder:"LEVEL" help:"debug, info, warn or error (log.level)."`
	LogFormat *string `placeholder:"FORMAT" help:"text or json (log.format)."`
}

// load reads the configuration from the file, the environment and the flags.
func (c *settings) load(s *session, more ...config.Flag) (config.Loaded, error) {
	file := c.Config
	if file == "" {
		file = s.env("DOORBUSTER_CONFIG")
	}
	flags := flagOf("--data-dir", "data_dir", c.DataDir)
	flags = append(flags, flagOf("--ledger-url", "ledger.url", c.LedgerURL)...)
	flags = append(flags, flagOf("--redis-url", "redis.url", c.RedisURL)...)
	flags = append(flags, more...)
	for _, pair := range c.Set {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return config.Loaded{}, &usageError{message: "--set: " + plain(pair) + " has no =", hint: "write --set KEY=VALUE, such as --set engine.max_batch=128"}
		}
		flags = append(flags, config.Flag{Name: "--set", Key: key, Value: value})
	}
	return config.Load(config.Sources{File: file, Environ: s.Environ, Flags: flags})
}

func (l *listeners) flags() []config.Flag {
	return slices.Concat(
		flagOf("--api-listen", "api.listen", l.APIListen), flagOf("--ops-listen", "ops.listen", l.OpsListen),
		flagOf("--roles", "roles", l.Roles), flagOf("--log-level", "log.level", l.LogLevel), flagOf("--log-format", "log.format", l.LogFormat),
	)
}

func flagOf(name, key string, value *string) []config.Flag {
	if value == nil {
		return nil
	}
	return []config.Flag{{Name: name, Key: key, Value: *value}}
}

// env returns an environment variable, empty if it is not set.
func (s *session) env(name string) string {
	for _, entry := range s.Environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
