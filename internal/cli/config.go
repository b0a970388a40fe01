package cli

import (
	"context"
	"errors"

	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/config"
)

// configCmd looks at the configuration.
type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Tell every mistake in the configuration; exit 2 if there is one."`
	Print configPrintCmd `cmd:"" help:"Print the configuration in force and where each key was said; passwords are masked."`
	Doc   configDocCmd   `cmd:"" help:"Print the page that describes every key (Markdown)."`
}

type configCheckCmd struct {
	jsonFlag
	settings
	listeners
}

// checked is the result of a check in JSON.
type checked struct {
	OK       bool             `json:"ok"`
	Problems []config.Problem `json:"problems"`
}

// Run checks.
func (c *configCheckCmd) Run(ctx context.Context, s *session) error {
	cfg, err := c.load(s, c.flags()...)
	if err == nil {
		err = app.CheckTokenKey(ctx, &cfg.Config)
	}
	if err == nil {
		err = app.CheckGate(&cfg.Config)
	}
	if c.JSON {
		out := checked{OK: err == nil, Problems: problemsOf(err)}
		if writeErr := writeJSON(s.Out, out); writeErr != nil {
			return writeErr
		}
	}
	if err == nil && !c.JSON {
		return say(s.Out, "the configuration is valid")
	}
	return err
}

func problemsOf(err error) []config.Problem {
	if e, ok := errors.AsType[*config.Error](err); ok {
		return e.Problems
	}
	return []config.Problem{}
}

type configPrintCmd struct {
	jsonFlag
	settings
	listeners
}

// Run prints.
func (c *configPrintCmd) Run(s *session) error {
	cfg, err := c.load(s, c.flags()...)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, cfg.Values())
	}
	return cfg.WriteYAML(s.Out)
}

type configDocCmd struct{}

// Run prints the page.
func (c *configDocCmd) Run(s *session) error { return config.WriteMarkdown(s.Out) }
